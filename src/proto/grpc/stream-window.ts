import type { Http2Session } from 'node:http2'
import {
  crowdStopped,
  crowdWindowBytes,
  fewStopped,
  manyStopped,
  narrowWindowBytes,
  type SessionLimits,
} from './limits.ts'

/**
 * The window of each stream of a connection. node has one for all: with many readers that stopped at once it becomes
 * narrow, and what they hold together has a bound; the few do not slow a long way down.
 */
export class StreamWindow {
  readonly #session: Http2Session
  readonly #wideBytes: number
  #bytes: number
  #isStranger: boolean
  #stopped = 0
  #isNarrow = false
  #isCrowd = false
  /** SETTINGS are not acknowledged yet */
  #changing = false

  constructor(session: Http2Session, limits: Pick<SessionLimits, 'streamWindowBytes' | 'strangerWindowBytes'>) {
    const { streamWindowBytes, strangerWindowBytes } = limits
    this.#session = session
    this.#wideBytes = streamWindowBytes
    this.#bytes = Math.min(streamWindowBytes, strangerWindowBytes)
    this.#isStranger = this.#bytes < streamWindowBytes
    session.on('localSettings', () => {
      this.#changing = false
      this.#adapt()
    })
  }

  /** The peer has shown who it is: what it sends from now on is counted as its own. */
  widen(): void {
    if (!this.#isStranger) return
    this.#isStranger = false
    this.#adapt()
  }

  /** The reader of a stream takes no more for now. */
  stopped(): void {
    this.#stopped++
    this.#adapt()
  }

  /** It reads again, or its stream is gone. */
  resumed(): void {
    this.#stopped--
    this.#adapt()
  }

  #adapt(): void {
    const session = this.#session
    if (this.#isStranger || this.#changing || session.closed || session.destroyed) return
    this.#isNarrow = this.#isNarrow ? this.#stopped > fewStopped : this.#stopped > manyStopped
    this.#isCrowd = this.#isNarrow && (this.#isCrowd || this.#stopped > crowdStopped)
    const narrowBytes = this.#isCrowd ? crowdWindowBytes : narrowWindowBytes
    const bytes = this.#isNarrow ? Math.min(narrowBytes, this.#wideBytes) : this.#wideBytes
    if (bytes === this.#bytes) return
    this.#bytes = bytes
    this.#changing = true
    session.settings({ initialWindowSize: bytes })
  }
}
