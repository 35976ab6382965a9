import type { Clock } from './clock.ts'

/** Rounding error of units that fill in gradually. */
const rounding = 1e-9

/** Rate at which units fill in, and their greatest number. */
export interface Rate {
  /** units */
  readonly perSecond: number
  /** greatest number of units, after a rest */
  readonly burst: number
}

/**
 * A rate of units: a token bucket. A caller that waits for the time that `take` returns keeps to the rate. In any
 * period at most the burst, or one larger piece, and the units that filled in pass.
 */
export class RateLimit {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  #units: number
  #at: number

  /** The bucket begins full. */
  constructor(clock: Pick<Clock, 'now'>, rate: Rate) {
    this.#clock = clock
    this.#rate = rate
    this.#units = rate.burst
    this.#at = clock.now()
  }

  /** Units in the bucket now; below 0: a debt. */
  get units(): number {
    const now = this.#clock.now()
    const { perSecond, burst } = this.#rate
    const filled = (Math.max(0, now - this.#at) * perSecond) / 1000 // the clock may be set back
    this.#units = Math.min(burst, this.#units + filled)
    this.#at = now
    return this.#units
  }

  /** Time until the bucket has this many units; 0: it has them. ms */
  msUntil(units: number): number {
    return Math.max(0, ((units - this.units) * 1000) / this.#rate.perSecond)
  }

  /**
   * Takes units, also more than there are.
   *
   * @returns ms until nothing is owed; 0: the bucket had them
   */
  take(units: number): number {
    this.#units = this.units - units
    return this.msUntil(0)
  }

  /** @returns false: the bucket has fewer units, and nothing is taken */
  takeIfThere(units: number): boolean {
    if (this.units < units - rounding) return false
    this.#units -= units
    return true
  }

  /** Puts back units that were not used. */
  give(units: number): void {
    this.#units = Math.min(this.#rate.burst, this.units + units)
  }
}

/** Part of the limits that stay when there are too many. Removal of one at a time would take a search each. */
const keptShare = 3 / 4

/** RateLimits by key, for a bounded number of keys. Full ones are removed. */
export class RateLimits<Key> {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  readonly #maxKeys: number
  readonly #limits = new Map<Key, RateLimit>()

  /** @param maxKeys - above it full ones are removed, else the fullest, which then count as full */
  constructor(clock: Pick<Clock, 'now'>, { maxKeys, ...rate }: Rate & { readonly maxKeys: number }) {
    this.#clock = clock
    this.#rate = rate
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#limits.size
  }

  /** Undefined: the limit counts as full. */
  known(key: Key): RateLimit | undefined {
    return this.#limits.get(key)
  }

  of(key: Key): RateLimit {
    const known = this.#limits.get(key)
    if (known) return known
    if (this.#limits.size >= this.#maxKeys) this.#makeRoom()
    const limit = new RateLimit(this.#clock, this.#rate)
    this.#limits.set(key, limit)
    return limit
  }

  #makeRoom(): void {
    const newestFirst = Array.from(this.#limits, ([key, limit]) => ({ key, units: limit.units })).reverse()
    const emptiestFirst = newestFirst.sort((one, other) => one.units - other.units)
    const kept = Math.floor(this.#maxKeys * keptShare)
    for (const [place, { key, units }] of emptiestFirst.entries())
      if (units >= this.#rate.burst || place >= kept) this.#limits.delete(key)
  }
}
