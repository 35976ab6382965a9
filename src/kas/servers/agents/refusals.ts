import { Counter } from 'prom-client'
import type { ErrorCode } from '../../../lib/errors.ts'
import type { Registry } from '../../../lib/metrics.ts'

/** Why a connection or a call on 8150 was refused: a closed list, so that nobody can make labels. */
export const refusalReasons = [
  /** no TLS that kas takes: plain bytes, an old version, a certificate that the client does not trust */
  'tls',
  /** a front that is trusted begins with no PROXY header that can be read, where it must */
  'proxy_header',
  /** neither HTTP/2 nor, where that is on, a WebSocket */
  'protocol',
  /** HTTP that is no upgrade to `ws-tunnel` */
  'upgrade',
  /** it took too long to send its first bytes, or to make a call */
  'too_slow',
  /** too many connections of its address, or of all addresses, make no call of an agent */
  'too_many_connections',
  /** PINGs in a flood */
  'too_many_pings',
  'unknown_method',
  /** the token is absent, malformed, unknown or expired */
  'unauthenticated',
  'forbidden',
  'agent_not_found',
  'rate_exceeded',
  /** too many unknown tokens wait to be checked */
  'not_checked',
  'directory_unavailable',
  /** a message of a tunnel is malformed, out of order or beyond its bounds */
  'invalid_message',
  /** the agent has as many open as it may, or too much of a connection waits to be authenticated */
  'too_many_streams',
  /** what the agent has sent and nobody has read takes as much as it may */
  'too_much_unread',
  /** what all agents have sent and nobody has read takes as much as it may, and this one's caller or tenant has most of it */
  'replica_memory_full',
  /** metadata or an error of a reply is beyond its bounds: it is passed on in part, with a mark */
  'reply_cut',
] as const
export type RefusalReason = (typeof refusalReasons)[number]

const reasonOf: Partial<Record<ErrorCode, RefusalReason>> = {
  UNAUTHENTICATED: 'unauthenticated',
  FORBIDDEN: 'forbidden',
  AGENT_NOT_FOUND: 'agent_not_found',
  RATE_EXCEEDED: 'rate_exceeded',
  CREDENTIAL_NOT_CHECKED: 'not_checked',
  DIRECTORY_UNAVAILABLE: 'directory_unavailable',
  INVALID_MESSAGE: 'invalid_message',
  MESSAGE_TOO_LARGE: 'invalid_message',
  TOO_MANY_STREAMS: 'too_many_streams',
  TOO_MUCH_UNREAD: 'too_much_unread',
  REPLICA_MEMORY_FULL: 'replica_memory_full',
}

/** Undefined: no refusal; the caller left, or kas is at fault. */
export function refusalReason(code: ErrorCode): RefusalReason | undefined {
  return reasonOf[code]
}

/** @returns counts one */
export function createRefusalMetrics(register: Registry): (reason: RefusalReason) => void {
  const counter = new Counter({
    name: 'kas_agents_refused_total',
    help: 'Connections and calls that were refused where agents connect, by reason',
    labelNames: ['reason'] as const,
    registers: [register],
  })
  for (const reason of refusalReasons) counter.inc({ reason }, 0)
  return (reason) => counter.inc({ reason })
}
