import { allowedAgents, projectOf, proxyUser } from './gitlab-decisions.ts'
import type { GitlabVersionTraits } from './gitlab-versions.ts'
import type { GitlabAgent, GitlabProject, GitlabUser, GitlabWorld } from './gitlab-world.ts'

/**
 * Rails' endpoints as doc/reference/tunnel-protocol.md 5.3 has them, with their exact codes
 * (doc/reference/gitlab-contract.md 2.2).
 */

export interface GitlabRequest {
  readonly method: string
  /** path below /api/v4 */
  readonly path: string
  readonly query: URLSearchParams
  /** names in lower case */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** parsed JSON; undefined: there was no body */
  readonly body: unknown
}

export interface GitlabAnswer {
  readonly status: number
  /** body, sent as JSON; absent: none */
  readonly body?: unknown
}

export interface EndpointContext {
  readonly world: GitlabWorld
  readonly traits: GitlabVersionTraits
  /** accepted posts in order, by path */
  readonly taken: Map<string, unknown[]>
}

type Endpoint = (request: GitlabRequest, context: EndpointContext) => GitlabAnswer
type Body = Readonly<Record<string, unknown>>

const unauthorized: GitlabAnswer = { status: 401, body: { message: '401 Unauthorized' } }
const forbidden: GitlabAnswer = { status: 403, body: { message: '403 Forbidden' } }
const notFound: GitlabAnswer = { status: 404, body: { message: '404 Not Found' } }
const noRoute: GitlabAnswer = { status: 404, body: { error: '404 Not Found' } }
const noContent: GitlabAnswer = { status: 204 }
const badRequest = (message: string): GitlabAnswer => ({ status: 400, body: { message } })

/** Prefix of requests to GitLab's own modules (doc/reference/gitlab-contract.md 2.2 no. 11 to 15). */
export const modulesPath = '/internal/kubernetes/modules/'

/** Returns true if the endpoint requires kas' JWT: all existing internal ones do. */
export function needsJwt(path: string, { agentInfoPaths, agentEvents }: GitlabVersionTraits): boolean {
  if (path === '/internal/kubernetes/agent_events' && !agentEvents) return false
  return agentInfoPaths.includes(path) || (path in endpoints && path.startsWith('/internal/'))
}

export function answer(request: GitlabRequest, context: EndpointContext): GitlabAnswer {
  const isAgentInfo = context.traits.agentInfoPaths.includes(request.path)
  const endpoint = isAgentInfo ? agentInfo : endpoints[request.path]
  const method = isAgentInfo ? 'GET' : methods[request.path]
  if (!endpoint) return noRoute
  if (method !== request.method) return { status: 405, body: { error: '405 Not Allowed' } }
  return endpoint(request, context)
}

export function agentOf(
  { headers }: Pick<GitlabRequest, 'headers'>,
  { world, traits }: Omit<EndpointContext, 'taken'>,
): GitlabAgent | undefined {
  const name = traits.tokenHeaders.find((one) => headers[one] !== undefined)
  const value = name && headers[name]
  const token = name === 'authorization' ? /^Bearer (.+)$/.exec(value ?? '')?.[1] : value
  return world.agents.find(({ tokens }) => token !== undefined && tokens.includes(token))
}

const absentGitaly = { address: 'unix:/var/opt/gitlab/gitaly/gitaly.socket', token: 'gitaly-secret' }

const agentInfo: Endpoint = (request, context) => {
  const agent = agentOf(request, context)
  if (!agent) return unauthorized
  const repository = repositoryOf(projectOf(context.world, agent.project), context)
  return { status: 200, body: { ...repository, agent_id: agent.id, agent_name: agent.name } }
}

function repositoryOf({ id, path }: GitlabProject, { world }: EndpointContext): object {
  return {
    project_id: id,
    gitaly_info: world.gitaly ?? absentGitaly,
    gitaly_repository: {
      storage_name: 'default',
      relative_path: `@hashed/${id}.git`,
      gl_repository: `project-${id}`,
      gl_project_path: path,
    },
    default_branch: 'main',
    something_new: [1, 2],
  }
}

/** Answers about a project that the agent may read, with the agent's token. */
const projectInfo: Endpoint = (request, context) => {
  if (!context.traits.projectInfo) return noRoute
  const agent = agentOf(request, context)
  if (!agent) return unauthorized
  const project = readable(request, context, agent.project)
  return project ? { status: 200, body: repositoryOf(project, context) } : notFound
}

const repositoryInfo: Endpoint = (request, context) => {
  if (!context.traits.repositoryInfo) return noRoute
  const project = asked(request, context)
  return project ? { status: 200, body: repositoryOf(project, context) } : notFound
}

const verifyProjectAccess: Endpoint = (request, context) => {
  const agent = agentOf(request, context)
  if (!agent) return unauthorized
  return readable(request, context, agent.project) ? noContent : notFound
}

function asked({ query }: GitlabRequest, { world }: EndpointContext): GitlabProject | undefined {
  const id = query.get('id') ?? ''
  return world.projects.find((one) => one.path === id || String(one.id) === id)
}

function readable(request: GitlabRequest, context: EndpointContext, own: number): GitlabProject | undefined {
  const project = asked(request, context)
  return project?.isPublic || project?.id === own ? project : undefined
}

const jobAllowedAgents: Endpoint = ({ headers }, { world, traits }) => {
  const job = world.jobs.find(({ token, isFinished }) => token === headers['job-token'] && !isFinished)
  return job ? { status: 200, body: allowedAgents(world, job, traits) } : unauthorized
}

const authorizeProxyUser: Endpoint = ({ body }, { world }) => {
  const { agent_id, access_type, access_key, csrf_token } = (body ?? {}) as Body
  if (!isInteger(agent_id) || typeof access_key !== 'string') return badRequest('parameters are missing')
  let user: GitlabUser | undefined
  if (access_type === 'session_cookie') {
    if (typeof csrf_token !== 'string' || csrf_token.trim() === '') return badRequest('csrf_token is missing')
    if (access_key === 'undecipherable') return badRequest('Unable to decrypt')
    user = world.users.find(({ sessions }) =>
      sessions.some((session) => session.cookie === access_key && session.csrfToken === csrf_token),
    )
  } else if (access_type === 'personal_access_token') {
    user = world.users.find(({ personalAccessTokens }) => personalAccessTokens.includes(access_key))
  } else {
    return badRequest('access_type does not have a valid value')
  }
  if (!user) return unauthorized
  const agent = world.agents.find(({ id }) => id === Number(agent_id))
  if (!agent) return notFound
  const grant = proxyUser(world, agent, user)
  return grant ? { status: 201, body: grant } : forbidden
}

const agentConfiguration: Endpoint = ({ path, body }, { world, taken }) => {
  const { agent_id, agent_config } = (body ?? {}) as Body
  if (!isInteger(agent_id) || typeof agent_config !== 'object') return badRequest('parameters are missing')
  if (!world.agents.some(({ id }) => id === Number(agent_id))) return notFound
  return take(taken, path, body)
}

const usageMetrics: Endpoint = ({ path, body }, { taken }) => {
  const { counters = {}, unique_counters = {} } = (body ?? {}) as { counters?: object; unique_counters?: object }
  if (!Object.values(counters).every(isInteger)) return badRequest('a counter is no integer')
  const isIds = (value: unknown) => Array.isArray(value) && value.every(isInteger)
  if (!Object.values(unique_counters).every(isIds)) return badRequest('a unique counter is no list')
  return take(taken, path, body)
}

const agentEvents: Endpoint = ({ path, body }, { taken, traits }) => {
  if (!traits.agentEvents) return noRoute
  const { events } = (body ?? {}) as { events?: object }
  const isEvent = (value: unknown) => typeof value === 'object' && isInteger((value as Body).project_id)
  const isList = (value: unknown) => Array.isArray(value) && value.every(isEvent)
  return events && Object.values(events).every(isList) ? take(taken, path, body) : badRequest('events is invalid')
}

const methods: Readonly<Record<string, string>> = {
  '/internal/kubernetes/verify_project_access': 'GET',
  '/internal/kubernetes/project_info': 'GET',
  '/internal/autoflow/repository_info': 'GET',
  '/job/allowed_agents': 'GET',
  '/internal/kubernetes/authorize_proxy_user': 'POST',
  '/internal/kubernetes/agent_configuration': 'POST',
  '/internal/kubernetes/usage_metrics': 'POST',
  '/internal/kubernetes/agent_events': 'POST',
}

const endpoints: Readonly<Record<string, Endpoint>> = {
  '/internal/kubernetes/verify_project_access': verifyProjectAccess,
  '/internal/kubernetes/project_info': projectInfo,
  '/internal/autoflow/repository_info': repositoryInfo,
  '/job/allowed_agents': jobAllowedAgents,
  '/internal/kubernetes/authorize_proxy_user': authorizeProxyUser,
  '/internal/kubernetes/agent_configuration': agentConfiguration,
  '/internal/kubernetes/usage_metrics': usageMetrics,
  '/internal/kubernetes/agent_events': agentEvents,
}

function take(taken: Map<string, unknown[]>, path: string, body: unknown): GitlabAnswer {
  taken.set(path, [...(taken.get(path) ?? []), body])
  return noContent
}

/** Returns true for integers; Rails accepts numbers as text too. */
function isInteger(value: unknown): boolean {
  return Number.isSafeInteger(value) || (typeof value === 'string' && /^\d+$/.test(value))
}
