import { Counter } from '../../lib/counter.ts'

/** Bytes that are taken before the second sample: smaller answers fit every window, and cost no PING. */
const firstBytes = 256 * 1024
/** The same after a sample that found nothing new. */
const restBytes = 2 * 1024 * 1024
/**
 * Round trips below it are filled by any window. It is compared with the shortest one, because busy programs answer
 * late. ms
 */
const minRoundTripMs = 2
/**
 * Part of the window from which a reader would have taken more in one round trip. Bytes come in bursts, and a sample
 * misses the part of a burst before it.
 */
const fullShare = 1 / 2
/** Factor of a widening at once: the other side learns of it only half a round trip later. */
const growth = 4

export interface BdpEstimatorComponents {
  /** round trip in ms; rejects if the connection ends first */
  readonly ping: () => Promise<number>
  /** called when `wantedBytes` has the result of a round trip */
  readonly onSample: () => void
}

/**
 * Estimates the windows that fill a long connection: bandwidth times delay, as gRPC does. While a PING is under way, it
 * counts the bytes that readers take, stream by stream. Bytes that arrive and are not taken widen nothing.
 */
export class BdpEstimator {
  readonly #components: BdpEstimatorComponents
  readonly #maxBytes: number
  /** by stream, while a PING is under way */
  readonly #taken = new Counter<object>()
  #mostTaken = 0
  #isSampling = false
  /** True if bytes have arrived since the last sample. */
  #hasArrived = false
  /** bytes until the next sample. The first sample begins at once, while there is little to do */
  #waitBytes = 0
  #shortestMs = Number.POSITIVE_INFINITY
  #windowBytes = 0
  #wantedBytes = 0

  /** @param maxBytes - bound of a stream's window */
  constructor(components: BdpEstimatorComponents, maxBytes: number) {
    this.#components = components
    this.#maxBytes = maxBytes
  }

  /** Window of each stream; 0: the delay is unknown. */
  get wantedBytes(): number {
    return this.#wantedBytes
  }

  /**
   * Notes that data has arrived. A PING without new data before it is a fault to a stock kas, and taken bytes may have
   * waited here for long.
   */
  arrived(): void {
    this.#hasArrived = true
  }

  /**
   * Notes that the reader of a stream has taken bytes.
   *
   * @param windowBytes - the stream's window now
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
    this.#hasArrived = false // sent before the other side saw the PING
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
