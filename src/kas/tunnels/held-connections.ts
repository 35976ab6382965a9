import type { Logger } from '../../lib/log.ts'
import type { ConnectionEntry } from '../../membership/membership.ts'
import type { AgentId } from '../../proto/call.ts'
import type { Agent } from '../directory/directory.ts'
import type { AgentConnection } from './agent-connection.ts'
import type { AgentPod } from './agent-pod.ts'

export interface HeldConnectionsComponents {
  /** the own row of the table */
  readonly row: { addConnection(entry: ConnectionEntry): void; removeConnection(id: string): void }
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
  /** how many connections each pod has here */
  readonly #pods = new Map<AgentId, Map<string, number>>()
  readonly #listeners = new Set<(agentId: AgentId) => void>()
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
      this.#components.row.addConnection(entry)
    } catch (error) {
      const { log } = this.#components
      log.warn({ error, agent_id: String(agent.id) }, 'A connection of an agent is served here, but not told to others')
      return
    }
    if (known) this.#countPod(known.entry, -1)
    this.#countPod(entry, 1)
    entries.set(agent.id, { entry, methods })
    if (known?.entry.pod !== entry.pod) this.#emit(agent.id)
  }

  /** Pods of the agent that are connected here and tell their names. */
  podsOf(agentId: AgentId): Iterable<string> {
    return this.#pods.get(agentId)?.keys() ?? []
  }

  /** Calls `listener` when `podsOf` may have changed, until the returned function is called. */
  onChange(listener: (agentId: AgentId) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
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
      for (const { entry } of entries.values()) {
        this.#components.row.removeConnection(entry.id)
        this.#countPod(entry, -1)
        if (entry.pod !== '') this.#emit(entry.agentId)
      }
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

  #countPod({ agentId, pod }: ConnectionEntry, change: 1 | -1): void {
    if (pod === '') return
    const pods = this.#pods.get(agentId) ?? new Map<string, number>()
    const count = (pods.get(pod) ?? 0) + change
    if (count > 0) pods.set(pod, count)
    else pods.delete(pod)
    if (pods.size > 0) this.#pods.set(agentId, pods)
    else this.#pods.delete(agentId)
  }

  #emit(agentId: AgentId): void {
    for (const listener of [...this.#listeners]) listener(agentId)
  }
}

function sameAs(entry: ConnectionEntry, pod: AgentPod | undefined): boolean {
  return !pod || (entry.pod === pod.name && entry.role === pod.role)
}

/** @returns `entry` itself if it says all that already */
function changed(entry: ConnectionEntry, methods: ReadonlySet<string>, pod: AgentPod | undefined): ConnectionEntry {
  const missing = [...methods].filter((method) => !entry.methods.includes(method))
  if (missing.length === 0 && sameAs(entry, pod)) return entry
  return {
    ...entry,
    methods: [...entry.methods, ...missing],
    ...(pod ? { pod: pod.name, role: pod.role } : {}),
  }
}
