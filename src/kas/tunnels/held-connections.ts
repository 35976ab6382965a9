import type { AgentId } from '../../call/call.ts'
import type { Logger } from '../../lib/log.ts'
import type { Membership, RowConnection } from '../../membership/membership.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'
import type { AgentPod } from './agent-pod.ts'

/** Methods of an agent on one connection that others are told, if it tells several descriptors. */
const maxMethods = 256

export interface HeldConnectionsComponents {
  /** the own row of the table; what it does not keep is offered again at the next Connect */
  readonly row: Pick<Membership, 'addConnection' | 'removeConnection'>
  readonly log: Logger
}

/** An agent on one connection, by the first Connect that told the same. */
interface Held {
  told: RowConnection
  /** the last that it told: the same set for the same descriptor */
  methods: ReadonlySet<string>
}

/** Tells the other replicas which agents are connected here, and what they serve. */
export class HeldConnections {
  readonly #components: HeldConnectionsComponents
  readonly #held = new Map<AgentConnection, Map<AgentId, Held>>()
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
    const held = this.#of(connection)
    const known = held.get(agent.id)
    if (known?.methods === methods && sameAs(known.told, pod)) return
    const told = known ? changed(known.told, methods, pod) : this.#create(agent, methods, pod)
    if (known) known.methods = methods
    if (told === known?.told) return
    try {
      if (this.#components.row.addConnection(told)) held.set(agent.id, { told, methods })
    } catch (error) {
      const { log } = this.#components
      log.warn({ error, agent_id: String(agent.id) }, 'A connection of an agent is served here, but not told to others')
    }
  }

  #create(agent: Agent, methods: ReadonlySet<string>, pod: AgentPod | undefined): RowConnection {
    return {
      id: String(++this.#count),
      agentId: agent.id,
      projectId: agent.project.id,
      pod: pod?.name ?? '',
      role: pod?.role ?? 'home',
      methods: [...methods],
      connectedAt: Date.now(),
    }
  }

  #of(connection: AgentConnection): Map<AgentId, Held> {
    const known = this.#held.get(connection)
    if (known) return known
    const held = new Map<AgentId, Held>()
    this.#held.set(connection, held)
    connection.retired.addEventListener('abort', () => this.#retired(held), { once: true })
    void connection.session.closed.then(() => {
      this.#held.delete(connection)
      for (const { told } of held.values()) this.#components.row.removeConnection(told.id)
    })
    return held
  }

  /** What runs there goes on, but nobody needs to ask for a tunnel any more: it serves no method. */
  #retired(held: ReadonlyMap<AgentId, Held>): void {
    for (const each of held.values()) {
      each.told = { ...each.told, methods: [] }
      this.#components.row.addConnection(each.told)
    }
  }
}

function sameAs(told: RowConnection, pod: AgentPod | undefined): boolean {
  return !pod || (told.pod === pod.name && told.role === pod.role)
}

/** @returns `told` itself if it says all that already */
function changed(told: RowConnection, methods: ReadonlySet<string>, pod: AgentPod | undefined): RowConnection {
  const known = new Set(told.methods)
  const room = Math.max(0, maxMethods - known.size)
  const missing = [...methods].filter((method) => !known.has(method)).slice(0, room)
  if (missing.length === 0 && sameAs(told, pod)) return told
  return {
    ...told,
    methods: missing.length === 0 ? told.methods : [...told.methods, ...missing],
    pod: pod?.name ?? told.pod,
    role: pod?.role ?? told.role,
  }
}
