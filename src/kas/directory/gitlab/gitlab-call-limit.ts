import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { RateLimit } from '../../../lib/rate-limit.ts'
import { FairQueue } from '../../../lib/turns.ts'

/**
 * Callers of GitLab. The queues take turns, so that a crowd in one does not delay the others. Anyone can make up
 * credentials, so those without a good answer have queues of their own. So have the projects that agents name.
 */
const queues = ['agents', 'users', 'reports', 'modules', 'projects', 'new_agents', 'new_users'] as const
export type QueueName = (typeof queues)[number]

/**
 * Calls at once, for queues with fewer than the others: agents' own requests last as long as agents like. All of these
 * queues together leave some of `maxRunning` to the others.
 */
const runningLimits: Readonly<Partial<Record<QueueName, number>>> = {
  modules: 15,
  projects: 10,
  new_agents: 10,
  new_users: 10,
}

/**
 * Waiting calls, for queues with fewer than the others: each takes up to 20 KB. At the usual rate, a call further
 * behind would not get its turn within `maxWaitMs`, also when all agents come at once after a restart.
 */
const waitingLimits: Readonly<Partial<Record<QueueName, number>>> = { new_agents: 2000, new_users: 1000 }

/** Calls at once, each with a connection: upstream's connections to GitLab (doc/reference/tunnel-protocol.md 5.2). */
export const maxCalls = 50
/** Calls that are refused in one turn of the event loop: each needs an answer. */
const maxRefusedAtOnce = 50
/** until the next, in ms */
const refusalRestMs = 1

/** Created once: a flood throws it thousands of times. */
const notChecked = new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })

/** Part of the burst that calls which may not wait leave to others. */
const keptOfBurst = 0.75

/** A call's place in the limit, and its permission to wait. */
export interface Turn {
  readonly queue: QueueName
  /**
   * called before the call waits, and again at its turn. A call that may not wait begins at once if there is plenty of
   * room; otherwise it is refused. Absent: it may wait
   */
  readonly mayWait?: () => boolean
  /** sources of one queue take turns and share its places; absent: all calls without one are one source */
  readonly source?: string
}

export interface GitlabCallLimitOptions {
  /** calls that may begin each second, and at once after a pause: upstream's gitlab.api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls that run at once */
  readonly maxRunning?: number
  /** calls of one queue that run at once: an endpoint without answers blocks its own queue only */
  readonly maxRunningInQueue?: number
  /** calls of one queue that wait for their turn; more are refused */
  readonly maxWaitingInQueue?: number
  /** the longest that a call waits for its turn, in ms */
  readonly maxWaitMs?: number
}

const defaults = { maxRunning: maxCalls, maxRunningInQueue: 30, maxWaitingInQueue: 10_000, maxWaitMs: 20_000 }

export interface GitlabCallLimitEvents {
  /** Called when a call got its turn, or did not, after so many ms. */
  waited(allowed: boolean, ms: number): void
}

interface Waiting {
  readonly source: string
  readonly since: number
  admit(): void
  /** Rejects a call that has waited too long. */
  expire(): void
  /** Rejects a call that may not wait, or has no place. */
  refuse(): void
  mayWait(): boolean
}

interface QueueState {
  readonly maxRunning: number
  readonly waiting: FairQueue<Waiting>
  running: number
}

/** Lets calls to GitLab begin: bounded per second and at once, however slow GitLab is. */
export class GitlabCallLimit {
  readonly #clock: Clock
  readonly #events: GitlabCallLimitEvents
  readonly #options: GitlabCallLimitOptions & typeof defaults
  readonly #queues: readonly QueueState[]
  readonly #rateLimit: RateLimit
  #running = 0
  /** index of the queue whose turn is next */
  #turn = 0
  #cancelPump: (() => void) | undefined
  /** waiting calls of all queues, the longest waiting first */
  readonly #waiting = new Set<Waiting>()
  #cancelExpiry: (() => void) | undefined

  constructor(components: { clock: Clock; events: GitlabCallLimitEvents }, options: GitlabCallLimitOptions) {
    this.#clock = components.clock
    this.#events = components.events
    this.#options = { ...defaults, ...options }
    const { maxRunningInQueue, maxWaitingInQueue } = this.#options
    this.#queues = queues.map((queue) => ({
      maxRunning: Math.min(maxRunningInQueue, runningLimits[queue] ?? maxRunningInQueue),
      waiting: new FairQueue(Math.min(maxWaitingInQueue, waitingLimits[queue] ?? maxWaitingInQueue)),
      running: 0,
    }))
    this.#rateLimit = new RateLimit(this.#clock, { perSecond: options.refillPerSecond, burst: options.bucketSize })
  }

  /** True if there is room for optional calls, which are repeats. */
  get isCalm(): boolean {
    const { bucketSize, maxRunningInQueue } = this.#options
    const isFull = ({ running, maxRunning }: QueueState) => maxRunning < maxRunningInQueue && running >= maxRunning
    return (
      this.#rateLimit.units >= bucketSize / 2 &&
      this.#queues.every((queue) => queue.waiting.size === 0 || isFull(queue))
    )
  }

  /**
   * Resolves when the call may begin, with the function to call once it ended.
   *
   * @throws KasError GITLAB_BUSY after `maxWaitMs`, or at once if too many wait; the signal's reason
   * @throws KasError CREDENTIAL_NOT_CHECKED at once, or at its turn, if the call may not wait
   */
  async enter(turn: Turn, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const state = this.#queues[queues.indexOf(turn.queue)] as QueueState
    if (turn.mayWait && !turn.mayWait()) return this.#beginAtOnce(state)
    return await this.#wait(state, turn, signal)
  }

  /** @throws KasError CREDENTIAL_NOT_CHECKED unless there is plenty of room */
  #beginAtOnce(state: QueueState): () => void {
    const { bucketSize, maxRunning } = this.#options
    const isRoom = state.running < state.maxRunning && this.#running < maxRunning && state.waiting.size === 0
    const begins = isRoom && this.#rateLimit.units >= Math.max(1, bucketSize * keptOfBurst)
    this.#events.waited(begins, 0)
    if (!begins) throw notChecked
    return this.#begin(state)
  }

  async #wait(state: QueueState, { mayWait, source = '' }: Turn, signal: AbortSignal): Promise<() => void> {
    const begin = this.#clock.now()
    const { promise, resolve, reject } = Promise.withResolvers<() => void>()
    const waited = (allowed: boolean) => this.#events.waited(allowed, this.#clock.now() - begin)
    const busy = () => new KasError({ code: 'GITLAB_BUSY', waitedMs: this.#clock.now() - begin })
    const waiting: Waiting = {
      source,
      since: begin,
      mayWait: mayWait ?? always,
      admit: () => {
        waited(true)
        resolve(this.#begin(state))
      },
      refuse: () => refuse(mayWait ? notChecked : busy()),
      expire: () => leave(busy()),
    }
    const refuse = (reason: unknown) => {
      waited(false)
      reject(reason)
    }
    const leave = (reason: unknown) => {
      if (state.waiting.delete(waiting)) refuse(reason) // now, so that an ended caller gets no turn
    }
    const onAbort = () => leave(signal.reason)
    state.waiting.add(waiting)?.refuse()
    this.#waiting.add(waiting)
    this.#expireLater()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      this.#pump()
      return await promise
    } finally {
      this.#waiting.delete(waiting)
      if (this.#waiting.size === 0) this.#cancelExpiry?.()
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Counts a call that begins; the returned function counts its end, once. */
  #begin(state: QueueState): () => void {
    this.#rateLimit.take(1)
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
    let refused = 0
    for (let state = this.#next(); state; state = this.#next()) {
      const waitMs = this.#rateLimit.msUntil(1)
      if (waitMs > 0) {
        this.#pumpLater(Math.ceil(waitMs))
        return
      }
      if (refused >= maxRefusedAtOnce) {
        this.#pumpLater(refusalRestMs)
        return
      }
      const waiting = state.waiting.take() as Waiting
      if (!waiting.mayWait()) {
        refused += 1
        waiting.refuse()
        continue
      }
      this.#turn = (this.#queues.indexOf(state) + 1) % queues.length
      waiting.admit()
    }
  }

  /** Returns the next queue with a waiting call that may run. */
  #next(): QueueState | undefined {
    if (this.#running >= this.#options.maxRunning) return undefined
    for (let i = 0; i < queues.length; i++) {
      const state = this.#queues[(this.#turn + i) % queues.length] as QueueState
      if (state.waiting.size > 0 && state.running < state.maxRunning) return state
    }
    return undefined
  }

  #pumpLater(ms: number): void {
    if (this.#cancelPump) return
    this.#cancelPump = this.#clock.after(ms, () => {
      this.#cancelPump = undefined
      this.#pump()
    })
  }

  /** Sets one timer for all: all wait equally long. Calls that came together are refused in portions. */
  #expireLater(): void {
    const [longest] = this.#waiting
    if (!longest || this.#cancelExpiry) return
    const { maxWaitMs } = this.#options
    const ms = Math.min(maxWaitMs, longest.since + maxWaitMs - this.#clock.now())
    const cancel = this.#clock.after(Math.max(refusalRestMs, ms), () => {
      this.#cancelExpiry = undefined
      this.#expire()
      this.#expireLater()
    })
    this.#cancelExpiry = () => {
      cancel()
      this.#cancelExpiry = undefined
    }
  }

  /** Refuses calls that have waited too long. A clock that was set back extends no wait. */
  #expire(): void {
    const now = this.#clock.now()
    let refused = 0
    for (const waiting of this.#waiting) {
      const isInTime = waiting.since <= now && now < waiting.since + this.#options.maxWaitMs
      if (isInTime || refused >= maxRefusedAtOnce) return
      this.#waiting.delete(waiting)
      waiting.expire()
      refused += 1
    }
  }
}

function always(): boolean {
  return true
}
