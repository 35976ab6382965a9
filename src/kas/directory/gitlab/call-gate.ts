import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'

/** For whom GitLab is called. They take turns, so that a crowd in one keeps nobody in the others waiting. */
export const lanes = ['agents', 'users', 'reports', 'modules'] as const
export type Lane = (typeof lanes)[number]

/** Calls at once, where that is fewer than in the other lanes: agents' own requests last as long as agents like. */
const laneLimits: Readonly<Partial<Record<Lane, number>>> = { modules: 15 }

export interface CallGateOptions {
  /** calls that may begin each second, and at once after a silence: upstream's gitlab.api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls that run at once: upstream's connections to GitLab (wire-protocol 5.2) */
  readonly maxRunning?: number
  /** of them in one lane, so that an endpoint that hangs holds up its own lane only */
  readonly maxRunningInLane?: number
  /** calls of one lane that wait for their turn; more are refused */
  readonly maxWaitingInLane?: number
  /** the longest that a call waits for its turn, in ms */
  readonly maxWaitMs?: number
}

const defaults = { maxRunning: 50, maxRunningInLane: 30, maxWaitingInLane: 10_000, maxWaitMs: 20_000 }

export interface CallGateEvents {
  /** a call got its turn, or did not, after so long */
  waited(allowed: boolean, ms: number): void
}

interface LaneState {
  readonly maxRunning: number
  readonly waiting: Set<() => void>
  running: number
}

/** Lets calls to GitLab begin: not too many a second, not too many at once, whatever GitLab does. */
export class CallGate {
  readonly #clock: Clock
  readonly #events: CallGateEvents
  readonly #options: CallGateOptions & typeof defaults
  readonly #lanes: readonly LaneState[]
  #tokens: number
  #filledAt: number
  #running = 0
  /** index of the lane whose turn is next */
  #turn = 0
  #cancelPump: (() => void) | undefined

  constructor(components: { clock: Clock; events: CallGateEvents }, options: CallGateOptions) {
    this.#clock = components.clock
    this.#events = components.events
    this.#options = { ...defaults, ...options }
    const { maxRunningInLane } = this.#options
    this.#lanes = lanes.map((lane) => ({
      maxRunning: Math.min(maxRunningInLane, laneLimits[lane] ?? maxRunningInLane),
      waiting: new Set(),
      running: 0,
    }))
    this.#tokens = options.bucketSize
    this.#filledAt = this.#clock.now()
  }

  /** Whether there is room for what is not needed: calls that are tried again. */
  get isCalm(): boolean {
    this.#refill()
    const { bucketSize, maxRunningInLane } = this.#options
    const isFull = ({ running, maxRunning }: LaneState) => maxRunning < maxRunningInLane && running >= maxRunning
    return this.#tokens >= bucketSize / 2 && this.#lanes.every((lane) => lane.waiting.size === 0 || isFull(lane))
  }

  /**
   * Resolves when the call may begin, with the function to call once it ended.
   *
   * @throws KasError GITLAB_BUSY after `maxWaitMs`, or at once if too many wait; or the signal's reason
   */
  async enter(lane: Lane, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const state = this.#lanes[lanes.indexOf(lane)] as LaneState
    const begin = this.#clock.now()
    const { promise, resolve, reject } = Promise.withResolvers<() => void>()
    const waited = (allowed: boolean) => this.#events.waited(allowed, this.#clock.now() - begin)
    const admit = () => {
      waited(true)
      resolve(this.#begin(state))
    }
    const drop = (reason: unknown) => {
      if (state.waiting.delete(admit)) waited(false) // now, so that no turn is given to who is gone
      reject(reason)
    }
    const refuse = () => drop(new KasError({ code: 'GITLAB_BUSY', waitedMs: this.#clock.now() - begin }))
    const onAbort = () => drop(signal.reason)
    if (state.waiting.size >= this.#options.maxWaitingInLane) {
      waited(false)
      throw new KasError({ code: 'GITLAB_BUSY', waitedMs: 0 })
    }
    state.waiting.add(admit)
    const cancel = this.#clock.after(this.#options.maxWaitMs, refuse)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      this.#pump()
      return await promise
    } finally {
      cancel()
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Takes a turn in the books; the function gives it back, once. */
  #begin(state: LaneState): () => void {
    this.#tokens -= 1
    this.#running += 1
    state.running += 1
    let running = true
    return () => {
      if (!running) return
      running = false
      this.#running -= 1
      state.running -= 1
      this.#pump()
    }
  }

  #pump(): void {
    this.#refill()
    for (let state = this.#next(); state; state = this.#next()) {
      if (this.#tokens < 1) {
        this.#pumpLater()
        return
      }
      const admit = state.waiting.values().next().value as () => void
      state.waiting.delete(admit)
      this.#turn = (this.#lanes.indexOf(state) + 1) % lanes.length
      admit()
    }
  }

  /** The next lane in turn that has somebody who could run. */
  #next(): LaneState | undefined {
    if (this.#running >= this.#options.maxRunning) return undefined
    for (let i = 0; i < lanes.length; i++) {
      const state = this.#lanes[(this.#turn + i) % lanes.length] as LaneState
      if (state.waiting.size > 0 && state.running < state.maxRunning) return state
    }
    return undefined
  }

  #pumpLater(): void {
    if (this.#cancelPump) return
    const ms = Math.ceil(((1 - this.#tokens) * 1000) / this.#options.refillPerSecond)
    this.#cancelPump = this.#clock.after(ms, () => {
      this.#cancelPump = undefined
      this.#pump()
    })
  }

  #refill(): void {
    const now = this.#clock.now()
    const gained = ((now - this.#filledAt) * this.#options.refillPerSecond) / 1000
    this.#tokens = Math.min(this.#options.bucketSize, this.#tokens + Math.max(0, gained))
    this.#filledAt = now
  }
}
