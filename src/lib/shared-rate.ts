import type { Clock } from './clock.ts'
import type { Rate } from './rate-limit.ts'

/** Units that count as zero. */
const rounding = 1e-6
/** Bound of takers with a debt of their own. All others share one debt. */
const maxDebtors = 1000
const others = ''

/**
 * A rate that its takers share: a token bucket. A taker that takes more than the bucket has owes the rest. All debts
 * are paid together at the rate, in equal parts. A taker waits for its own debt only, so one that takes little goes on
 * beside one that takes much.
 */
export class SharedRate {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  /** by taker; above 0 */
  readonly #debts = new Map<string, number>()
  #units: number
  #at: number

  /** The bucket begins full. */
  constructor(clock: Pick<Clock, 'now'>, rate: Rate) {
    this.#clock = clock
    this.#rate = rate
    this.#units = rate.burst
    this.#at = clock.now()
  }

  /** True if the bucket is full: a new one would be the same. */
  get isFull(): boolean {
    this.#pay()
    return this.#units >= this.#rate.burst
  }

  /** Time until the taker owes nothing, if nothing more is taken; 0: it owes nothing. ms */
  msUntilPaid(taker: string): number {
    this.#pay()
    const own = this.#debts.get(this.#debtor(taker)) ?? 0
    let owed = 0
    for (const debt of this.#debts.values()) owed += Math.min(debt, own)
    return (owed * 1000) / this.#rate.perSecond
  }

  /** Takes units, also more than there are. */
  take(taker: string, units: number): void {
    this.#pay()
    const owed = units - Math.min(units, this.#units)
    this.#units -= units - owed
    if (owed === 0) return
    const debtor = this.#debtor(taker)
    this.#debts.set(debtor, (this.#debts.get(debtor) ?? 0) + owed)
  }

  #debtor(taker: string): string {
    return this.#debts.has(taker) || this.#debts.size < maxDebtors ? taker : others
  }

  /** Pays debts with the units since the last call, and fills the bucket if there are none. */
  #pay(): void {
    const now = this.#clock.now()
    const { perSecond, burst } = this.#rate
    let filled = (Math.max(0, now - this.#at) * perSecond) / 1000 // the clock may be set back
    this.#at = now
    while (filled > 0 && this.#debts.size > 0) {
      const part = Math.min(filled / this.#debts.size, ...this.#debts.values())
      filled -= part * this.#debts.size
      for (const [taker, debt] of this.#debts) {
        if (debt - part > rounding) this.#debts.set(taker, debt - part)
        else this.#debts.delete(taker)
      }
      if (filled <= rounding) filled = 0
    }
    this.#units = Math.min(burst, this.#units + filled)
  }
}

/** A rate of each key, for a bounded number of keys. Rates that are full again are dropped. */
export class SharedRates<Key> {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  readonly #maxKeys: number
  readonly #rates = new Map<Key, SharedRate>()

  /** @param maxKeys - above it, full rates are dropped, else the oldest one */
  constructor(clock: Pick<Clock, 'now'>, { maxKeys, ...rate }: Rate & { readonly maxKeys: number }) {
    this.#clock = clock
    this.#rate = rate
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#rates.size
  }

  of(key: Key): SharedRate {
    const known = this.#rates.get(key)
    if (known) return known
    if (this.#rates.size >= this.#maxKeys) this.#makeRoom()
    const rate = new SharedRate(this.#clock, this.#rate)
    this.#rates.set(key, rate)
    return rate
  }

  #makeRoom(): void {
    for (const [key, rate] of this.#rates) if (rate.isFull) this.#rates.delete(key)
    const [first] = this.#rates.keys()
    if (first !== undefined && this.#rates.size >= this.#maxKeys) this.#rates.delete(first)
  }
}
