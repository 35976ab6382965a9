import type { Clock } from './clock.ts'
import { pause } from './pause.ts'

export interface BackoffComponents {
  readonly clock: Clock
  /** from 0 to 1 */
  readonly random: () => number
}

export interface BackoffOptions {
  readonly firstMs: number
  readonly maxMs: number
  readonly factor: number
  /** 0.2: up to a fifth more; with `around`, up to a fifth more or less */
  readonly jitter: number
  readonly around?: boolean
  /** time without a failure after which the next one counts as the first */
  readonly resetMs: number
}

/** Pauses between attempts, growing (doc/reference/tunnel-protocol.md 2.5). */
export class Backoff {
  readonly #components: BackoffComponents
  readonly #options: BackoffOptions
  #ms: number
  #lastAt = Number.NEGATIVE_INFINITY

  constructor(components: BackoffComponents, options: BackoffOptions) {
    this.#components = components
    this.#options = options
    this.#ms = options.firstMs
  }

  /** Returns the pause before the next attempt, in ms. */
  next(): number {
    const { clock, random } = this.#components
    const { firstMs, maxMs, factor, jitter, around, resetMs } = this.#options
    const now = clock.now()
    if (now - this.#lastAt > resetMs) this.#ms = firstMs
    this.#lastAt = now
    const base = this.#ms
    this.#ms = Math.min(base * factor, maxMs)
    return base * (1 + jitter * (around ? 2 * random() - 1 : random()))
  }

  /** Resolves when the next attempt is due, or as soon as `signal` aborts. */
  wait(signal: AbortSignal): Promise<void> {
    return pause(this.next(), this.#components.clock, signal)
  }

  reset(): void {
    this.#ms = this.#options.firstMs
  }
}
