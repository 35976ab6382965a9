import type { Source, SourceHistory, Taken } from './source-history.ts'
import { FairQueue } from './turns.ts'

interface Network<Item extends Source> {
  readonly items: FairQueue<Item>
  readonly taken: Taken
}

/**
 * A queue of strangers' connections. Networks share its turns and its places, and the addresses of a network share the
 * network's. Networks that took less lately come first.
 */
export class NetworkQueue<Item extends Source> {
  readonly #maxSize: number
  readonly #history: SourceHistory
  readonly #networks = new Map<string, Network<Item>>()
  #size = 0

  constructor(maxSize: number, history: SourceHistory) {
    this.#maxSize = maxSize
    this.#history = history
  }

  get size(): number {
    return this.#size
  }

  get networks(): number {
    return this.#networks.size
  }

  sizeOf({ source, network }: Source): number {
    return this.#networks.get(network)?.items.sizeOf(source) ?? 0
  }

  /**
   * Adds an item. If the queue is full, the latest item of the address with most items leaves, in the network with
   * most. Among equal networks, the one that took most lately loses the item. If none took more, `item` itself leaves.
   *
   * @returns the item that left; undefined: none
   */
  add(item: Item): Item | undefined {
    this.#add(item)
    if (this.#size <= this.#maxSize) return undefined
    const loser = this.#largest(item.network)?.items.latest() ?? item
    this.delete(loser)
    return loser
  }

  /** @returns false: the item was not in the queue */
  delete(item: Item): boolean {
    const own = this.#networks.get(item.network)
    if (!own?.items.delete(item)) return false
    this.#removed(item, own)
    return true
  }

  /** Takes out the item whose turn it is. */
  take(): Item | undefined {
    const { freshMs } = this.#history
    let first: Network<Item> | undefined
    for (const each of this.#networks.values()) {
      if (!first || each.taken.ms < first.taken.ms) first = each
      if (first.taken.ms <= freshMs) break
    }
    const item = first?.items.take()
    if (!first || !item) return undefined
    this.#networks.delete(item.network)
    if (first.items.size > 0) this.#networks.set(item.network, first) // after the other networks
    this.#size -= 1
    return item
  }

  /** A turn of this network took `ms`. */
  charge({ network }: Source, ms: number): void {
    this.#history.charge(network, ms, this.#networks.size)
  }

  #add(item: Item): void {
    const own = this.#networks.get(item.network) ?? this.#create(item.network)
    own.items.add(item)
    this.#size += 1
  }

  #create(network: string): Network<Item> {
    const own = { items: new FairQueue<Item>(Number.POSITIVE_INFINITY), taken: this.#history.takenBy(network) }
    this.#networks.set(network, own)
    return own
  }

  #removed({ network }: Item, own: Network<Item>): void {
    this.#size -= 1
    if (own.items.size === 0) this.#networks.delete(network)
  }

  /** @param own - the network that loses if all are equal */
  #largest(own: string): Network<Item> | undefined {
    let largest = this.#networks.get(own)
    for (const each of this.#networks.values()) {
      const more = each.items.size - (largest?.items.size ?? 0)
      if (more > 0 || (more === 0 && each.taken.ms > (largest?.taken.ms ?? 0))) largest = each
    }
    return largest
  }
}
