import type { Http2Session } from 'node:http2'
import { BdpEstimator } from './bdp-estimator.ts'
import {
  narrowWindowBytes,
  pressureBytes,
  type SessionLimits,
  wideConnectionWindowBytes,
  wideWindowBytes,
} from './limits.ts'
import { MemoryPressure } from './memory-pressure.ts'
import { ping } from './ping.ts'
import type { WindowBudget } from './window-budget.ts'

/** Narrower windows are granted at once, also while SETTINGS are on their way: so many. Node refuses the eleventh. */
const maxUnacknowledged = 4

/** Whose a connection is. */
export interface WindowOwner {
  /** what waits on all of his connections */
  readonly pressure?: MemoryPressure
  /** absent: no window is wider than the connection's limits say */
  readonly windows?: WindowBudget | undefined
}

/**
 * The window of each stream of a connection. node has one for all, and what was granted cannot be taken back:
 * where much waits for readers that stopped it becomes narrow, and what they hold together has a bound; the few do not slow
 * a long way down. Where the way is long it becomes as wide as the way takes and the owner's budget allows, divided by the streams
 * that receive.
 */
export class StreamWindow {
  readonly #session: Http2Session
  readonly #limitBytes: number
  #bytes: number
  #isStranger: boolean
  /** of the connection */
  readonly #own = new MemoryPressure(pressureBytes)
  #isOwned = false
  /** of the connection's owner, on all of his connections */
  #owners: MemoryPressure | undefined
  #leaveOwners: (() => void) | undefined
  #budget: WindowBudget | undefined
  #estimator: BdpEstimator | undefined
  /** streams that receive */
  #receiving = 0
  /** so many of them fit what is claimed, and one more */
  #places = 0
  /** for the window that the other side has acknowledged, and for those that are on their way to it */
  readonly #claims = [0]
  #widestExtraBytes = 0

  constructor(session: Http2Session, limits: Pick<SessionLimits, 'streamWindowBytes' | 'strangerWindowBytes'>) {
    const { streamWindowBytes, strangerWindowBytes } = limits
    this.#session = session
    this.#limitBytes = streamWindowBytes
    this.#bytes = Math.min(streamWindowBytes, strangerWindowBytes)
    this.#isStranger = this.#bytes < streamWindowBytes
    this.#own.onChange(() => this.#adapt())
    session.on('close', () => {
      this.#leaveOwners?.()
      this.#budget?.claim(this, 0)
      this.#budget = undefined
    })
  }

  /** The peer has shown who it is: what it sends from now on is counted as its own. */
  widen(): void {
    if (!this.#isStranger) return
    this.#isStranger = false
    this.#adapt()
  }

  /** For good: the windows of all connections of the owner grant no more than the owner may leave unread. */
  belongTo({ pressure, windows }: WindowOwner): void {
    if (this.#isOwned || this.#session.destroyed) return
    this.#isOwned = true
    this.#owners = pressure
    this.#leaveOwners = pressure?.onChange(() => this.#adapt())
    if (windows) this.#widenWithin(windows)
    this.#adapt()
  }

  /**
   * Of what waits of a stream: as much may have come because its window was wide.
   *
   * @param unreadBytes - all of it
   */
  extraOf(unreadBytes: number): number {
    return Math.min(Math.max(0, unreadBytes - this.#limitBytes), this.#widestExtraBytes)
  }

  /** A stream is to receive: to be called before it is asked to, where that is known. */
  began(): void {
    this.#receiving++
    const isWide = (this.#estimator?.wantedBytes ?? 0) > this.#limitBytes
    if (isWide && this.#receiving >= this.#places) this.#adapt()
  }

  /** It receives no more. */
  ended(): void {
    this.#receiving--
    const [claim] = this.#claims
    if (this.#receiving > 0 || this.#claims.length > 1 || claim === 0) return
    this.#places = 0 // the next to begin claims anew
    this.#claims[0] = 0
    this.#budget?.claim(this, 0)
  }

  /** A stream has received something. */
  arrived(): void {
    this.#estimator?.arrived()
  }

  /** The reader of a stream has taken so much. */
  took(stream: object, bytes: number): void {
    if (this.#claims.length === 1) this.#estimator?.took(stream, bytes, this.#bytes)
  }

  /**
   * Of what came, so much waits for its reader.
   *
   * @param bytes - beside `extraOf`; fewer than 0: they are taken
   */
  hold(bytes: number): void {
    this.#own.count(bytes)
  }

  #widenWithin(windows: WindowBudget): void {
    this.#budget = windows
    const components = { ping: () => ping(this.#session), onSample: () => this.#adapt() }
    this.#estimator = new BdpEstimator(components, wideWindowBytes)
  }

  #adapt(): void {
    const session = this.#session
    if (this.#isStranger || session.closed || session.destroyed) return
    const isHigh = this.#own.isHigh || this.#owners?.isHigh === true
    const places = 2 ** Math.ceil(Math.log2(this.#receiving + 1))
    const extra = isHigh ? 0 : this.#extraFor(places)
    const bytes = isHigh ? Math.min(this.#limitBytes, narrowWindowBytes) : this.#limitBytes + extra
    const isOnItsWay = this.#claims.length > 1
    if (isOnItsWay && (bytes > this.#bytes || this.#claims.length > maxUnacknowledged)) return
    this.#places = places
    if (bytes === this.#bytes) this.#claims.pop()
    else this.#grant(bytes)
    this.#claims.push(this.#receiving > 0 ? extra * places : 0)
    this.#claim()
  }

  /** Beyond the limit, of each stream. */
  #extraFor(places: number): number {
    const wanted = Math.max(0, (this.#estimator?.wantedBytes ?? 0) - this.#limitBytes)
    return this.#budget ? Math.floor(Math.min(wanted, this.#budget.shareOf(this) / places)) : 0
  }

  #grant(bytes: number): void {
    const session = this.#session
    const extra = Math.max(0, bytes - this.#limitBytes)
    if (extra > 0 && this.#widestExtraBytes === 0) session.setLocalWindowSize(wideConnectionWindowBytes)
    this.#widestExtraBytes = Math.max(this.#widestExtraBytes, extra)
    this.#bytes = bytes
    // not 'localSettings': that also reports what others have set
    session.settings({ initialWindowSize: bytes }, () => {
      this.#claims.shift()
      this.#claim()
      this.#adapt()
    })
  }

  #claim(): void {
    this.#budget?.claim(this, Math.max(...this.#claims))
  }
}
