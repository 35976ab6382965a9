import { randomBytes } from 'node:crypto'
import { type Delivery, type ErrorCode, goCodeName, KasError } from '../../../../lib/errors.ts'
import { encodeStatus, mediaTypes, negotiate, type Status } from './status.ts'
import { warning } from './warning.ts'

/** An answer of kas itself: the call failed before a status line was sent (doc/reference/tunnel-protocol.md 6.6). */
export interface ErrorAnswer {
  readonly code: number
  /** name, value, name, value */
  readonly headers: string[]
  readonly body: string | Uint8Array
  /** status in the body */
  readonly status: Status
  /** `maybe`: the call may have reached the cluster */
  readonly delivery: Delivery
  /** id in the message; without tracing, only errors whose cause the caller does not get have one */
  readonly traceId: string | undefined
}

/** Place where a call failed: before it was forwarded, or on its way and at the agent. */
export type FailedAt = 'entry' | 'tunnel'

/** Properties of the failed request that the answer depends on. */
export interface FailedRequest {
  readonly failedAt: FailedAt
  /** values of all Accept headers */
  readonly accept: readonly string[]
  /** `maybe`: the call may have reached the cluster */
  readonly delivery: Delivery
  /** id of the trace, which each error then names; undefined: the request is not traced */
  readonly traceId: string | undefined
  /** the request asks which APIs the cluster serves */
  readonly isDiscovery: boolean
}

const messagePrefix = 'GitLab Agent Server: '
const tunnelPrefix = 'HTTP->gRPC: failed to read gRPC response: '
const plainText = ['Content-Type', 'text/plain; charset=utf-8', 'X-Content-Type-Options', 'nosniff']
/** Reasons for programs, where Kubernetes defines none. */
const statusReasons: Partial<Record<ErrorCode, string>> = { AGENT_NOT_CONNECTED: 'AgentNotConnected' }
/** Texts for users in place of GitLab's own, which give no reason. */
const next: Partial<Record<ErrorCode, string>> = {
  USER_UNAUTHORIZED:
    'Unauthorized: the token is not known or has ended, or the agent does not let you in. kas agents lists those that do',
}
const retryAfterSeconds = 1
const usualMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/**
 * Errors that keep their own status: refusals to carry a call, and errors of watches over WebSocket. All other errors
 * are a 502, as in upstream.
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

/** Errors that show GitLab's answer, or the failure of asking it: upstream shows it too, and users search for it. */
const withCause = new Set([
  'JOB_TOKEN_UNAUTHORIZED',
  'JOB_TOKEN_FORBIDDEN',
  'JOB_TOKEN_NOT_FOUND',
  'JOB_AGENTS_FAILED',
  'USER_FAILED',
])
const shownCauses = new Set(['GITLAB_STATUS', 'GITLAB_UNREACHABLE', 'GITLAB_ANSWER_INVALID', 'GITLAB_BUSY'])

/**
 * Bodies for a flood of unknown credentials, by media type: encoded once, because they name neither caller nor trace.
 */
const notCheckedBodies = new Map<string, string | Uint8Array>()

/** Returns the delivery of a failed request: the error of a lost tunnel has its own. */
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
  // kubectl repeats answers with this header, so only calls that were never sent may have it
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
 * True if kubectl shows a body of text/plain for this failure of discovery. client-go reads discovery as bytes, so
 * kubectl prints `unknown` for other types. After a 503 or 504 it never shows the body.
 */
function isShown(code: number): boolean {
  return code === 500 || code === 502
}

/**
 * True if kubectl shows no body at all for this failure of discovery; version 1.20 takes a 403 for a cluster without
 * APIs. Each kubectl since 1.19 prints the header `Warning`, once for its five requests.
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
