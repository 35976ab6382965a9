import type { Clock } from '../../lib/clock.ts'

export interface TokenExpiryComponents {
  readonly clock: Clock
  readonly onExpired: () => void
}

/**
 * Longest wait before the clock is read again: a timer knows nothing of a clock that was put right or of a machine that
 * slept, and cannot wait for more than 2^31 - 1 ms.
 */
const maxWaitMs = 60_000

/** Tells when tokens become void by time: one timer, for the next. */
export class TokenExpiry {
  readonly #components: TokenExpiryComponents
  /** in ms since 1970, all later than when they were looked at last */
  #pending: readonly number[] = []
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: TokenExpiryComponents) {
    this.#components = components
  }

  /** @param expiries - in ms since 1970: those of what is in force from now on */
  watch(expiries: readonly number[]): void {
    this.#cancel?.()
    this.#cancel = undefined
    const now = this.#components.clock.now()
    this.#pending = expiries.filter((at) => at > now)
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#cancel = undefined
  }

  #schedule(): void {
    if (this.#stopped || this.#pending.length === 0) return
    const { clock } = this.#components
    const next = this.#pending.reduce((earliest, at) => Math.min(earliest, at))
    this.#cancel = clock.after(Math.min(maxWaitMs, Math.max(1, next - clock.now())), () => this.#check())
  }

  #check(): void {
    const { clock, onExpired } = this.#components
    const now = clock.now()
    const later = this.#pending.filter((at) => at > now)
    const isOver = later.length < this.#pending.length
    this.#pending = later
    this.#schedule()
    if (isOver) onExpired()
  }
}
