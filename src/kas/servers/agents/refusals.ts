import { Counter } from 'prom-client'
import type { ErrorCode } from '../../../lib/errors.ts'
import type { Registry } from '../../../lib/metrics.ts'

/** Reasons for refusing a connection or a call on 8150: a closed list, so that clients cannot create metric labels. */
export const refusalReasons = [
  /** no TLS that kas accepts: plain bytes, an old version, or a client that distrusts the certificate */
  'tls',
  /** a trusted front sent no valid PROXY header where it must */
  'proxy_header',
  /** neither HTTP/2 nor, if enabled, a WebSocket */
  'protocol',
  /** HTTP without an upgrade to `ws-tunnel` */
  'upgrade',
  /** too slow to send the first bytes, or to make a call */
  'too_slow',
  /** too many connections without an admitted call, of the same address or of all */
  'too_many_connections',
  /** a flood of PINGs */
  'too_many_pings',
  'unknown_method',
  /** the token is absent, malformed, unknown or expired */
  'unauthenticated',
  'forbidden',
  'agent_not_found',
  'rate_exceeded',
  /** too many unauthenticated calls wait */
  'not_checked',
  'directory_unavailable',
  /** a tunnel's message is malformed, out of order or beyond its bounds */
  'invalid_message',
  /** the agent reached a bound of streams, or too many bytes of a connection wait to be authenticated */
  'too_many_streams',
  /** unread bytes of the agent reached their bound */
  'too_much_unread',
  /** unread bytes of all agents reached their bound, and most are of this caller or tenant */
  'replica_memory_full',
  /** metadata or an error of a reply is beyond its bounds: the reply is passed on in part, with a mark */
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

/** Undefined: no refusal, because the caller left or kas failed. */
export function refusalReason(code: ErrorCode): RefusalReason | undefined {
  return reasonOf[code]
}

/** @returns callback that counts one */
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
