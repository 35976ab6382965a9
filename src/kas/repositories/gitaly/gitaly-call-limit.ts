import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { RateLimit } from '../../../lib/rate-limit.ts'
import { abortable } from '../../../lib/signals.ts'
import { FairQueue } from '../../../lib/turns.ts'

/** Reason of a call of Gitaly: after a push; for an agent that has nothing yet, such as a new one; periodically. */
const callQueues = ['pushes', 'arrivals', 'polls'] as const
export type CallQueue = (typeof callQueues)[number]

/** True if calls of the one queue wait for less than those of the other. */
export function isMoreUrgent(one: CallQueue, other: CallQueue): boolean {
  return callQueues.indexOf(one) < callQueues.indexOf(other)
}

/** Place of one call in the queues of all limits that it passes; it may change while the call waits. */
export interface CallTurn {
  queue: CallQueue
  /** tenant of the repository; within a queue, tenants take turns */
  readonly source: string
}

interface Waiting {
  readonly source: string
  readonly turn: CallTurn
  begin(): void
  /** Rejects the call: the queue has no place for it. */
  refuse(): void
}

export interface GitalyCallLimitComponents {
  readonly clock: Clock
  /** called when a call got its turn, or left before it, after so many ms */
  waited(allowed: boolean, ms: number): void
}

export interface GitalyCallLimitOptions {
  /** calls that may begin each second, and at once after a pause: upstream's gitaly.*_api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls of one queue that wait for their turn; when places are scarce, tenants share them */
  readonly maxWaiting: number
}

/**
 * Lets calls begin at a bounded rate. The queues take turns, so a crowd in one does not delay the others. The tenants
 * of a queue take turns too, so a tenant with a thousand agents delays the others by one call each. Calls of one tenant
 * begin in the order in which they came.
 */
export class GitalyCallLimit {
  readonly #components: GitalyCallLimitComponents
  readonly #options: GitalyCallLimitOptions
  readonly #waiting: Readonly<Record<CallQueue, FairQueue<Waiting>>>
  readonly #waitingOf = new Map<CallTurn, Waiting>()
  /** index of the queue whose turn is next, if it has waiting calls */
  #turn = 0
  readonly #rateLimit: RateLimit
  #cancelPump: (() => void) | undefined

  constructor(components: GitalyCallLimitComponents, options: GitalyCallLimitOptions) {
    this.#components = components
    this.#options = options
    const { maxWaiting } = options
    this.#waiting = {
      pushes: new FairQueue(maxWaiting),
      arrivals: new FairQueue(maxWaiting),
      polls: new FairQueue(maxWaiting),
    }
    this.#rateLimit = new RateLimit(components.clock, { perSecond: options.refillPerSecond, burst: options.bucketSize })
  }

  get inUse(): boolean {
    return callQueues.some((queue) => this.#waiting[queue].size > 0)
  }

  /** Waits for the turn of a call. @throws KasError REPOSITORY_FAILED if too many wait; the signal's reason */
  async enter(turn: CallTurn, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { clock, waited } = this.#components
    const begin = clock.now()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let hasTurn = false
    const waiting: Waiting = {
      source: turn.source,
      turn,
      begin: () => {
        hasTurn = true
        resolve()
      },
      refuse: () => reject(this.#tooMany()),
    }
    this.#waitingOf.set(turn, waiting)
    this.#refuse(this.#waiting[turn.queue].add(waiting))
    this.#pump()
    try {
      await abortable(promise, signal)
      waited(true, clock.now() - begin)
    } catch (error) {
      this.#leave(waiting)
      if (hasTurn) this.#giveBack()
      waited(false, clock.now() - begin)
      throw error
    }
  }

  /** Moves a waiting call to the queue that its turn names now, if there is room. */
  hurry(turn: CallTurn): void {
    const to = this.#waiting[turn.queue]
    const waiting = this.#waitingOf.get(turn)
    if (!waiting || to.size >= this.#options.maxWaiting) return
    const from = callQueues.find((queue) => queue !== turn.queue && this.#waiting[queue].delete(waiting))
    if (from) to.add(waiting)
  }

  #leave(waiting: Waiting): void {
    this.#waitingOf.delete(waiting.turn)
    for (const queue of callQueues) this.#waiting[queue].delete(waiting)
  }

  #refuse(waiting: Waiting | undefined): void {
    if (!waiting) return
    this.#waitingOf.delete(waiting.turn)
    waiting.refuse()
  }

  #tooMany(): KasError {
    const detail = `more than ${this.#options.maxWaiting} calls wait for Gitaly`
    return new KasError({ code: 'REPOSITORY_FAILED', detail })
  }

  /** Returns the token of a call that left after its turn had come. */
  #giveBack(): void {
    this.#rateLimit.give(1)
    this.#pump()
  }

  #pump(): void {
    for (let queue = this.#next(); queue; queue = this.#next()) {
      if (!this.#rateLimit.takeIfThere(1)) {
        this.#pumpLater()
        return
      }
      this.#turn = (callQueues.indexOf(queue) + 1) % callQueues.length
      const next = this.#waiting[queue].take() as Waiting
      this.#waitingOf.delete(next.turn)
      next.begin()
    }
    this.#cancelPump?.()
    this.#cancelPump = undefined
  }

  #next(): CallQueue | undefined {
    const inTurn = [...callQueues.slice(this.#turn), ...callQueues.slice(0, this.#turn)]
    return inTurn.find((queue) => this.#waiting[queue].size > 0)
  }

  #pumpLater(): void {
    if (this.#cancelPump) return
    this.#cancelPump = this.#components.clock.after(Math.ceil(this.#rateLimit.msUntil(1)), () => {
      this.#cancelPump = undefined
      this.#pump()
    })
  }
}
