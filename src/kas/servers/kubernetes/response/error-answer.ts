import { randomBytes } from 'node:crypto'
import { type Delivery, type ErrorCode, goCodeName, KasError } from '../../../../lib/errors.ts'
import { encodeStatus, mediaTypes, negotiate, type Status } from './status.ts'
import { warning } from './warning.ts'

/**
 * An answer that kas makes itself, because the call failed before a status line was sent
 * (doc/reference/tunnel-protocol.md 6.6).
 */
export interface ErrorAnswer {
  readonly code: number
  /** name, value, name, value */
  readonly headers: string[]
  readonly body: string | Uint8Array
  /** what it says */
  readonly status: Status
  /** whether the call may have reached the cluster */
  readonly delivery: Delivery
  /** stands in the message too; where nothing is traced, only with failures whose cause the caller does not get */
  readonly traceId: string | undefined
}

/** Where a call failed: before it was handed on, or on its way and at the agent. */
export type FailedAt = 'entry' | 'tunnel'

/** What the answer says of the request that failed, beside the error. */
export interface FailedRequest {
  readonly failedAt: FailedAt
  /** its Accept headers, all of them */
  readonly accept: readonly string[]
  /** whether the call may have reached the cluster */
  readonly delivery: Delivery
  /** of its trace, which each error names then; undefined: it is not traced */
  readonly traceId: string | undefined
  /** It asks what the cluster serves. */
  readonly isDiscovery: boolean
}

const messagePrefix = 'GitLab Agent Server: '
const tunnelPrefix = 'HTTP->gRPC: failed to read gRPC response: '
const plainText = ['Content-Type', 'text/plain; charset=utf-8', 'X-Content-Type-Options', 'nosniff']
/** Reasons for programs, where Kubernetes has no word. */
const statusReasons: Partial<Record<ErrorCode, string>> = { AGENT_NOT_CONNECTED: 'AgentNotConnected' }
/** What a user reads of a refusal whose text is GitLab's own and names no reason. */
const next: Partial<Record<ErrorCode, string>> = {
  USER_UNAUTHORIZED:
    'Unauthorized: the token is not known or has ended, or the agent does not let you in. kas agents lists those that do',
}
const retryAfterSeconds = 1
const usualMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/**
 * Refusals to carry the call at all, and those that only watches over WebSocket get; all else is a 502, as from
 * upstream.
 */
const ownRefusals = new Set([
  'TOO_MANY_WAITING',
  'CALLER_OVER_SHARE',
  'SHUTTING_DOWN',
  'RATE_EXCEEDED',
  'WATCH_ENDED',
  'WATCH_REFUSED',
  'WATCH_RECALLED',
])

/** GitLab's answer, or how the call to it failed, is for the caller too: upstream shows it, and users search for it. */
const withCause = new Set([
  'JOB_TOKEN_UNAUTHORIZED',
  'JOB_TOKEN_FORBIDDEN',
  'JOB_TOKEN_NOT_FOUND',
  'JOB_AGENTS_FAILED',
  'USER_FAILED',
])
const shownCauses = new Set(['GITLAB_STATUS', 'GITLAB_UNREACHABLE', 'GITLAB_ANSWER_INVALID', 'GITLAB_BUSY'])

/** The answer to a flood of unknown credentials, by media type: encoded once, for it names neither caller nor trace. */
const notCheckedBodies = new Map<string, string | Uint8Array>()

/** Whether the request may have reached the cluster: the loss of a tunnel says so itself. */
export function deliveryOf({ spec }: KasError, delivery: FailedRequest['delivery']): FailedRequest['delivery'] {
  return spec.code === 'TUNNEL_LOST' ? spec.delivery : delivery
}

export function errorAnswer(error: KasError, request: FailedRequest): ErrorAnswer {
  const { failedAt, accept, delivery } = request
  const isAway = error.spec.code === 'AGENT_NOT_CONNECTED' && error.spec.awayMs !== undefined
  const own = failedAt === 'entry' || ownRefusals.has(error.code) || isAway
  const code = own ? error.httpStatus : 502
  const traceId = request.traceId ?? (own && error.code === 'INTERNAL' ? randomBytes(16).toString('hex') : undefined)
  const trace = traceId === undefined ? '' : `. Trace ID: ${traceId}`
  const said = own ? ownText(error) : tunnelText(error)
  const message = messagePrefix + said + trace
  const reached = deliveryOf(error, delivery)
  const headers = ['Kas-Delivery', reached]
  if (code === 401) headers.push('Gitlab-Unauthorized', 'true')
  // kubectl repeats by itself what comes with this header, so only what never left may have it
  const mayRepeat = (failedAt === 'tunnel' && !isAway) || error.code === 'CREDENTIAL_NOT_CHECKED'
  if (mayRepeat && own && reached === 'none') headers.push('Retry-After', String(retryAfter(error)))
  if (request.isDiscovery && isHidden(code)) headers.push('Warning', warning(next[error.code] ?? said))
  if (error.spec.code === 'METHOD_NOT_ALLOWED') headers.push('Allow', error.spec.allowed ?? usualMethods)
  if (error.spec.code === 'UPGRADE_REQUIRED') headers.push('Upgrade', 'websocket', 'Connection', 'Upgrade')
  const isSameForAll = own && error.code === 'CREDENTIAL_NOT_CHECKED' && traceId === undefined
  const known = isSameForAll ? notCheckedBodies : undefined
  const status = { code, message, reason: statusReasons[error.code] }
  const encoded = request.isDiscovery && isShown(code) ? text : encode
  return { ...encoded(status, accept, headers, known), status, delivery: reached, traceId }
}

/**
 * client-go reads discovery as bytes: kubectl shows `unknown` for the body of such a failure, unless it is text/plain. Of a 503
 * and a 504 it never shows the body.
 */
function isShown(code: number): boolean {
  return code === 500 || code === 502
}

/**
 * Of these kubectl shows no body of any form if it asks what the cluster serves, and 1.20 takes a 403 for a cluster that serves
 * nothing. Each kubectl since 1.19 prints the header `Warning`, once for its five questions.
 */
function isHidden(code: number): boolean {
  return code === 401 || code === 403
}

function text({ code, message }: Status, _: readonly string[], headers: string[]) {
  headers.push(...plainText)
  return { code, headers, body: `${message}\n` }
}

function encode(
  status: Status,
  accept: readonly string[],
  headers: string[],
  known?: Map<string, string | Uint8Array>,
): Pick<ErrorAnswer, 'code' | 'headers' | 'body'> {
  const mediaType = negotiate(accept)
  if (mediaType === undefined) {
    headers.push(...plainText)
    const accepted = `only the following media types are accepted: ${mediaTypes.join(', ')}`
    return { code: 406, headers, body: `${messagePrefix}Failed to negotiate output media type: ${accepted}\n` }
  }
  headers.push('Content-Type', mediaType)
  const body = known?.get(mediaType) ?? encodeStatus(mediaType, status)
  known?.set(mediaType, body)
  return { code: status.code, headers, body }
}

function retryAfter({ spec }: KasError): number {
  return spec.code === 'CALLER_OVER_SHARE' ? spec.retryAfterS : retryAfterSeconds
}

function ownText(error: KasError): string {
  const { cause } = error
  const shown = withCause.has(error.code) && cause instanceof KasError && shownCauses.has(cause.code)
  return shown ? `${error.message}: ${cause.message}` : error.message
}

function tunnelText(error: KasError): string {
  return `${tunnelPrefix}rpc error: code = ${goCodeName(error.grpcCode) ?? `Code(${error.grpcCode})`} desc = ${error.message}`
}
