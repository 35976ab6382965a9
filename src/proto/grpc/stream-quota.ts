import type { Http2Session } from 'node:http2'
import type { SessionLimits } from './limits.ts'

/**
 * How many streams the other side may have open: few at first, twice as many whenever more than half of them were
 * admitted, and no more than it has, and one, once one was refused. What is beyond costs nothing here: nghttp2 refuses
 * it, or ends a connection that knows and does not care, before anything is made of it.
 */
export class StreamQuota {
  readonly #session: Http2Session
  readonly #maxStreams: number
  #streams: number

  constructor(session: Http2Session, limits: Pick<SessionLimits, 'maxConcurrentStreams' | 'firstStreams'>) {
    this.#session = session
    this.#maxStreams = limits.maxConcurrentStreams
    this.#streams = Math.min(limits.firstStreams, limits.maxConcurrentStreams)
  }

  /** @param open - streams of the connection, the admitted one among them */
  admitted(open: number): void {
    if (2 * open > this.#streams) this.#set(Math.min(this.#maxStreams, 4 * open))
  }

  /** @param open - streams of the connection, the refused one among them */
  refused(open: number): void {
    this.#set(Math.min(this.#streams, Math.max(1, open)))
  }

  #set(streams: number): void {
    const session = this.#session
    if (streams === this.#streams || session.closed || session.destroyed) return
    this.#streams = streams
    session.settings({ maxConcurrentStreams: streams })
  }
}
