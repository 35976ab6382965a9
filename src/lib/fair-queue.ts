/** A queue in which sources take turns, and share the places where they are scarce; of one, first come, first served. */
export class FairQueue<Item extends { readonly source: unknown }> {
  readonly #maxSize: number
  /** the one whose turn is next first */
  readonly #sources = new Map<Item['source'], Set<Item>>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  /** all, source by source */
  *items(): Iterable<Item> {
    for (const items of this.#sources.values()) yield* items
  }

  sizeOf(source: Item['source']): number {
    return this.#sources.get(source)?.size ?? 0
  }

  /** @returns who has no place: nobody, `item` itself, or the latest of the source that has the most */
  add(item: Item): Item | undefined {
    const own = this.#sources.get(item.source)
    let loser: Item | undefined
    if (this.#size >= this.#maxSize) {
      const share = this.#maxSize / (this.#sources.size + (own ? 0 : 1))
      if ((own?.size ?? 0) + 1 > share) return item
      loser = [...this.#largest()].at(-1) as Item
      this.delete(loser)
    }
    if (own) own.add(item)
    else this.#sources.set(item.source, new Set([item]))
    this.#size += 1
    return loser
  }

  /** @returns whether it was there */
  delete(item: Item): boolean {
    const own = this.#sources.get(item.source)
    if (!own?.delete(item)) return false
    if (own.size === 0) this.#sources.delete(item.source)
    this.#size -= 1
    return true
  }

  /**
   * The one whose turn it is, without its place.
   *
   * @param may - sources that may not, with the item whose turn it is, are passed over, and keep their turn; absent: all may
   */
  take(may: (source: Item['source'], item: Item) => boolean = () => true): Item | undefined {
    for (const [source, items] of this.#sources) {
      const [item] = items
      if (!may(source, item as Item)) continue
      this.#sources.delete(source)
      if (items.size > 1) this.#sources.set(source, items) // behind the others
      items.delete(item as Item)
      this.#size -= 1
      return item
    }
    return undefined
  }

  #largest(): Set<Item> {
    let largest = new Set<Item>()
    for (const items of this.#sources.values()) if (items.size > largest.size) largest = items
    return largest
  }
}
