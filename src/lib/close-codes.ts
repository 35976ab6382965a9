import type { KasError } from './errors.ts'

/** Reasons for closing a WebSocket: codes of RFC 6455, 7.4.1, and of IANA's registry. */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  policyViolation: 1008,
  internalError: 1011,
  tryAgainLater: 1013,
} as const

/** Close code for a WebSocket whose caller has lost access, or that makes room for others. */
export function endCode({ code }: KasError): number {
  const isFull = code === 'TOO_MANY_STREAMS' || code === 'REPLICA_MEMORY_FULL'
  return isFull ? closeCodes.tryAgainLater : closeCodes.policyViolation
}
