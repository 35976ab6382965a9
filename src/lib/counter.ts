export interface CounterLimits {
  readonly maxOfKey?: number
  /** of all keys together */
  readonly max?: number
}

/** Counts for each key, of open things, or of units such as bytes. A key with a count of 0 is removed. */
export class Counter<Key> {
  /** limits of `enter` */
  readonly limits: Required<CounterLimits>
  readonly #counts = new Map<Key, number>()
  #total = 0

  constructor({ maxOfKey = Number.POSITIVE_INFINITY, max = Number.POSITIVE_INFINITY }: CounterLimits = {}) {
    this.limits = { maxOfKey, max }
  }

  /** counts above 0, by key */
  get counts(): ReadonlyMap<Key, number> {
    return this.#counts
  }

  /** sum over all keys */
  get total(): number {
    return this.#total
  }

  of(key: Key): number {
    return this.#counts.get(key) ?? 0
  }

  /** The key with the highest count; undefined: all are 0. */
  most(): Key | undefined {
    let most: Key | undefined
    let count = 0
    for (const [key, own] of this.#counts) if (own > count) [most, count] = [key, own]
    return most
  }

  /**
   * Adds to a count, whatever the limits are.
   *
   * @param by - below 0: subtracts, but not below a count of 0
   * @returns the new count
   */
  add(key: Key, by = 1): number {
    const before = this.of(key)
    const count = Math.max(0, before + by)
    this.#total += count - before
    if (count > 0) this.#counts.set(key, count)
    else this.#counts.delete(key)
    return count
  }

  /**
   * @returns function that subtracts them again, once; undefined: a limit would be exceeded, and nothing was counted
   */
  enter(key: Key, by = 1): (() => void) | undefined {
    if (this.of(key) + by > this.limits.maxOfKey || this.#total + by > this.limits.max) return undefined
    this.add(key, by)
    let isIn = true
    return () => {
      if (isIn) this.add(key, -by)
      isIn = false
    }
  }

  delete(key: Key): void {
    this.add(key, -this.of(key))
  }

  clear(): void {
    this.#counts.clear()
    this.#total = 0
  }
}
