export interface BackoffOptions {
  readonly firstMs: number
  readonly maxMs: number
  readonly factor: number
  /** 0.2: up to a fifth more (or, when `around`, less or more) */
  readonly jitter: number
  readonly around?: boolean
  /** without a failure for this long the next one counts as the first */
  readonly resetMs: number
}

/** Pauses between attempts, growing (wire-protocol 2.5). Time and chance are given, so that tests can move them. */
export class Backoff {
  readonly #options: BackoffOptions
  readonly #now: () => number
  readonly #random: () => number
  #ms: number
  #lastAt = Number.NEGATIVE_INFINITY

  constructor(options: BackoffOptions, now: () => number, random: () => number) {
    this.#options = options
    this.#now = now
    this.#random = random
    this.#ms = options.firstMs
  }

  /** How long to wait before the next attempt, in ms. */
  next(): number {
    const { firstMs, maxMs, factor, jitter, around, resetMs } = this.#options
    const now = this.#now()
    if (now - this.#lastAt > resetMs) this.#ms = firstMs
    this.#lastAt = now
    const base = this.#ms
    this.#ms = Math.min(base * factor, maxMs)
    return base * (1 + jitter * (around ? 2 * this.#random() - 1 : this.#random()))
  }

  reset(): void {
    this.#ms = this.#options.firstMs
  }
}
