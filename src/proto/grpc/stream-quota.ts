import type { Http2Session } from 'node:http2'
import type { SessionLimits } from './limits.ts'

/** Streams beyond the open ones that the bound allows, and by which it grows, once a stream was refused. */
export const spareStreams = 16

/**
 * Least time between two reductions of the bound. Streams that are under way then are refused by nghttp2, and Node
 * counts each as an invalid frame of the connection. With 40 of them each time, 1,000 are reached after 25 min, and the
 * connection is replaced. ms
 */
export const lowerEveryMs = 60_000

const monotonicMs = () => performance.now()

/**
 * Bound of the streams that the other side may open. It is low at first, and becomes four times the open ones whenever
 * more than half of it is open. Once a stream was refused, it falls to the open ones and a few more, and grows by a few
 * when it is reached. Streams above it cost nothing here: nghttp2 refuses them. It ends a connection that knows the
 * bound and ignores it.
 */
export class StreamQuota {
  readonly #session: Http2Session
  readonly #maxStreams: number
  readonly #now: () => number
  #streams: number
  /** bound in the last SETTINGS */
  #sent: number
  /** True while SETTINGS are not acknowledged: Node ends a connection with ten such. */
  #isSending = false
  #wasRefused = false
  #loweredAt = -Infinity

  constructor(
    session: Http2Session,
    limits: Pick<SessionLimits, 'maxConcurrentStreams' | 'firstStreams'>,
    now = monotonicMs,
  ) {
    this.#session = session
    this.#maxStreams = limits.maxConcurrentStreams
    this.#now = now
    this.#streams = Math.min(limits.firstStreams, limits.maxConcurrentStreams)
    this.#sent = this.#streams
  }

  /** @param open - streams of the connection, including the admitted one */
  admitted(open: number): void {
    const isNeeded = this.#wasRefused ? open >= this.#streams : 2 * open > this.#streams
    if (!isNeeded) return
    this.#streams = Math.min(this.#maxStreams, this.#wasRefused ? open + spareStreams : 4 * open)
    this.#send()
  }

  /** @param open - streams of the connection, including the refused one */
  refused(open: number): void {
    this.#wasRefused = true
    const streams = open + spareStreams
    const now = this.#now()
    if (streams >= this.#streams || now - this.#loweredAt < lowerEveryMs) return
    this.#loweredAt = now
    this.#streams = streams
    this.#send()
  }

  /** Sends the bound. Changes before its acknowledgement are sent after it. */
  #send(): void {
    const session = this.#session
    if (this.#isSending || this.#streams === this.#sent || session.closed || session.destroyed) return
    this.#sent = this.#streams
    this.#isSending = true
    session.settings({ maxConcurrentStreams: this.#sent }, () => {
      this.#isSending = false
      this.#send()
    })
  }
}
