import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'

export interface CallLimitComponents {
  readonly clock: Clock
  /** a call got its turn, or left before, after so long */
  waited(allowed: boolean, ms: number): void
}

export interface CallLimitOptions {
  /** calls that may begin each second, and at once after a silence: upstream's gitaly.*_api_rate_limit */
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** calls that wait for their turn; more are refused */
  readonly maxWaiting: number
}

/** Lets calls begin at a bounded rate, first in, first out. */
export class CallLimit {
  readonly #components: CallLimitComponents
  readonly #options: CallLimitOptions
  readonly #waiting = new Set<() => void>()
  #tokens: number
  #filledAt: number
  #cancelPump: (() => void) | undefined

  constructor(components: CallLimitComponents, options: CallLimitOptions) {
    this.#components = components
    this.#options = options
    this.#tokens = options.bucketSize
    this.#filledAt = components.clock.now()
  }

  get inUse(): boolean {
    return this.#waiting.size > 0
  }

  /** @throws KasError REPOSITORY_FAILED if too many wait; the signal's reason */
  async enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { clock, waited } = this.#components
    const begin = clock.now()
    if (this.#waiting.size >= this.#options.maxWaiting) {
      waited(false, 0)
      const detail = `more than ${this.#options.maxWaiting} calls wait for Gitaly`
      throw new KasError({ code: 'REPOSITORY_FAILED', detail })
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    this.#pump()
    try {
      await abortable(promise, signal)
      waited(true, clock.now() - begin)
    } catch (error) {
      if (!this.#waiting.delete(resolve)) this.#giveBack()
      waited(false, clock.now() - begin)
      throw error
    }
  }

  /** Its turn had come when it left. */
  #giveBack(): void {
    this.#tokens += 1
    this.#pump()
  }

  #pump(): void {
    this.#refill()
    for (const admit of this.#waiting) {
      if (this.#tokens < 1) {
        this.#pumpLater()
        return
      }
      this.#tokens -= 1
      this.#waiting.delete(admit)
      admit()
    }
    this.#cancelPump?.()
    this.#cancelPump = undefined
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
