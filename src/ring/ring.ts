import HashRing from 'hashring'

/** points per name, times the library's four; with five names the most loaded is within some 5 % of the mean */
const virtualNodes = 160

/** limit of cached ranks; all are dropped when there are more */
const maxCachedRanks = 10_000

/**
 * Orders the names of the serving replicas for a key. The order is the same at every replica that has the same names:
 * the ring is built from the sorted names, without any history.
 *
 * @see doc/internals/membership.md "Names and instances"
 */
export class Ring {
  /** sorted, each once */
  readonly names: readonly string[]
  readonly #ring: HashRing | undefined
  readonly #cache = new Map<string, readonly string[]>()

  private constructor(names: readonly string[]) {
    this.names = names
    this.#ring = names.length > 1 ? new HashRing(names, 'sha1', { 'vnode count': virtualNodes }) : undefined
  }

  static of(names: Iterable<string>): Ring {
    return new Ring([...new Set(names)].sort())
  }

  /** All names, best first for the key. */
  rank(key: string): readonly string[] {
    if (!this.#ring) return this.names
    const known = this.#cache.get(key)
    if (known) return known
    const rank = this.#ring.range(key, this.names.length, true)
    if (this.#cache.size >= maxCachedRanks) this.#cache.clear()
    this.#cache.set(key, rank)
    return rank
  }
}
