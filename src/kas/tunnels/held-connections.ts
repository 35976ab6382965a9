import type { AgentId } from '../../call/call.ts'
import type { Logger } from '../../lib/log.ts'
import type { ConnectionEntry } from '../../membership/membership.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'
import type { AgentPod } from './agent-pod.ts'

/** Methods of an agent on one connection that others are told, if it tells several descriptors. */
const maxMethods = 256

export interface HeldConnectionsComponents {
  /** the own row of the table; what it does not keep is offered again at the next Connect */
  readonly row: { addConnection(entry: ConnectionEntry): boolean; removeConnection(id: string): void }
  readonly log: Logger
}

/** An agent on one connection, by the first Connect that told the same. */
interface Held {
  entry: ConnectionEntry
  /** the last that it told: the same set for the same descriptor */
  methods: ReadonlySet<string>
}

/** Tells the other replicas which agents are connected here, and what they serve. */
export class HeldConnections {
  readonly #components: HeldConnectionsComponents
  readonly #entries = new Map<AgentConnection, Map<AgentId, Held>>()
  #count = 0

  constructor(components: HeldConnectionsComponents) {
    this.#components = components
  }

  /**
   * An agent has told on this connection what it serves. A proxy may carry several agents on one connection.
   *
   * @param pod - absent: it does not tell
   */
  described(agent: Agent, connection: AgentConnection, methods: ReadonlySet<string>, pod?: AgentPod): void {
    const entries = this.#of(connection)
    const known = entries.get(agent.id)
    if (known?.methods === methods && sameAs(known.entry, pod)) return
    const entry = known ? changed(known.entry, methods, pod) : this.#create(agent, methods, pod)
    if (known) known.methods = methods
    if (entry === known?.entry) return
    try {
      if (this.#components.row.addConnection(entry)) entries.set(agent.id, { entry, methods })
    } catch (error) {
      const { log } = this.#components
      log.warn({ error, agent_id: String(agent.id) }, 'A connection of an agent is served here, but not told to others')
    }
  }

  #create(agent: Agent, methods: ReadonlySet<string>, pod: AgentPod | undefined): ConnectionEntry {
    return {
      id: String(++this.#count),
      agentId: agent.id,
      projectId: agent.project.id,
      pod: pod?.name ?? '',
      role: pod?.role ?? 'home',
      agentMeta: new Uint8Array(0),
      methods: [...methods],
      connectedAt: Date.now(),
    }
  }

  #of(connection: AgentConnection): Map<AgentId, Held> {
    const known = this.#entries.get(connection)
    if (known) return known
    const entries = new Map<AgentId, Held>()
    this.#entries.set(connection, entries)
    connection.retired.addEventListener('abort', () => this.#retired(entries), { once: true })
    void connection.session.closed.then(() => {
      this.#entries.delete(connection)
      for (const { entry } of entries.values()) this.#components.row.removeConnection(entry.id)
    })
    return entries
  }

  /** What runs there goes on, but nobody needs to ask for a tunnel any more: it serves no method. */
  #retired(entries: ReadonlyMap<AgentId, Held>): void {
    for (const held of entries.values()) {
      held.entry = { ...held.entry, methods: [] }
      this.#components.row.addConnection(held.entry)
    }
  }
}

function sameAs(entry: ConnectionEntry, pod: AgentPod | undefined): boolean {
  return !pod || (entry.pod === pod.name && entry.role === pod.role)
}

/** @returns `entry` itself if it says all that already */
function changed(entry: ConnectionEntry, methods: ReadonlySet<string>, pod: AgentPod | undefined): ConnectionEntry {
  const known = new Set(entry.methods)
  const room = Math.max(0, maxMethods - known.size)
  const missing = [...methods].filter((method) => !known.has(method)).slice(0, room)
  if (missing.length === 0 && sameAs(entry, pod)) return entry
  return {
    ...entry,
    methods: missing.length === 0 ? entry.methods : [...entry.methods, ...missing],
    ...(pod ? { pod: pod.name, role: pod.role } : {}),
  }
}
