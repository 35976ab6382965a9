/** The closed list of errors, as one table: doc/reference/errors.md says what an operator does about each. */

/** gRPC status codes. */
export const Code = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const

/**
 * Possible delivery of a call to the cluster. It is sent as `Kas-Delivery`, so that a client knows whether a repeat can
 * do harm.
 */
export type Delivery = 'none' | 'maybe'

/** Limits behind TOO_MANY_STREAMS. */
export const limitNames = [
  // of agents
  'connections_of_agent',
  'tunnels_of_agent',
  'calls_of_agent',
  'method_calls_of_agent',
  'method_rate_of_agent',
  'head_bytes_of_agent',
  'undecided_head_bytes_of_connection',
  'path_bytes_of_agent',
  'waiting_project_lists',
  'followed_refs_of_project',
  'waiting_rounds',
  // of the callers of agents
  'calls_at_replica',
  'own_requests_about_agent',
  'waiting_previews',
  'previews_of_agent',
  'signed_requests',
  'front_check_requests',
  'front_check_sockets',
  'questions_of_user',
  'questions_of_users',
  'log_questions_of_user',
  'views_of_agent',
  'sockets_about_agent',
  'graph_bytes_about_agent',
  'watch_bytes_about_agent',
  'views_of_socket',
  'open_nodes_of_view',
  'open_node_characters_of_view',
  'log_readers',
  // at an agent
  'views_at_agent',
  'view_streams',
  'viewers',
  'viewer_rights',
  'viewer_rights_of_user',
  'objects_in_views',
  'objects_in_views_of_user',
  'drift_questions',
  'previews',
  'preview_bytes',
  'waiting_api_calls',
  'waiting_deletions',
] as const
export type LimitName = (typeof limitNames)[number]

/** Parts of a replica's memory that all its callers share. */
const memoryShares = {
  unread: 'what is sent and not read',
  callers: 'connections and calls',
} as const
export type MemoryShare = keyof typeof memoryShares
export const memoryShareNames = Object.keys(memoryShares) as readonly MemoryShare[]

interface Row<Data> {
  grpc: number
  http: number
  /** text for the caller; upstream's words if there are any */
  text: (data: Data) => string
}
const row = <Data = Record<never, never>>(
  grpc: number,
  http: number,
  text: string | ((data: Data) => string),
): Row<Data> => ({
  grpc,
  http,
  text: typeof text === 'string' ? () => text : text,
})

/** Upstream's word and the reason, which agentk logs. */
const withReason = (word: string) => (d: { reason?: string }) =>
  d.reason === undefined ? word : `${word}: ${d.reason}`

function branchesText(branches: readonly string[], d: { names?: string; count?: number }): string {
  const named = d.names === undefined ? '' : `it names ${d.names}, which is not there; `
  const more = (d.count ?? 0) - branches.length
  return `${named}the repository has ${branches.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** An agent without a connection to any replica. */
export interface Away {
  readonly agentId: string
  /** least time without a connection. ms */
  readonly awayMs: number
  /** end of its last connection, in ms since 1970; absent: this replica has not seen it */
  readonly awaySince?: number
}

const logOfAgent = 'Its log says why: kubectl -n <namespace of the agent> logs deployment/agentk, in its cluster'

/** Says since when an agent is away, and names the log with the reason. */
function awayText(d: Partial<Away>): string {
  if (d.awayMs === undefined) return ''
  const since = d.awaySince === undefined ? '' : `since ${new Date(d.awaySince).toISOString().slice(0, 19)}Z, `
  const least = d.awaySince === undefined ? 'at least ' : ''
  const time = `${since}for ${least}${Math.floor(d.awayMs / 1000)} s`
  return ` No replica of kas has had a connection of agent ${d.agentId} ${time}. ${logOfAgent}`
}

const table = {
  // identity of the caller
  UNAUTHENTICATED: row<{ detail?: string; reason?: string }>(Code.UNAUTHENTICATED, 401, withReason('unauthenticated')),
  FORBIDDEN: row<{ reason?: string }>(Code.PERMISSION_DENIED, 403, withReason('forbidden')),
  JWT_INVALID: row(Code.UNAUTHENTICATED, 401, 'JWT validation failed'),
  AGENT_NOT_FOUND: row<{ reason?: string }>(Code.NOT_FOUND, 404, withReason('agent not found')),
  DIRECTORY_UNAVAILABLE: row<{ reason?: string }>(Code.UNAVAILABLE, 503, withReason('unavailable')),
  /** a page that may not call with a cookie */
  ORIGIN_NOT_ALLOWED: row(
    Code.PERMISSION_DENIED,
    403,
    'Forbidden: the Origin of the request is not that of GitLab (gitlab.external_url). ' +
      'A request from elsewhere needs an Authorization header, and its preflight is refused',
  ),
  CREDENTIALS_INVALID: row<{ detail: string }>(Code.UNAUTHENTICATED, 401, (d) => `Unauthorized: ${d.detail}`),
  JOB_TOKEN_UNAUTHORIZED: row(Code.UNAUTHENTICATED, 401, 'Unauthorized: CI job token'),
  JOB_TOKEN_FORBIDDEN: row(Code.PERMISSION_DENIED, 403, 'Forbidden: CI job token'),
  JOB_TOKEN_NOT_FOUND: row(Code.NOT_FOUND, 404, 'Not found: agents for CI job token'),
  JOB_AGENTS_FAILED: row(Code.INTERNAL, 500, 'Failed to get allowed agents for CI job token'),
  AGENT_NOT_ALLOWED: row(Code.PERMISSION_DENIED, 403, 'Forbidden: agentId is not allowed'),
  USER_UNAUTHORIZED: row(Code.UNAUTHENTICATED, 401, 'Unauthorized'),
  USER_FAILED: row(Code.INTERNAL, 500, 'Failed to authorize user session'),
  IMPERSONATION_UNKNOWN: row<{ found: string }>(
    Code.INTERNAL,
    500,
    (d) => `Failed to impersonate: unknown access_as "${d.found}"`,
  ),
  /** a name that a request impersonates, by its headers or by configuration, is not allowed */
  IDENTITY_REFUSED: row<{ detail: string }>(Code.PERMISSION_DENIED, 403, (d) => d.detail),
  SESSION_ENDED: row<{ reason?: string }>(Code.PERMISSION_DENIED, 403, withReason('Ended by an operator')),
  RATE_EXCEEDED: row(
    Code.RESOURCE_EXHAUSTED,
    429,
    'New connection rate limit for this agent is exhausted. Please try again later',
  ),
  /** `name`: for the log; `what`: for the refused caller; `own`: the caller's part, if callers share the limit */
  TOO_MANY_STREAMS: row<{ name: LimitName; limit: number; what: string; own?: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) =>
      d.own
        ? `Too many ${d.what}, allowed: ${d.limit}. You hold ${d.own} of them: end some, or try again later`
        : `Too many ${d.what}, allowed: ${d.limit}. Please try again later`,
  ),
  CREDENTIAL_NOT_CHECKED: row(
    Code.RESOURCE_EXHAUSTED,
    429,
    'Too many unknown credentials are to be checked. Please try again later',
  ),
  // GitLab's refusals and failures
  /** `told`: GitLab's own message, for the log */
  GITLAB_STATUS: row<{ status: number; path: string; retryAfterMs?: number; told?: string }>(
    Code.UNAVAILABLE,
    502,
    (d) => `HTTP status code: ${d.status} for path ${d.path}`,
  ),
  /** `headArrived`: GitLab began to answer */
  GITLAB_UNREACHABLE: row<{ path: string; detail: string; headArrived: boolean }>(
    Code.UNAVAILABLE,
    502,
    (d) => `GitLab did not answer for path ${d.path}: ${d.detail}`,
  ),
  GITLAB_ANSWER_INVALID: row<{ path: string; detail: string }>(
    Code.UNAVAILABLE,
    502,
    (d) => `The answer of GitLab for path ${d.path} cannot be used: ${d.detail}`,
  ),
  GITLAB_BUSY: row<{ waitedMs: number }>(
    Code.UNAVAILABLE,
    502,
    (d) => `Too many calls wait for GitLab: no turn after ${d.waitedMs} ms`,
  ),
  // target of the call
  PREFIX_MISSING: row<{ prefix: string }>(
    Code.INVALID_ARGUMENT,
    400,
    'Bad request: URL does not start with expected prefix',
  ),
  BAD_REQUEST: row<{ detail: string }>(Code.INVALID_ARGUMENT, 400, (d) => `Bad request: ${d.detail}`),
  /** `allowed`: the methods, if they are not the usual ones */
  METHOD_NOT_ALLOWED: row<{ method: string; allowed?: string }>(
    Code.UNIMPLEMENTED,
    405,
    (d) => `Method ${d.method} is not allowed`,
  ),
  NOT_SERVED: row<{ what: string }>(Code.UNIMPLEMENTED, 404, (d) => `Not found: ${d.what}`),
  UPGRADE_REQUIRED: row<{ protocol: string }>(
    Code.FAILED_PRECONDITION,
    426,
    (d) => `A WebSocket with the sub-protocol ${d.protocol} is spoken here`,
  ),
  TOO_MANY_WATCHES: row<{ limit: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) => `More than ${d.limit} watches run over this WebSocket`,
  ),
  WATCH_ENDED: row(Code.OUT_OF_RANGE, 410, 'The cluster has ended the watch'),
  /** its tunnel goes to another caller */
  WATCH_RECALLED: row(Code.UNAVAILABLE, 503, 'The watch ends here: others wait for the agent. It may be opened again'),
  WATCH_REFUSED: row<{ status: number }>(
    Code.UNKNOWN,
    502,
    (d) => `The cluster answered the watch with HTTP status ${d.status}`,
  ),
  VIEWS_NOT_SERVED: row<{ reason: string }>(
    Code.UNIMPLEMENTED,
    404,
    (d) => `The agent does not serve views: ${d.reason}`,
  ),
  GITOPS_NOT_ASKED: row<{ reason: string }>(
    Code.UNIMPLEMENTED,
    404,
    (d) => `The agent cannot be asked about its sources: ${d.reason}`,
  ),
  VIEWS_NOT_LED: row<{ waitedMs: number }>(
    Code.UNAVAILABLE,
    503,
    (d) =>
      `No pod of the agent leads: none reaches its API server, or the one that leads is silent for ${Math.round(d.waitedMs / 1000)} s. ${logOfAgent}`,
  ),
  /** in the agent's words; `agentCode`: code of this list in the agent's version */
  VIEW_ENDED: row<{ agentCode: string; detail: string }>(Code.UNKNOWN, 502, (d) => d.detail),
  EXPECTATION_FAILED: row(Code.INVALID_ARGUMENT, 417, 'Only 100-continue can be expected'),
  HEAD_TOO_LARGE: row(Code.RESOURCE_EXHAUSTED, 431, 'The head of the request is too large'),
  HEAD_TOO_SLOW: row(Code.DEADLINE_EXCEEDED, 408, 'The head of the request took too long'),
  BODY_TOO_SLOW: row(Code.DEADLINE_EXCEEDED, 408, 'The body of the request took too long'),
  METHOD_UNKNOWN: row<{ method: string }>(Code.UNIMPLEMENTED, 404, (d) => `unknown method ${d.method}`),
  INVALID_MESSAGE: row<{ detail: string }>(Code.INVALID_ARGUMENT, 400, (d) => d.detail),
  MESSAGE_TOO_LARGE: row<{ bytes: number; maxBytes: number }>(
    Code.RESOURCE_EXHAUSTED,
    413,
    (d) => `received message larger than max (${d.bytes} vs. ${d.maxBytes})`,
  ),
  /** the head of a request or an answer inside a call */
  HTTP_HEAD_TOO_LARGE: row<{ limit: number; unit: string }>(
    Code.RESOURCE_EXHAUSTED,
    502,
    (d) => `The head of the HTTP message has more than ${d.limit} ${d.unit}`,
  ),
  CONFIGURATION_INVALID: row<{ detail: string }>(Code.FAILED_PRECONDITION, 422, (d) => `Config: ${d.detail}`),
  PROJECT_NOT_READABLE: row<{ project: string }>(Code.NOT_FOUND, 404, 'project not found'),
  MANIFESTS_REFUSED: row<{ detail: string }>(
    Code.FAILED_PRECONDITION,
    422,
    (d) => `GitOps: failed to get objects to synchronize: manifest file: ${d.detail}`,
  ),
  /** `isRefused`: the pushed content exceeds a bound, and another read fails too */
  REPOSITORY_FAILED: row<{ detail: string; isRefused?: boolean }>(
    Code.UNAVAILABLE,
    502,
    (d) => `Repository: ${d.detail}`,
  ),
  PUSH_EVENT_UNTOLD: row(Code.UNAVAILABLE, 503, 'Failed to publish the push event'),
  /** `names`: branch of HEAD; `branches`: some of the `count` existing branches */
  REF_NOT_FOUND: row<{ ref: string; names?: string; branches?: readonly string[]; count?: number }>(
    Code.NOT_FOUND,
    404,
    (d) => `ref ${d.ref} not found${d.branches ? `: ${branchesText(d.branches, d)}` : ''}`,
  ),
  // connection to the agent
  /** `Away`: absent if the agent has just left, or nothing is known about it */
  AGENT_NOT_CONNECTED: row<{ waitedMs: number } & Partial<Away>>(
    Code.DEADLINE_EXCEEDED,
    502,
    (d) => `Agent connection not found. Is agent up to date and connected?${awayText(d)}`,
  ),
  AGENT_SATURATED: row<{ waitedMs: number }>(
    Code.RESOURCE_EXHAUSTED,
    502,
    (d) => `All tunnels of the agent were busy for ${d.waitedMs} ms. The agent is connected and saturated`,
  ),
  HOLDER_UNREACHABLE: row(
    Code.UNAVAILABLE,
    502,
    'The replica of kas that holds the connection of the agent does not answer. Please try again later',
  ),
  TOO_MANY_WAITING: row<{ limit: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) => `More than ${d.limit} calls wait for this agent. Please try again later`,
  ),
  /** others wait. `held`: the caller's tunnels, out of the `living` ones of the agent at the replica */
  CALLER_OVER_SHARE: row<{ agentId: string; held: number; living: number; watches: number; retryAfterS: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) =>
      `You hold ${d.held} of the ${d.living} tunnels that agent ${d.agentId} has here, ${d.watches} of them watches, ` +
      'and others wait. Please end some, or try again later',
  ),
  TOO_MUCH_UNREAD: row<{ limit: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) => `More than ${d.limit} bytes from this agent wait to be read. Please try again later`,
  ),
  /** `share`: part of the replica's memory; the caller or project that holds most of it is refused, or its calls end */
  REPLICA_MEMORY_FULL: row<{ share: MemoryShare; limit: number }>(
    Code.RESOURCE_EXHAUSTED,
    429,
    (d) =>
      `This replica of kas has ${Math.round(d.limit / 2 ** 20)} MiB for ${memoryShares[d.share]}, all in use, and your calls or those ` +
      "of the agent's project hold most of it. Please read their answers or end some, or try again later",
  ),
  TUNNEL_LOST: row<{ delivery: Delivery }>(Code.UNAVAILABLE, 502, 'The connection of the agent was lost'),
  SHUTTING_DOWN: row(Code.UNAVAILABLE, 503, 'kas is shutting down'),
  CANCELLED: row<{ detail?: string }>(Code.CANCELLED, 499, (d) => d.detail ?? 'The caller left'),
  DEADLINE_EXCEEDED: row(Code.DEADLINE_EXCEEDED, 504, 'deadline exceeded'),
  /** a status of the other side of a call, passed on unchanged */
  STATUS: row<{ grpc: number; message: string; details?: Uint8Array }>(Code.UNKNOWN, 502, (d) => d.message),
  INTERNAL: row(Code.INTERNAL, 500, 'Internal error'),
  /** kas, a proxy or the API server, as seen by agentk. `httpStatus`: status of its answer */
  UNREACHABLE: row<{ detail: string; httpStatus?: number }>(Code.UNAVAILABLE, 502, (d) => d.detail),
  // at the start of a program
  /** `hints`: possible causes that are no faults by themselves */
  SETTINGS_INVALID: row<{ file: string; problems: readonly string[]; hints?: readonly string[] }>(
    Code.FAILED_PRECONDITION,
    500,
    (d) => [...d.problems, ...(d.hints ?? [])].map((line) => `${d.file}: ${line}`).join('\n'),
  ),
}

export type ErrorCode = keyof typeof table
export const errorCodes = Object.keys(table) as readonly ErrorCode[]
type DataOf<C extends ErrorCode> = (typeof table)[C] extends Row<infer Data> ? Data : never
export type ErrorSpec = { [C in ErrorCode]: { code: C } & DataOf<C> }[ErrorCode]

/** Codes that end a call at once, and drop its unsent data. */
export const dropped: ReadonlySet<ErrorCode> = new Set(['TOO_MUCH_UNREAD', 'REPLICA_MEMORY_FULL'])

/**
 * Errors without a stack. Strangers can cause thousands of them, and a stack, which explains none of them, is a third
 * of the cost.
 */
const traceless: ReadonlySet<ErrorCode> = new Set([
  'UNAUTHENTICATED',
  'CREDENTIALS_INVALID',
  'JOB_TOKEN_UNAUTHORIZED',
  'USER_UNAUTHORIZED',
  'CREDENTIAL_NOT_CHECKED',
  'RATE_EXCEEDED',
  'TOO_MANY_STREAMS',
  'CALLER_OVER_SHARE',
  'REPLICA_MEMORY_FULL',
  'CANCELLED',
])

export class KasError extends Error {
  readonly spec: ErrorSpec

  constructor(spec: ErrorSpec, options?: ErrorOptions) {
    const { stackTraceLimit } = Error
    if (traceless.has(spec.code)) Error.stackTraceLimit = 0
    super((table[spec.code].text as (data: ErrorSpec) => string)(spec), options)
    Error.stackTraceLimit = stackTraceLimit
    this.name = 'KasError'
    this.spec = spec
  }

  get code(): ErrorCode {
    return this.spec.code
  }

  get grpcCode(): number {
    return this.spec.code === 'STATUS' ? this.spec.grpc : table[this.spec.code].grpc
  }

  get httpStatus(): number {
    const { spec } = this
    if (spec.code === 'VIEW_ENDED' && spec.agentCode === 'TOO_MANY_STREAMS') return table[spec.agentCode].http
    return table[spec.code].http
  }

  /**
   * Returns any error as a KasError: an AbortError is CANCELLED, a TimeoutError DEADLINE_EXCEEDED, others are INTERNAL.
   */
  static from(error: unknown): KasError {
    if (error instanceof KasError) return error
    const name = error instanceof Error ? error.name : ''
    if (name === 'AbortError') return new KasError({ code: 'CANCELLED' }, { cause: error })
    if (name === 'TimeoutError') return new KasError({ code: 'DEADLINE_EXCEEDED' }, { cause: error })
    return new KasError({ code: 'INTERNAL' }, { cause: error })
  }
}

/** Field of a log line: the limit behind TOO_MANY_STREAMS. */
export function limitField({ spec }: KasError): { limit_name?: LimitName } {
  return spec.code === 'TOO_MANY_STREAMS' ? { limit_name: spec.name } : {}
}

/** Returns the message of an error. An AggregateError (all addresses refused) has none of its own. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.message) return error.message
  if (error instanceof AggregateError) return error.errors.map(errorText).join('; ')
  return String((error as NodeJS.ErrnoException).code ?? 'unknown error')
}

const goNames = new Map<number, string>(Object.entries(Code).map(([name, code]) => [code, goName(name)]))

/** Returns a gRPC status in grpc-go's spelling: `OK`, `Canceled`, `DeadlineExceeded`; undefined: not a gRPC code. */
export function goCodeName(code: number): string | undefined {
  return goNames.get(code)
}

function goName(name: string): string {
  if (name === 'OK') return name
  if (name === 'CANCELLED') return 'Canceled' // Go has one l
  return name.replaceAll(/([A-Z])([A-Z]*)_?/g, (_, first: string, rest: string) => first + rest.toLowerCase())
}
