import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'
import { abortable } from '../../../lib/signals.ts'

/** Why Gitaly is called: by the clock, or since somebody waits for it, as after a push. */
const callQueues = ['polls', 'pushes'] as const
export type CallQueue = (typeof callQueues)[number]

/** One call's place in the queues of all limits that it meets; it may change while the call waits. */
export interface CallTurn {
  queue: CallQueue
  /** whose repository it is: of one queue, tenants take turns */
  readonly source: string
}

interface Waiting {
  readonly source: string
  readonly turn: CallTurn
  begin(): void
  /** It has no place. */
  refuse(): void
}

export interface CallLimitComponents {
  readonly clock: Clock
  /** a call got its turn, or left before, after so long */
  waited(allowed: boolean, ms: number): void
}

export interface CallLimitOptions {
  /** calls that may begin each second, and at once after a silence: upstream's gitaly.*_api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls of one queue that wait for their turn; tenants share these places where they are scarce */
  readonly maxWaiting: number
}

/**
 * Lets calls begin at a bounded rate. The queues take turns, so that a crowd of polls delays no push, nor one of pushes
 * the polls; so do the tenants of each queue, first in, first out of one: who has a thousand agents delays the others by
 * one call each.
 */
export class CallLimit {
  readonly #components: CallLimitComponents
  readonly #options: CallLimitOptions
  readonly #waiting: Readonly<Record<CallQueue, FairQueue<Waiting>>>
  readonly #waitingOf = new Map<CallTurn, Waiting>()
  /** whose turn is next, if it has somebody who waits */
  #turn: CallQueue = 'polls'
  #tokens: number
  #filledAt: number
  #cancelPump: (() => void) | undefined

  constructor(components: CallLimitComponents, options: CallLimitOptions) {
    this.#components = components
    this.#options = options
    this.#waiting = { polls: new FairQueue(options.maxWaiting), pushes: new FairQueue(options.maxWaiting) }
    this.#tokens = options.bucketSize
    this.#filledAt = components.clock.now()
  }

  get inUse(): boolean {
    return callQueues.some((queue) => this.#waiting[queue].size > 0)
  }

  /** @throws KasError REPOSITORY_FAILED if too many wait; the signal's reason */
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

  /** A poll becomes a push if it waits here, and there is room. */
  hurry(turn: CallTurn): void {
    const { polls, pushes } = this.#waiting
    const waiting = this.#waitingOf.get(turn)
    if (!waiting || pushes.size >= this.#options.maxWaiting || !polls.delete(waiting)) return
    pushes.add(waiting)
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

  /** Its turn had come when it left. */
  #giveBack(): void {
    this.#tokens += 1
    this.#pump()
  }

  #pump(): void {
    this.#refill()
    for (let queue = this.#next(); queue; queue = this.#next()) {
      if (this.#tokens < 1) {
        this.#pumpLater()
        return
      }
      this.#tokens -= 1
      this.#turn = queue === 'polls' ? 'pushes' : 'polls'
      const next = this.#waiting[queue].take() as Waiting
      this.#waitingOf.delete(next.turn)
      next.begin()
    }
    this.#cancelPump?.()
    this.#cancelPump = undefined
  }

  #next(): CallQueue | undefined {
    if (this.#waiting[this.#turn].size > 0) return this.#turn
    return callQueues.find((queue) => this.#waiting[queue].size > 0)
  }

  #pumpLater(): void {
    if (this.#cancelPump) return
    const ms = Math.ceil(((1 - this.#tokens) * 1000) / this.#options.refillPerSecond)
    this.#cancelPump = this.#components.clock.after(ms, () => {
      this.#cancelPump = undefined
      this.#pump()
    })
  }

  #refill(): void {
    const now = this.#components.clock.now()
    const gained = ((now - this.#filledAt) * this.#options.refillPerSecond) / 1000
    this.#tokens = Math.min(this.#options.bucketSize, this.#tokens + Math.max(0, gained))
    this.#filledAt = now
  }
}
