import type { AgentId } from '../../call/call.ts'
import type { Logger } from '../../lib/log.ts'
import type { Membership, RowConnection } from '../../membership/membership.ts'
import type { AgentPod } from '../../proto/placement.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'

/** Methods of an agent on one connection that are published, if it sends several descriptors. */
const maxMethods = 256

export interface PublishedConnectionsComponents {
  /** what the own row does not keep is offered again at the next Connect */
  readonly row: Pick<Membership, 'addConnection' | 'removeConnection'>
  readonly log: Logger
}

/** An agent on one connection. */
interface OnConnection {
  published: RowConnection
  /** by its last descriptor: the same set for the same one */
  methods: ReadonlySet<string>
}

/** Publishes in the own row which agents are connected here, and what they serve. */
export class PublishedConnections {
  readonly #components: PublishedConnectionsComponents
  readonly #byConnection = new Map<AgentConnection, Map<AgentId, OnConnection>>()
  #count = 0

  constructor(components: PublishedConnectionsComponents) {
    this.#components = components
  }

  /**
   * An agent has said on this connection what it serves. A proxy may carry several agents on one connection.
   *
   * @param pod - absent: it does not say
   */
  described(agent: Agent, connection: AgentConnection, methods: ReadonlySet<string>, pod?: AgentPod): void {
    const agents = this.#of(connection)
    const known = agents.get(agent.id)
    if (known?.methods === methods && sameAs(known.published, pod)) return
    const published = known ? changed(known.published, methods, pod) : this.#create(agent, methods, pod)
    if (known) known.methods = methods
    if (published === known?.published) return
    try {
      if (this.#components.row.addConnection(published)) agents.set(agent.id, { published, methods })
    } catch (error) {
      const { log } = this.#components
      log.warn(
        { error, agent_id: String(agent.id) },
        'A connection of an agent is served here, but not published to others',
      )
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

  #of(connection: AgentConnection): Map<AgentId, OnConnection> {
    const known = this.#byConnection.get(connection)
    if (known) return known
    const agents = new Map<AgentId, OnConnection>()
    this.#byConnection.set(connection, agents)
    connection.retired.addEventListener('abort', () => this.#retired(agents), { once: true })
    void connection.session.closed.then(() => {
      this.#byConnection.delete(connection)
      for (const { published } of agents.values()) this.#components.row.removeConnection(published.id)
    })
    return agents
  }

  /** What runs there goes on, but nobody needs to ask for a tunnel any more: it serves no method. */
  #retired(agents: ReadonlyMap<AgentId, OnConnection>): void {
    for (const each of agents.values()) {
      each.published = { ...each.published, methods: [] }
      this.#components.row.addConnection(each.published)
    }
  }
}

function sameAs(published: RowConnection, pod: AgentPod | undefined): boolean {
  return !pod || (published.pod === pod.name && published.role === pod.role)
}

/** @returns `published` itself if it says all that already */
function changed(published: RowConnection, methods: ReadonlySet<string>, pod: AgentPod | undefined): RowConnection {
  const known = new Set(published.methods)
  const room = Math.max(0, maxMethods - known.size)
  const missing = [...methods].filter((method) => !known.has(method)).slice(0, room)
  if (missing.length === 0 && sameAs(published, pod)) return published
  return {
    ...published,
    methods: missing.length === 0 ? published.methods : [...published.methods, ...missing],
    pod: pod?.name ?? published.pod,
    role: pod?.role ?? published.role,
  }
}
