export interface CounterLimits {
  readonly maxOfKey?: number
  /** of all keys together */
  readonly max?: number
}

/** How many each key has: things that are open, or units such as bytes. A key that has none is not kept. */
export class Counter<Key> {
  /** of `enter` */
  readonly limits: Required<CounterLimits>
  readonly #counts = new Map<Key, number>()
  #total = 0

  constructor({ maxOfKey = Number.POSITIVE_INFINITY, max = Number.POSITIVE_INFINITY }: CounterLimits = {}) {
    this.limits = { maxOfKey, max }
  }

  /** Of those keys that have any. */
  get counts(): ReadonlyMap<Key, number> {
    return this.#counts
  }

  /** Of all keys. */
  get total(): number {
    return this.#total
  }

  of(key: Key): number {
    return this.#counts.get(key) ?? 0
  }

  /** The key that has the most; undefined: none has any. */
  most(): Key | undefined {
    let most: Key | undefined
    let count = 0
    for (const [key, own] of this.#counts) if (own > count) [most, count] = [key, own]
    return most
  }

  /**
   * Whatever the limits are.
   *
   * @param by - below 0: so many fewer; none, where the key does not have as many
   * @returns how many it has now
   */
  add(key: Key, by = 1): number {
    const before = this.of(key)
    const count = Math.max(0, before + by)
    this.#total += count - before
    if (count > 0) this.#counts.set(key, count)
    else this.#counts.delete(key)
    return count
  }

  /** @returns takes them back, once; undefined: that would be over a limit, and nothing was counted */
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
