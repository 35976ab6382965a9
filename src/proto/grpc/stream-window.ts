import type { Http2Session } from 'node:http2'
import type { SessionLimits } from './limits.ts'
import { StoppedReaders } from './stopped-readers.ts'

/**
 * The window of each stream of a connection. node has one for all: with many readers that stopped at once it becomes
 * narrow, and what they hold together has a bound; the few do not slow a long way down.
 */
export class StreamWindow {
  readonly #session: Http2Session
  readonly #wideBytes: number
  #bytes: number
  #isStranger: boolean
  /** of the connection; undefined: none has stopped yet */
  #own: StoppedReaders | undefined
  /** of the connection's owner, on all of his connections */
  #owners: StoppedReaders | undefined
  /** SETTINGS are not acknowledged yet */
  #changing = false
  readonly #onChange = () => this.#adapt()

  constructor(session: Http2Session, limits: Pick<SessionLimits, 'streamWindowBytes' | 'strangerWindowBytes'>) {
    const { streamWindowBytes, strangerWindowBytes } = limits
    this.#session = session
    this.#wideBytes = streamWindowBytes
    this.#bytes = Math.min(streamWindowBytes, strangerWindowBytes)
    this.#isStranger = this.#bytes < streamWindowBytes
    session.on('close', () => this.#owners?.unwatch(this.#onChange))
  }

  /** The peer has shown who it is: what it sends from now on is counted as its own. */
  widen(): void {
    if (!this.#isStranger) return
    this.#isStranger = false
    this.#adapt()
  }

  /** It is narrow also while many have stopped of those. */
  narrowWith(owners: StoppedReaders): void {
    if (this.#owners || this.#session.destroyed) return
    this.#owners = owners
    owners.watch(this.#onChange)
    this.#adapt()
  }

  /** The reader of a stream takes no more for now. */
  stopped(): void {
    if (!this.#own) {
      this.#own = new StoppedReaders()
      this.#own.watch(this.#onChange)
    }
    this.#own.add()
  }

  /** It reads again, or its stream has closed. */
  resumed(): void {
    this.#own?.remove()
  }

  #adapt(): void {
    const session = this.#session
    if (this.#isStranger || this.#changing || session.closed || session.destroyed) return
    const own = this.#own?.windowBytes ?? this.#wideBytes
    const owners = this.#owners?.windowBytes ?? this.#wideBytes
    const bytes = Math.min(this.#wideBytes, own, owners)
    if (bytes === this.#bytes) return
    this.#bytes = bytes
    this.#changing = true
    // not 'localSettings': that also reports what others have set
    session.settings({ initialWindowSize: bytes }, () => {
      this.#changing = false
      this.#adapt()
    })
  }
}
