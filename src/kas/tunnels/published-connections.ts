import type { AgentId } from '../../call/call.ts'
import type { Logger } from '../../lib/log.ts'
import type { Membership, RowConnection } from '../../membership/membership.ts'
import type { AgentPod } from '../../proto/placement.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'

/** Most methods that are published for an agent on one connection, if it sends several descriptors. */
const maxMethods = 256

export interface PublishedConnectionsComponents {
  /** a connection for which the row has no room is added again at the next Connect */
  readonly row: Pick<Membership, 'addConnection' | 'removeConnection'>
  readonly log: Logger
}

/** State of one agent on one connection. */
interface OnConnection {
  published: RowConnection
  /** methods of the last descriptor: equal descriptors share one set */
  methods: ReadonlySet<string>
}

/** Publishes in this replica's row which agents are connected here, and the methods that they serve. */
export class PublishedConnections {
  readonly #components: PublishedConnectionsComponents
  readonly #byConnection = new Map<AgentConnection, Map<AgentId, OnConnection>>()
  #count = 0

  constructor(components: PublishedConnectionsComponents) {
    this.#components = components
  }

  /**
   * Publishes the methods that an agent has named on this connection. A proxy may carry several agents on one
   * connection.
   *
   * @param pod - absent: the agent does not name its pod
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

  /** Publishes the connection without methods: running calls go on, but peers ask for no tunnel. */
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

/** @returns `published` itself if nothing changes */
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
