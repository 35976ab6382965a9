interface Own<Item> {
  /** the oldest first */
  readonly items: Set<Item>
  weight: number
}

export interface SharedHistoryOptions<Item> {
  /** bound of the sum of all items */
  readonly maxWeight: number
  /** weight of an item, which never changes; absent: 1 */
  readonly weightOf?: (item: Item) => number
  /** called for an item that was dropped for others */
  readonly lost: (item: Item) => void
}

/**
 * Items that are kept until others need their room. There are no quotas: the source that has most loses its oldest
 * item.
 */
export class SharedHistory<Item extends { readonly source: string }> {
  readonly #maxWeight: number
  readonly #weightOf: (item: Item) => number
  readonly #lost: (item: Item) => void
  readonly #sources = new Map<string, Own<Item>>()
  #weight = 0
  #largest: Own<Item> | undefined
  /** lower bound of the distance between the largest source and the next; below 0, the largest is searched again */
  #lead = 0

  constructor({ maxWeight, weightOf = () => 1, lost }: SharedHistoryOptions<Item>) {
    this.#maxWeight = maxWeight
    this.#weightOf = weightOf
    this.#lost = lost
  }

  /** Adds an item. It may be lost at once, if it is the only one of its source. */
  add(item: Item): void {
    const weight = this.#weightOf(item)
    const own = this.#sources.get(item.source) ?? { items: new Set(), weight: 0 }
    this.#sources.set(item.source, own)
    own.items.add(item)
    own.weight += weight
    this.#weight += weight
    this.#lead -= own === this.#largest ? -weight : weight
    while (this.#weight > this.#maxWeight) this.#makeRoom()
  }

  delete(item: Item): void {
    const own = this.#sources.get(item.source)
    if (!own?.items.delete(item)) return
    const weight = this.#weightOf(item)
    own.weight -= weight
    this.#weight -= weight
    if (own === this.#largest) this.#lead -= weight
    if (own.items.size === 0) this.#sources.delete(item.source)
  }

  #makeRoom(): void {
    if (this.#lead < 0 || !this.#largest?.items.size) this.#findLargest()
    const [oldest] = this.#largest?.items ?? []
    if (!oldest) return
    this.delete(oldest)
    this.#lost(oldest)
  }

  #findLargest(): void {
    let largest: Own<Item> | undefined
    let second = 0
    for (const own of this.#sources.values()) {
      if (own.weight > (largest?.weight ?? 0)) {
        second = largest?.weight ?? 0
        largest = own
      } else if (own.weight > second) second = own.weight
    }
    this.#largest = largest
    this.#lead = (largest?.weight ?? 0) - second
  }
}
