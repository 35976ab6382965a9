import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { RateLimit } from '../../../lib/rate-limit.ts'
import { FairQueue } from '../../../lib/turns.ts'

/**
 * For whom GitLab is called. They take turns, so that a crowd in one keeps nobody in the others waiting. Credentials of
 * which nothing good is known have queues of their own: anybody can make them up; so have the projects that agents name.
 */
const queues = ['agents', 'users', 'reports', 'modules', 'projects', 'new_agents', 'new_users'] as const
export type QueueName = (typeof queues)[number]

/**
 * Calls at once, where that is fewer than in the other queues: agents' own requests last as long as agents like. All of
 * these together leave some of `maxRunning` to the others.
 */
const runningLimits: Readonly<Partial<Record<QueueName, number>>> = {
  modules: 15,
  projects: 10,
  new_agents: 10,
  new_users: 10,
}

/**
 * Calls that wait, where that is fewer than in the other queues: each holds up to 20 KB. At the usual rate who stands
 * further behind would find no turn in `maxWaitMs`, also when all agents come at once after a restart.
 */
const waitingLimits: Readonly<Partial<Record<QueueName, number>>> = { new_agents: 2000, new_users: 1000 }

/** Calls that are refused in one turn of the event loop: each has to be answered. */
const maxRefusedAtOnce = 50
/** until the next, in ms */
const refusalRestMs = 1

/** Built once: in a flood it is thrown thousands of times. */
const notChecked = new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })

/** The part of the burst that is left to others by calls that may not wait. */
const keptOfBurst = 0.75

/** How a call waits for its turn. */
export interface Turn {
  readonly queue: QueueName
  /**
   * asked before the call waits, and again when its turn has come: one that may not wait begins at once where there is
   * plenty of room, or is refused; absent: it may
   */
  readonly mayWait?: () => boolean
  /** sources of one queue take turns, and share its places; absent: all that name none are one */
  readonly source?: string
}

export interface GitlabCallLimitOptions {
  /** calls that may begin each second, and at once after a silence: upstream's gitlab.api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls that run at once: upstream's connections to GitLab (doc/reference/tunnel-protocol.md 5.2) */
  readonly maxRunning?: number
  /** of them in one queue, so that an endpoint that hangs holds up its own queue only */
  readonly maxRunningInQueue?: number
  /** calls of one queue that wait for their turn; more are refused */
  readonly maxWaitingInQueue?: number
  /** the longest that a call waits for its turn, in ms */
  readonly maxWaitMs?: number
}

const defaults = { maxRunning: 50, maxRunningInQueue: 30, maxWaitingInQueue: 10_000, maxWaitMs: 20_000 }

export interface GitlabCallLimitEvents {
  /** a call got its turn, or did not, after so long */
  waited(allowed: boolean, ms: number): void
}

interface Waiting {
  readonly source: string
  readonly since: number
  admit(): void
  /** It has waited for too long. */
  expire(): void
  /** It may not wait, or has no place. */
  refuse(): void
  mayWait(): boolean
}

interface QueueState {
  readonly maxRunning: number
  readonly waiting: FairQueue<Waiting>
  running: number
}

/** Lets calls to GitLab begin: not too many a second, not too many at once, whatever GitLab does. */
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
  /** in all queues, the longest waiting first */
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

  /** Whether there is room for what is not needed: calls that are tried again. */
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
   * @throws KasError GITLAB_BUSY after `maxWaitMs`, or at once if too many wait; CREDENTIAL_NOT_CHECKED at once, or when
   * its turn has come, if it may not wait; or the signal's reason
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
      if (state.waiting.delete(waiting)) refuse(reason) // now, so that no turn is given to who is gone
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

  /** Takes a turn in the books; the function gives it back, once. */
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

  /** The next queue in turn that has somebody who could run. */
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

  /** One timer for all: they wait equally long, and those that came together are not refused together. */
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

  /** A clock that was put back lets nobody wait for longer. */
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
