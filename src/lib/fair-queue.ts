interface Own<Item> {
  readonly items: Set<Item>
  weight: number
}

/** A queue in which sources take turns, and share the places where they are scarce; of one, first come, first served. */
export class FairQueue<Item extends { readonly source: unknown }> {
  readonly #maxSize: number
  readonly #weightOf: (item: Item) => number
  /** the one whose turn is next first */
  readonly #sources = new Map<Item['source'], Own<Item>>()
  #size = 0
  #weight = 0

  /** @param weightOf - places that an item takes, always the same of one; absent: one */
  constructor(maxSize: number, weightOf: (item: Item) => number = () => 1) {
    this.#maxSize = maxSize
    this.#weightOf = weightOf
  }

  /** items */
  get size(): number {
    return this.#size
  }

  /** all, source by source */
  *items(): Iterable<Item> {
    for (const { items } of this.#sources.values()) yield* items
  }

  sizeOf(source: Item['source']): number {
    return this.#sources.get(source)?.items.size ?? 0
  }

  /** Whether an item of this weight is sure to have a place, or would get that of another source. */
  hasPlace(source: Item['source'], weight: number): boolean {
    if (this.#weight + weight <= this.#maxSize) return true
    const own = this.#sources.get(source)
    return (own?.weight ?? 0) + weight <= this.#maxSize / (this.#sources.size + (own ? 0 : 1))
  }

  /** @returns who has no place: nobody, `item` itself, or the latest of the source that has the most */
  add(item: Item): Item | undefined {
    let loser: Item | undefined
    this.place(item, (lost) => {
      loser = lost
    })
    return loser
  }

  /** As `add`, where items differ in weight: several may have to go for one. @param lost - called with each */
  place(item: Item, lost: (item: Item) => void): void {
    const weight = this.#weightOf(item)
    while (this.#weight + weight > this.#maxSize) {
      if (!this.hasPlace(item.source, weight)) {
        lost(item)
        return
      }
      const loser = [...this.#largest()].at(-1) as Item
      this.delete(loser)
      lost(loser)
    }
    const own = this.#sources.get(item.source)
    if (own) {
      own.items.add(item)
      own.weight += weight
    } else this.#sources.set(item.source, { items: new Set([item]), weight })
    this.#size += 1
    this.#weight += weight
  }

  /** @returns whether it was there */
  delete(item: Item): boolean {
    const own = this.#sources.get(item.source)
    if (!own?.items.delete(item)) return false
    if (own.items.size === 0) this.#sources.delete(item.source)
    this.#forget(item, own)
    return true
  }

  /**
   * The one whose turn it is, without its place.
   *
   * @param may - sources that may not, with the item whose turn it is, are passed over, and keep their turn; absent: all may
   */
  take(may: (source: Item['source'], item: Item) => boolean = () => true): Item | undefined {
    for (const [source, own] of this.#sources) {
      const [item] = own.items
      if (!may(source, item as Item)) continue
      this.#sources.delete(source)
      if (own.items.size > 1) this.#sources.set(source, own) // behind the others
      own.items.delete(item as Item)
      this.#forget(item as Item, own)
      return item
    }
    return undefined
  }

  #forget(item: Item, own: Own<Item>): void {
    const weight = this.#weightOf(item)
    own.weight -= weight
    this.#size -= 1
    this.#weight -= weight
  }

  #largest(): Set<Item> {
    let largest: Own<Item> | undefined
    for (const own of this.#sources.values()) if (own.weight > (largest?.weight ?? 0)) largest = own
    return largest?.items ?? new Set()
  }
}
