import type { Clock } from '../../../lib/clock.ts'

export interface TokenExpiryComponents<Owner> {
  readonly clock: Clock
  /** @param owners - owners of the expired tokens */
  readonly onExpired: (owners: ReadonlySet<Owner>) => void
}

/** End of a token. */
export interface Expiry<Owner> {
  readonly owner: Owner
  /** in ms since 1970 */
  readonly at: number
}

/**
 * Longest wait before the clock is read again, in ms. A timer does not notice an adjusted clock or a machine that
 * slept. Work that an expired token began has to end within 5 s.
 */
const maxWaitMs = 2000

/** Reports when tokens expire: one timer, for the next. */
export class TokenExpiry<Owner> {
  readonly #components: TokenExpiryComponents<Owner>
  #all: readonly Expiry<Owner>[] = []
  /** tokens that ended by then were reported */
  #comparedAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: TokenExpiryComponents<Owner>) {
    this.#components = components
  }

  /** @param expiries - ends of the tokens in force from now on */
  watch(expiries: readonly Expiry<Owner>[]): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#all = expiries
    this.#comparedAt = this.#components.clock.now()
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#cancel = undefined
  }

  #schedule(): void {
    if (this.#stopped || this.#all.length === 0) return
    const { clock } = this.#components
    const isAhead = ({ at }: Expiry<Owner>) => at > this.#comparedAt
    const next = this.#all.filter(isAhead).reduce((earliest, { at }) => Math.min(earliest, at), Infinity)
    this.#cancel = clock.after(Math.min(maxWaitMs, Math.max(1, next - clock.now())), () => this.#check())
  }

  /** Reports tokens that expired since the last check. If the clock was set back, a token can expire again. */
  #check(): void {
    const { clock, onExpired } = this.#components
    const before = this.#comparedAt
    const now = clock.now()
    this.#comparedAt = now
    const expired = new Set(this.#all.filter(({ at }) => at > before && at <= now).map(({ owner }) => owner))
    this.#schedule()
    if (expired.size > 0) onExpired(expired)
  }
}
