import type { Http2Session } from 'node:http2'
import type { SessionLimits } from './limits.ts'

/** Beyond those that are open, once one was refused: as many may be opened, and it grows by as many. */
export const spareStreams = 16

/**
 * Between two times that the bound falls. What is on its way then is refused by nghttp2, and node counts it as an
 * invalid frame for as long as the connection lives: one that sends 40 each time has its 1,000 after 25 min, when it
 * is replaced. ms
 */
export const lowerEveryMs = 60_000

const monotonicMs = () => performance.now()

/**
 * How many streams the other side may have open: few at first, four times what is open whenever more than half of them
 * were admitted. Once one was refused it falls to what is open and a few, and grows by a few when none is left. What is
 * beyond costs nothing here: nghttp2 refuses it, or ends a connection that knows and does not care, before anything is
 * made of it.
 */
export class StreamQuota {
  readonly #session: Http2Session
  readonly #maxStreams: number
  readonly #now: () => number
  #streams: number
  /** in SETTINGS */
  #sent: number
  /** they are not acknowledged yet: node ends a connection with ten of them */
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

  /** @param open - streams of the connection, the admitted one among them */
  admitted(open: number): void {
    const isNeeded = this.#wasRefused ? open >= this.#streams : 2 * open > this.#streams
    if (!isNeeded) return
    this.#streams = Math.min(this.#maxStreams, this.#wasRefused ? open + spareStreams : 4 * open)
    this.#send()
  }

  /** @param open - streams of the connection, the refused one among them */
  refused(open: number): void {
    this.#wasRefused = true
    const streams = open + spareStreams
    const now = this.#now()
    if (streams >= this.#streams || now - this.#loweredAt < lowerEveryMs) return
    this.#loweredAt = now
    this.#streams = streams
    this.#send()
  }

  /** What changes meanwhile is sent once this is acknowledged. */
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
