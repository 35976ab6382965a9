import type { Http2Session } from 'node:http2'
import { fewStopped, manyStopped, narrowWindowBytes, type SessionLimits } from './limits.ts'

/**
 * The window of each stream of a connection. node has one for all: with many readers that stopped at once it becomes
 * narrow, and what they hold together has a bound; the few do not slow a long way down.
 */
export class StreamWindow {
  readonly #session: Http2Session
  readonly #wideBytes: number
  #stopped = 0
  #narrow = false
  /** SETTINGS are not acknowledged yet */
  #changing = false

  constructor(session: Http2Session, { streamWindowBytes }: Pick<SessionLimits, 'streamWindowBytes'>) {
    this.#session = session
    this.#wideBytes = streamWindowBytes
    session.on('localSettings', () => {
      this.#changing = false
      this.#adapt()
    })
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
    const narrow = this.#narrow ? this.#stopped > fewStopped : this.#stopped > manyStopped
    const session = this.#session
    if (narrow === this.#narrow || this.#changing || session.closed || session.destroyed) return
    this.#narrow = narrow
    this.#changing = true
    session.settings({ initialWindowSize: narrow ? Math.min(narrowWindowBytes, this.#wideBytes) : this.#wideBytes })
  }
}
