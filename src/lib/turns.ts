import { Counter } from './counter.ts'
import { abortable } from './signals.ts'

interface Own<Item> {
  readonly items: Set<Item>
  weight: number
}

/**
 * A queue in which sources take turns, and share the places if they are scarce. Items of one source keep their order.
 */
export class FairQueue<Item extends { readonly source: unknown }> {
  readonly #maxSize: number
  readonly #weightOf: (item: Item) => number
  /** the source with the next turn first */
  readonly #sources = new Map<Item['source'], Own<Item>>()
  #size = 0
  #weight = 0

  /** @param weightOf - places of an item, which never change; absent: one */
  constructor(maxSize: number, weightOf: (item: Item) => number = () => 1) {
    this.#maxSize = maxSize
    this.#weightOf = weightOf
  }

  /** items */
  get size(): number {
    return this.#size
  }

  /** all items, source by source */
  *items(): Iterable<Item> {
    for (const { items } of this.#sources.values()) yield* items
  }

  sizeOf(source: Item['source']): number {
    return this.#sources.get(source)?.items.size ?? 0
  }

  /** True if an item of this weight is sure to have a place, or would get that of another source. */
  hasPlace(source: Item['source'], weight: number): boolean {
    if (this.#weight + weight <= this.#maxSize) return true
    const own = this.#sources.get(source)
    return (own?.weight ?? 0) + weight <= this.#maxSize / (this.#sources.size + (own ? 0 : 1))
  }

  /**
   * @returns the item without a place: `item` itself, or the latest of the source with most; undefined: all have one
   */
  add(item: Item): Item | undefined {
    let loser: Item | undefined
    this.place(item, (lost) => {
      loser = lost
    })
    return loser
  }

  /**
   * Adds an item as `add` does, for items of different weight: several may lose their place for one.
   *
   * @param lost - called with each of these
   */
  place(item: Item, lost: (item: Item) => void): void {
    const weight = this.#weightOf(item)
    while (this.#weight + weight > this.#maxSize) {
      if (!this.hasPlace(item.source, weight)) {
        lost(item)
        return
      }
      const loser = this.latest() as Item
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

  /** @returns false: the item was not in the queue */
  delete(item: Item): boolean {
    const own = this.#sources.get(item.source)
    if (!own?.items.delete(item)) return false
    if (own.items.size === 0) this.#sources.delete(item.source)
    this.#forget(item, own)
    return true
  }

  /** The latest item of the source with most. */
  latest(): Item | undefined {
    return [...this.#largest()].at(-1)
  }

  /**
   * Takes out the item whose turn it is.
   *
   * @param may - false: the source is passed over, and keeps its turn; absent: no source is
   */
  take(may: (source: Item['source'], item: Item) => boolean = () => true): Item | undefined {
    for (const [source, own] of this.#sources) {
      const [item] = own.items
      if (may(source, item as Item)) return this.#take(source, own)
    }
    return undefined
  }

  /** Takes out the next item of this source, also before its turn. */
  takeOf(source: Item['source']): Item | undefined {
    const own = this.#sources.get(source)
    return own && this.#take(source, own)
  }

  #take(source: Item['source'], own: Own<Item>): Item {
    const [item] = own.items as unknown as [Item]
    this.#sources.delete(source)
    if (own.items.size > 1) this.#sources.set(source, own) // after the other sources
    own.items.delete(item)
    this.#forget(item, own)
    return item
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

const unbounded = Number.POSITIVE_INFINITY

export interface TurnsOptions {
  /** at once; absent: any number */
  readonly maxRunning?: number
  /** at once, of one source; absent: `maxRunning` */
  readonly maxRunningOfSource?: number
  /** waiting turns of all sources, which share these places if they are scarce; absent: any number */
  readonly maxWaiting?: number
  /** waiting turns of one source; absent: `maxWaiting` */
  readonly maxWaitingOfSource?: number
  /** error of a turn that has no place */
  readonly tooMany?: () => Error
}

/** A turn that may be taken away for other sources. */
export interface Reclaimable {
  /** time of its beginning, by any clock */
  readonly since: number
  /** True if it uses its turn too little: such a turn is taken away first. Absent: never. */
  isIdle?(): boolean
  /** Asks the holder to end the turn, because others wait. */
  reclaim(): void
}

interface Running<Source> {
  readonly source: Source
  /** undefined: it lasts as long as its holder needs it */
  readonly reclaimable: Reclaimable | undefined
  /** source for which it was taken away, and to which it counts now */
  takenFor: Source | undefined
}

interface Waiting<Source> {
  readonly source: Source
  /** undefined: it has not begun */
  turn: Running<Source> | undefined
  begin(): void
  /** Ends the wait: it has no place. */
  refuse(): void
}

/** A bounded number of turns at once. Sources take them one after another, up to a share of each. */
export class Turns<Source> {
  readonly #options: Required<TurnsOptions>
  /** the longest first */
  readonly #running = new Set<Running<Source>>()
  readonly #counts = new Counter<Source>()
  readonly #waiting: FairQueue<Waiting<Source>>

  constructor(options: TurnsOptions = {}) {
    const {
      maxRunning = unbounded,
      maxRunningOfSource = maxRunning,
      maxWaiting = unbounded,
      maxWaitingOfSource = maxWaiting,
      tooMany = () => new Error('too many wait for their turn'),
    } = options
    this.#options = { maxRunning, maxRunningOfSource, maxWaiting, maxWaitingOfSource, tooMany }
    this.#waiting = new FairQueue(maxWaiting)
  }

  /** True while all turns are taken, and others wait. */
  get isContended(): boolean {
    return this.#isFull && this.#waiting.size > 0
  }

  /**
   * Does `work` in a turn, which ends with it.
   *
   * @param signal - ends the wait, not the work
   * @throws `tooMany`; the signal's reason; the error of `work`
   */
  async run<T>(source: Source, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const end = await this.take(source, signal)
    try {
      return await work()
    } finally {
      end()
    }
  }

  /**
   * @param signal - ends the wait
   * @param begun - called as the turn begins, returns how to take it away; absent: it cannot be taken away
   * @returns function that ends the turn
   * @throws `tooMany`; the signal's reason
   */
  async take(source: Source, signal: AbortSignal, begun?: () => Reclaimable): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#isFree(source)) {
      const turn = this.#begin(source, begun?.())
      return () => this.#end(turn)
    }
    if (this.#waiting.sizeOf(source) >= this.#options.maxWaitingOfSource) throw this.#options.tooMany()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting: Waiting<Source> = {
      source,
      turn: undefined,
      begin: () => {
        waiting.turn = this.#begin(source, begun?.())
        resolve()
      },
      refuse: () => reject(this.#options.tooMany()),
    }
    this.#waiting.add(waiting)?.refuse()
    try {
      await abortable(promise, signal)
      return () => this.#end(waiting.turn)
    } catch (error) {
      this.#waiting.delete(waiting)
      this.#end(waiting.turn)
      throw error
    }
  }

  /**
   * Takes one turn away for this source, which has waited for long, if all turns are taken. An idle turn of any source
   * goes first. Otherwise the longest turn of the source with most goes, if that source has no fewer than this one
   * afterwards. Otherwise the longest turn of a source with more than this one goes, if it began by `latest`.
   */
  reclaim(source: Source, latest: number): void {
    const own = this.#counts.of(source)
    if (!this.#isFull || own >= this.#options.maxRunningOfSource) return
    const turns = [...this.#running].filter((turn) => turn.reclaimable && turn.takenFor === undefined)
    const most = Math.max(0, ...turns.map((turn) => this.#counts.of(turn.source)))
    const isLong = ({ reclaimable }: Running<Source>) => reclaimable !== undefined && reclaimable.since <= latest
    const idle = turns.find(({ reclaimable }) => reclaimable?.isIdle?.())
    const longest =
      idle ??
      turns.find((turn) => {
        const count = this.#counts.of(turn.source)
        return most > own + 1 ? count === most : count > own && isLong(turn)
      })
    if (!longest) return
    this.#counts.add(longest.source, -1)
    this.#counts.add(source)
    longest.takenFor = source
    longest.reclaimable?.reclaim()
  }

  get #isFull(): boolean {
    return this.#running.size >= this.#options.maxRunning
  }

  #isFree(source: Source): boolean {
    return !this.#isFull && this.#counts.of(source) < this.#options.maxRunningOfSource
  }

  #begin(source: Source, reclaimable: Reclaimable | undefined): Running<Source> {
    const turn = { source, reclaimable, takenFor: undefined }
    this.#running.add(turn)
    this.#counts.add(source)
    return turn
  }

  /** Ends a turn. It goes to the source for which it was taken away, or to the next one. */
  #end(turn: Running<Source> | undefined): void {
    if (!turn) return
    const wasFull = this.#isFull
    if (!this.#running.delete(turn)) return
    const { source, takenFor } = turn
    const owner = takenFor ?? source
    this.#counts.add(owner, -1)
    // while there was room, all waiting sources had their share: only this source can use the turn
    const isOwners = this.#isFree(owner) && (takenFor !== undefined || !wasFull)
    const next = isOwners ? this.#waiting.takeOf(owner) : undefined
    const other = next || !wasFull ? next : this.#waiting.take((each) => this.#isFree(each))
    other?.begin()
  }
}
