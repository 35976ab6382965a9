/** Times of membership, in ms (doc/internals/membership.md "The life of a row"). */
export interface MembershipTimers {
  /** time in which changes of the own row are gathered, before they are published together */
  readonly batchMs: number
  /** time without an own message, before a heartbeat */
  readonly heartbeatMs: number
  /** greatest random wait before a pull that many instances may need at once */
  readonly pullJitterMs: number
  /** pause after a pull that brought no row; doubled each time, up to `pullRetryMaxMs` */
  readonly pullRetryMs: number
  readonly pullRetryMaxMs: number
  /** bound of one pull */
  readonly pullTimeoutMs: number
  /** time for which a row stays after its connection, if nothing shows earlier that its instance has ended */
  readonly forgetMs: number
  /**
   * time without a message of a connected instance, before its connection is cut: several heartbeats were lost, and a
   * pull failed
   */
  readonly silenceMs: number
  /** bound of the wait for the rows of members; later rows come by anti-entropy */
  readonly joinMs: number
  /** time for which a source without an answer keeps a replica from being ready */
  readonly sourcePatienceMs: number
  /** interval of comparisons between listed addresses and connected instances */
  readonly reconcileMs: number
  /** bound of the handshake of a TCP connection; also of a dial */
  readonly handshakeMs: number
  /** time for which a flooding instance is refused */
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
