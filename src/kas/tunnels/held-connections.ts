import type { Logger } from '../../lib/log.ts'
import type { ConnectionEntry } from '../../membership/membership.ts'
import type { Agent } from '../directory/directory.ts'
import type { AgentConnection } from './agent-connection.ts'

export interface HeldConnectionsComponents {
  /** the own row of the table */
  readonly row: { addConnection(entry: ConnectionEntry): void; removeConnection(id: string): void }
  readonly log: Logger
}

/** Tells the other replicas which agents are connected here, and what they serve. */
export class HeldConnections {
  readonly #components: HeldConnectionsComponents
  readonly #entries = new Map<AgentConnection, Map<bigint, ConnectionEntry>>()
  #count = 0

  constructor(components: HeldConnectionsComponents) {
    this.#components = components
  }

  /** An agent has told on this connection what it serves. A proxy may carry several agents on one connection. */
  described(agent: Agent, connection: AgentConnection, methods: ReadonlySet<string>): void {
    const entries = this.#of(connection)
    const known = entries.get(agent.id)
    const missing = known ? [...methods].filter((method) => !known.methods.includes(method)) : [...methods]
    if (known && missing.length === 0) return
    const entry: ConnectionEntry = known
      ? { ...known, methods: [...known.methods, ...missing] }
      : {
          id: String(++this.#count),
          agentId: agent.id,
          projectId: agent.project.id,
          pod: '',
          role: 'home',
          agentMeta: new Uint8Array(0),
          methods: missing,
          connectedAt: Date.now(),
        }
    try {
      this.#components.row.addConnection(entry)
      entries.set(agent.id, entry)
    } catch (error) {
      const { log } = this.#components
      log.warn({ error, agent_id: String(agent.id) }, 'A connection of an agent is served here, but not told to others')
    }
  }

  #of(connection: AgentConnection): Map<bigint, ConnectionEntry> {
    const known = this.#entries.get(connection)
    if (known) return known
    const entries = new Map<bigint, ConnectionEntry>()
    this.#entries.set(connection, entries)
    void connection.session.closed.then(() => {
      for (const { id } of entries.values()) this.#components.row.removeConnection(id)
      this.#entries.delete(connection)
    })
    return entries
  }
}
