import { Counter } from './counter.ts'
import { abortable } from './signals.ts'

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

  /** @returns whether it was there */
  delete(item: Item): boolean {
    const own = this.#sources.get(item.source)
    if (!own?.items.delete(item)) return false
    if (own.items.size === 0) this.#sources.delete(item.source)
    this.#forget(item, own)
    return true
  }

  /** The latest item of the source that has most. */
  latest(): Item | undefined {
    return [...this.#largest()].at(-1)
  }

  /**
   * The one whose turn it is, without its place.
   *
   * @param may - sources that may not, with the item whose turn it is, are passed over, and keep their turn; absent: all may
   */
  take(may: (source: Item['source'], item: Item) => boolean = () => true): Item | undefined {
    for (const [source, own] of this.#sources) {
      const [item] = own.items
      if (may(source, item as Item)) return this.#take(source, own)
    }
    return undefined
  }

  /** The next of this source, without its place, whosever turn it is. */
  takeOf(source: Item['source']): Item | undefined {
    const own = this.#sources.get(source)
    return own && this.#take(source, own)
  }

  #take(source: Item['source'], own: Own<Item>): Item {
    const [item] = own.items as unknown as [Item]
    this.#sources.delete(source)
    if (own.items.size > 1) this.#sources.set(source, own) // behind the others
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
  /** of one source; absent: all of them */
  readonly maxRunningOfSource?: number
  /** sources share these places where they are scarce; absent: any number */
  readonly maxWaiting?: number
  /** of one source; absent: all of them */
  readonly maxWaitingOfSource?: number
  /** for whoever has no place */
  readonly tooMany?: () => Error
}

/** A turn that may be taken away for others. */
export interface Reclaimable {
  /** when it began, by any clock */
  readonly since: number
  /** Whether it uses its turn too little: it goes first. Absent: never. */
  isIdle?(): boolean
  /** Its holder is to end it: others wait. */
  reclaim(): void
}

interface Running<Source> {
  readonly source: Source
  /** undefined: it lasts as long as its holder likes */
  readonly reclaimable: Reclaimable | undefined
  /** for whom it was taken away; it counts as his */
  takenFor: Source | undefined
}

interface Waiting<Source> {
  readonly source: Source
  /** once it has begun */
  turn: Running<Source> | undefined
  begin(): void
  /** It has no place. */
  refuse(): void
}

/** So many turns at once: sources take them one after another, but for those that have their share. */
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

  /** True while all turns are taken, and somebody waits. */
  get isContended(): boolean {
    return this.#isFull && this.#waiting.size > 0
  }

  /**
   * Does `work` in a turn, which ends with it.
   *
   * @param signal - ends the wait, not the work
   * @throws `tooMany`; the signal's reason; what `work` throws
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
   * @param begun - called as the turn begins: how it may be taken away; absent: it may not
   * @returns what ends the turn
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
   * One of this source has waited for long. Where all turns are taken, one is taken away for it: an idle one, whosever it
   * is; else the longest of whoever has most, if
   * he still has no less than this source then; else the longest of those who have more than it now, if it began by `latest`.
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

  /** The turn is handed on, or over. */
  #end(turn: Running<Source> | undefined): void {
    if (!turn) return
    const wasFull = this.#isFull
    if (!this.#running.delete(turn)) return
    const { source, takenFor } = turn
    const owner = takenFor ?? source
    this.#counts.add(owner, -1)
    // while there was room all that wait had their shares: it is for this one, if for anybody
    const isOwners = this.#isFree(owner) && (takenFor !== undefined || !wasFull)
    const next = isOwners ? this.#waiting.takeOf(owner) : undefined
    const other = next || !wasFull ? next : this.#waiting.take((each) => this.#isFree(each))
    other?.begin()
  }
}
