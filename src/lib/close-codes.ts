/** Why a WebSocket is closed: codes of RFC 6455, 7.4.1, and of IANA's registry. */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  policyViolation: 1008,
  internalError: 1011,
  tryAgainLater: 1013,
} as const
