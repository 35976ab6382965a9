import type { Clock } from './clock.ts'

/** Of what fills in bit by bit. units */
const rounding = 1e-9

/** How fast units fill in, and how many there are at the most. */
export interface Rate {
  /** units */
  readonly perSecond: number
  /** units after a rest */
  readonly burst: number
}

/**
 * A rate of units: a token bucket. Whoever waits as long as `take` says keeps to it: in any time no more go by than the
 * burst, or one piece that is larger, and what has filled in meanwhile.
 */
export class RateLimit {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  #units: number
  #at: number

  /** Full. */
  constructor(clock: Pick<Clock, 'now'>, rate: Rate) {
    this.#clock = clock
    this.#rate = rate
    this.#units = rate.burst
    this.#at = clock.now()
  }

  /** In it now; below 0: what is owed. */
  get units(): number {
    const now = this.#clock.now()
    const { perSecond, burst } = this.#rate
    const filled = (Math.max(0, now - this.#at) * perSecond) / 1000 // a clock may be put back
    this.#units = Math.min(burst, this.#units + filled)
    this.#at = now
    return this.#units
  }

  /** Ms until it has so many; 0: it has. */
  msUntil(units: number): number {
    return Math.max(0, ((units - this.units) * 1000) / this.#rate.perSecond)
  }

  /** Takes units, also those that it does not have. @returns ms until nothing is owed; 0: it had them */
  take(units: number): number {
    this.#units = this.units - units
    return this.msUntil(0)
  }

  /** @returns whether it had them; else nothing is taken */
  takeIfThere(units: number): boolean {
    if (this.units < units - rounding) return false
    this.#units -= units
    return true
  }

  /** Puts back what was taken for nothing. */
  give(units: number): void {
    this.#units = Math.min(this.#rate.burst, this.units + units)
  }
}

/** That stay when there are too many: making room for one more at a time would take a search each. */
const keptShare = 3 / 4

/** RateLimits by key, in a bounded number: those that are full again are not kept. */
export class RateLimits<Key> {
  readonly #clock: Pick<Clock, 'now'>
  readonly #rate: Rate
  readonly #maxKeys: number
  readonly #limits = new Map<Key, RateLimit>()

  /** @param maxKeys - past it those that are full make room, else those that are the nearest to it, as if they were */
  constructor(clock: Pick<Clock, 'now'>, { maxKeys, ...rate }: Rate & { readonly maxKeys: number }) {
    this.#clock = clock
    this.#rate = rate
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#limits.size
  }

  /** Undefined: as good as full. */
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
