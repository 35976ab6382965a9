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

/** Bound of SETTINGS without an acknowledgement, for narrower windows. Node refuses the eleventh. */
const maxUnacknowledged = 4

/** Owner of a connection. */
export interface WindowOwner {
  /** waiting bytes on all connections of the owner */
  readonly pressure?: MemoryPressure
  /** absent: no window is wider than the connection's limits */
  readonly windows?: WindowBudget | undefined
}

/**
 * The window of each stream of a connection. Node has one for all streams, and a granted window cannot be taken back.
 * The window becomes narrow while many bytes wait for readers that stopped, so that these bytes have a bound. On a long
 * connection it becomes as wide as the delay needs and the owner's budget allows, divided by the receiving streams.
 */
export class StreamWindow {
  readonly #session: Http2Session
  readonly #limitBytes: number
  #bytes: number
  #isStranger: boolean
  /** pressure of the connection */
  readonly #own = new MemoryPressure(pressureBytes)
  #isOwned = false
  /** pressure of the owner, on all of its connections */
  #owners: MemoryPressure | undefined
  #leaveOwners: (() => void) | undefined
  #budget: WindowBudget | undefined
  #estimator: BdpEstimator | undefined
  /** number of streams that receive */
  #receiving = 0
  /** streams that the claim has room for; once as many receive, it is renewed */
  #places = 0
  /** claims for the acknowledged window, and for those whose SETTINGS are under way */
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

  /** The peer is authenticated now: later bytes count as its own. */
  widen(): void {
    if (!this.#isStranger) return
    this.#isStranger = false
    this.#adapt()
  }

  /** Sets the owner for good: all windows of its connections grant no more than the owner may leave unread. */
  belongTo({ pressure, windows }: WindowOwner): void {
    if (this.#isOwned || this.#session.destroyed) return
    this.#isOwned = true
    this.#owners = pressure
    this.#leaveOwners = pressure?.onChange(() => this.#adapt())
    if (windows) this.#widenWithin(windows)
    this.#adapt()
  }

  /**
   * Bytes among a stream's waiting ones that may have come because its window was wide.
   *
   * @param unreadBytes - all waiting bytes
   */
  extraOf(unreadBytes: number): number {
    return Math.min(Math.max(0, unreadBytes - this.#limitBytes), this.#widestExtraBytes)
  }

  /** Counts a stream that is to receive: called before the stream is asked to send, if that is known. */
  began(): void {
    this.#receiving++
    const isWide = (this.#estimator?.wantedBytes ?? 0) > this.#limitBytes
    if (isWide && this.#receiving >= this.#places) this.#adapt()
  }

  /** Counts a stream that receives no more. */
  ended(): void {
    this.#receiving--
    const [claim] = this.#claims
    if (this.#receiving > 0 || this.#claims.length > 1 || claim === 0) return
    this.#places = 0 // the next stream claims again
    this.#claims[0] = 0
    this.#budget?.claim(this, 0)
  }

  /** Notes that a stream has received data. */
  arrived(): void {
    this.#estimator?.arrived()
  }

  /** Notes that the reader of a stream has taken bytes. */
  took(stream: object, bytes: number): void {
    if (this.#claims.length === 1) this.#estimator?.took(stream, bytes, this.#bytes)
  }

  /**
   * Counts received bytes that wait for their reader.
   *
   * @param bytes - without `extraOf`; below 0: they are taken
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

  /** Window of each stream beyond the limit. */
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
    // 'localSettings' would also report settings of others
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
