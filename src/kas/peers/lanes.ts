import type { Clock } from '../../lib/clock.ts'
import { detached } from '../../lib/tracing/tracer.ts'
import { ClientLane } from '../../proto/grpc/client-lane.ts'
import type { ClientCall, LaneCallOptions } from '../../proto/grpc/client-lane-call.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'

export interface LanesOptions {
  /** idle lanes that are kept for the next calls; more calls may run at once */
  readonly maxIdle: number
  /** time after which a lane that no call needed ends. ms */
  readonly idleMs: number
}

export const defaultLanes: LanesOptions = { maxIdle: 64, idleMs: 30_000 }

/** Carries calls on one connection to a peer: each on an idle lane, else on a new one (doc/decisions/0018). */
export class Lanes {
  readonly #session: ClientSession
  readonly #clock: Clock
  readonly #options: LanesOptions
  /** the lane used last is the last */
  readonly #idle: ClientLane[] = []
  /** fewest lanes in `#idle` since the last sweep: this number of first lanes was not needed */
  #leastIdle = 0
  #cancelSweep: (() => void) | undefined

  constructor({ session, clock }: { session: ClientSession; clock: Clock }, options: LanesOptions = defaultLanes) {
    this.#session = session
    this.#clock = clock
    this.#options = options
    session.onDraining(() => this.#drain())
  }

  /** @throws KasError TUNNEL_LOST (delivery none) when the session is draining; INVALID_MESSAGE */
  open(options: LaneCallOptions): ClientCall {
    const lane = this.#take() ?? this.#open()
    return lane.open(options)
  }

  #take(): ClientLane | undefined {
    const lane = this.#idle.pop()
    this.#leastIdle = Math.min(this.#leastIdle, this.#idle.length)
    return lane
  }

  #open(): ClientLane {
    return detached(() => {
      const lane = new ClientLane(this.#session, this.#keep)
      void lane.ended.then(() => this.#forget(lane))
      return lane
    })
  }

  #keep = (lane: ClientLane): void => {
    if (this.#session.draining || this.#idle.length >= this.#options.maxIdle) lane.end()
    else {
      this.#idle.push(lane)
      this.#cancelSweep ??= detached(() => this.#clock.after(this.#options.idleMs, this.#sweep))
    }
  }

  #forget(lane: ClientLane): void {
    const at = this.#idle.indexOf(lane)
    if (at >= 0) this.#idle.splice(at, 1)
    this.#leastIdle = Math.min(this.#leastIdle, this.#idle.length)
  }

  #sweep = (): void => {
    this.#cancelSweep = undefined
    for (const lane of this.#idle.splice(0, this.#leastIdle)) lane.end()
    this.#leastIdle = this.#idle.length
    if (this.#leastIdle > 0) this.#cancelSweep = this.#clock.after(this.#options.idleMs, this.#sweep)
  }

  /** Ends idle lanes: the connection ends with its last call. */
  #drain(): void {
    this.#cancelSweep?.()
    this.#cancelSweep = undefined
    this.#leastIdle = 0
    for (const lane of this.#idle.splice(0)) lane.end()
  }
}
