import type { AgentId } from '../../../call/call.ts'
import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Registration } from '../../../membership/membership.ts'
import type { Agent } from '../../agent.ts'
import type { AgentsOfUser } from '../../directory/local-directory.ts'
import type { KasHost, KasModule, OwnAnswer } from '../../module.ts'

export interface AgentsOfUserComponents {
  /** replicas that have a connection of each of these agents, and since when; ms since 1970 */
  readonly connectedTo: (
    ids: ReadonlySet<AgentId>,
  ) => ReadonlyMap<AgentId, readonly { readonly replica: string; readonly since?: number | undefined }[]>
  /** pods of these agents, at any replica */
  readonly registered: (ids: ReadonlySet<AgentId>) => readonly Registration[]
}

/** Questions that are answered at once, of all users and of one: each may have repositories read. */
const maxRunning = 20
const maxRunningOfUser = 2
const notServed = "GitLab's pages list the agents of a user; kas does so with directory.file alone"

/** `GET <prefix>agents`: the agents that let a user in, and where they are connected (doc/directory.md "Agents of a user"). */
export function createAgentsOfUser({ localDirectory }: KasHost, components: AgentsOfUserComponents): KasModule {
  const running = new Counter<bigint>({ maxOfKey: maxRunningOfUser, max: maxRunning })
  const answer = async (of: AgentsOfUser, signal: AbortSignal): Promise<OwnAnswer> => {
    const { user } = of
    const leave = running.enter(user.id)
    if (!leave) {
      const { name, limit } =
        running.of(user.id) >= maxRunningOfUser
          ? ({ name: 'questions_of_user', limit: maxRunningOfUser } as const)
          : ({ name: 'questions_of_users', limit: maxRunning } as const)
      throw new KasError({ code: 'TOO_MANY_STREAMS', name, limit, what: 'questions for the agents of a user' })
    }
    try {
      const { agents, unread } = await of.list(signal)
      const body = JSON.stringify({ user: user.username, agents: agentsJson(agents, components), unread })
      return { status: 200, mediaType: 'application/json', body: Buffer.from(body) }
    } finally {
      leave()
    }
  }
  return {
    name: 'agents of users',
    userEndpoints: [
      {
        path: '/agents',
        methods: ['GET'],
        admit: async (token) => {
          if (!localDirectory) throw new KasError({ code: 'NOT_SERVED', what: notServed })
          const of = localDirectory.agentsOfUser(token)
          return { user: of.user, answer: (signal) => answer(of, signal) }
        },
      },
    ],
  }
}

function agentsJson(agents: readonly Agent[], { connectedTo, registered }: AgentsOfUserComponents) {
  const ids = new Set(agents.map(({ id }) => id))
  const connections = connectedTo(ids)
  const pods = Map.groupBy(registered(ids), ({ agentId }) => agentId)
  return agents.map(({ id, name, project }) => {
    const ofAgent = pods.get(id) ?? []
    const firstAt = ofAgent.length > 0 ? Math.min(...ofAgent.map(({ registeredAt }) => registeredAt)) : undefined
    const connected = (connections.get(id) ?? []).map(({ replica, since = firstAt }) => ({
      replica,
      ...(since === undefined ? {} : { since: new Date(since).toISOString() }),
    }))
    return { id: String(id), name, project: project.path, pods: ofAgent.length, connected }
  })
}
