import { Counter } from '../../lib/counter.ts'

/** Taken before a sample begins, but for the first one: smaller answers fit every window, and cost no PING. */
const firstBytes = 256 * 1024
/** The same after a sample that found nothing new. */
const restBytes = 2 * 1024 * 1024
/** A shorter round trip is filled by any window: the shortest that was seen, for programs at work answer late. ms */
const minRoundTripMs = 2
/**
 * Of the window that a reader took in one round trip: he would have taken more. Bytes come in bursts, of which a sample
 * misses what came before it.
 */
const fullShare = 1 / 2
/** so much wider at once: the other side learns of it only half a round trip later */
const growth = 4

export interface BdpEstimatorComponents {
  /** one round trip, in ms; rejects when the connection ends first */
  readonly ping: () => Promise<number>
  /** `wantedBytes` is as the last round trip was */
  readonly onSample: () => void
}

/**
 * How wide the windows of a connection have to be, so that its way is full: bandwidth times delay, as gRPC estimates it.
 * While a PING is on its way, the bytes that readers take are counted, stream by stream. What arrives, and is not taken,
 * widens nothing.
 */
export class BdpEstimator {
  readonly #components: BdpEstimatorComponents
  readonly #maxBytes: number
  /** of each stream that took some, while a PING is on its way */
  readonly #taken = new Counter<object>()
  #mostTaken = 0
  #isSampling = false
  /** since the last sample */
  #hasArrived = false
  /** until the next sample: the first is of what comes first, when there is little to do yet */
  #waitBytes = 0
  #shortestMs = Number.POSITIVE_INFINITY
  #windowBytes = 0
  #wantedBytes = 0

  /** @param maxBytes - no stream's window is to be wider */
  constructor(components: BdpEstimatorComponents, maxBytes: number) {
    this.#components = components
    this.#maxBytes = maxBytes
  }

  /** Of each stream; 0: nothing is known of the way. */
  get wantedBytes(): number {
    return this.#wantedBytes
  }

  /**
   * Something has come. A PING that follows nothing new is a fault to a stock kas: what is taken may have waited here for
   * long.
   */
  arrived(): void {
    this.#hasArrived = true
  }

  /**
   * The reader of a stream has taken so much.
   *
   * @param windowBytes - that the stream has now
   */
  took(stream: object, bytes: number, windowBytes: number): void {
    if (this.#isSampling) this.#count(stream, bytes)
    else if (bytes < this.#waitBytes) this.#waitBytes -= bytes
    else if (this.#hasArrived) this.#sample(windowBytes)
  }

  #count(stream: object, bytes: number): void {
    const taken = this.#taken.add(stream, bytes)
    if (taken > this.#mostTaken) this.#mostTaken = taken
  }

  #sample(windowBytes: number): void {
    this.#isSampling = true
    this.#windowBytes = windowBytes
    this.#components.ping().then(
      (ms) => this.#onSample(ms),
      () => undefined, // the connection has ended
    )
  }

  #onSample(ms: number): void {
    const [taken, window] = [this.#mostTaken, this.#windowBytes]
    const isFirst = this.#shortestMs === Number.POSITIVE_INFINITY
    this.#shortestMs = Math.min(this.#shortestMs, ms)
    this.#isSampling = false
    this.#hasArrived = false // what came before the answer was sent before the PING was seen
    this.#mostTaken = 0
    this.#taken.clear()
    const wanted = this.#shortestMs < minRoundTripMs ? 0 : this.#next(taken, window)
    this.#waitBytes = wanted > this.#wantedBytes ? 0 : isFirst ? firstBytes : restBytes
    this.#wantedBytes = wanted
    this.#components.onSample()
  }

  #next(taken: number, window: number): number {
    if (taken >= window * fullShare) return Math.max(this.#wantedBytes, Math.min(this.#maxBytes, growth * window))
    return Math.min(this.#wantedBytes, Math.max(growth * taken, window / growth))
  }
}
