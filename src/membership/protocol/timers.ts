/** When replicas speak, ask and give up, in ms (doc/membership.md "The life of a row"). */
export interface MembershipTimers {
  /** changes of the own row are gathered for this long, then published together */
  readonly batchMs: number
  /** of own silence, before a heartbeat */
  readonly heartbeatMs: number
  /** before a pull that many may want at once: anything up to this */
  readonly pullJitterMs: number
  /** after a pull that brought no row; doubled each time, up to `pullRetryMaxMs` */
  readonly pullRetryMs: number
  readonly pullRetryMaxMs: number
  /** a pull takes no longer */
  readonly pullTimeoutMs: number
  /** a row outlives its connection by this, if nothing shows earlier that its instance has ended */
  readonly forgetMs: number
  /** of a connected instance, before its connection is cut: several heartbeats were lost, and a pull failed */
  readonly silenceMs: number
  /** members that have not given their row by then are left to anti-entropy */
  readonly joinMs: number
  /** a source that has never answered keeps a replica from being ready for this long */
  readonly sourcePatienceMs: number
  /** between two comparisons of who is listed with who is connected */
  readonly reconcileMs: number
  /** from a TCP connection to a peer that knows the secret; also of a dial */
  readonly handshakeMs: number
  /** a flooding instance is not let in again before */
  readonly banMs: number
}

export const defaultTimers: MembershipTimers = {
  batchMs: 50,
  heartbeatMs: 2000,
  pullJitterMs: 100,
  pullRetryMs: 250,
  pullRetryMaxMs: 5000,
  pullTimeoutMs: 10_000,
  forgetMs: 10_000,
  silenceMs: 10_000,
  joinMs: 5000,
  sourcePatienceMs: 15_000,
  reconcileMs: 1500,
  handshakeMs: 2000,
  banMs: 10_000,
}
