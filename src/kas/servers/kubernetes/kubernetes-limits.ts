/** Wire-protocol 6.5 and 6.7. There is no limit on bodies, nor on the time that one request takes. */
export interface KubernetesLimits {
  /** bytes of a request's head */
  readonly maxHeadBytes: number
  /** for a request's head to come, in ms */
  readonly headTimeoutMs: number
  /** a connection may be idle between requests, in ms */
  readonly keepAliveMs: number
  /** a client on an upgraded connection may take nothing, in ms */
  readonly upgradedWriteTimeoutMs: number
}

export const defaultKubernetesLimits: KubernetesLimits = {
  maxHeadBytes: 64 * 1024,
  headTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  upgradedWriteTimeoutMs: 20_000,
}
