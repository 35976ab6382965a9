import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { UserQuestions } from '../../../lib/user-questions.ts'
import type { Registration } from '../../../membership/membership.ts'
import type { Agent } from '../../agent.ts'
import type { AgentsOfUser } from '../../directory/local-directory.ts'
import type { KasHost, KasModule } from '../../module.ts'
import type { OwnAnswer } from '../../own-endpoint.ts'

export interface AgentsOfUserComponents {
  /** returns the replicas with a connection of each of these agents, and its begin in ms since 1970 */
  readonly connectedTo: (
    ids: ReadonlySet<AgentId>,
  ) => ReadonlyMap<AgentId, readonly { readonly replica: string; readonly since?: number | undefined }[]>
  /** returns the registered pods of these agents, at any replica */
  readonly registered: (ids: ReadonlySet<AgentId>) => readonly Registration[]
}

/** Bounds of questions at once: each may read repositories. */
const maxQuestions = {
  /** questions of one user (`questions_of_user`) */
  maxOfUser: 2,
  /** questions of all users (`questions_of_users`) */
  max: 20,
}
const notServed = "GitLab's pages list the agents of a user; kas does so with directory.file alone"

/**
 * `GET <prefix>agents`: the agents that admit a user, and the replicas that they are connected to (doc/reference/directory.md
 * "Agents of a user").
 */
export function createAgentsOfUser({ localDirectory }: KasHost, components: AgentsOfUserComponents): KasModule {
  const names = { ofUser: 'questions_of_user', ofUsers: 'questions_of_users' } as const
  const questions = new UserQuestions({ ...maxQuestions, names, what: 'questions for the agents of a user' })
  const answer = (of: AgentsOfUser, signal: AbortSignal): Promise<OwnAnswer> =>
    questions.run(of.user.id, signal, async (asked) => {
      const { agents, unread } = await of.list(asked)
      const body = JSON.stringify({ user: of.user.username, agents: agentsJson(agents, components), unread })
      return { status: 200, mediaType: 'application/json', body: Buffer.from(body) }
    })
  return {
    name: 'agents of users',
    endpoints: [
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
