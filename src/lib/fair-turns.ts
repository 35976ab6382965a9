import { FairQueue } from './fair-queue.ts'
import { abortable } from './signals.ts'

export interface FairTurnsOptions {
  /** at once */
  readonly maxRunning: number
  /** of one source; default: all of them */
  readonly maxRunningOfSource?: number
  /** sources share these places where they are scarce */
  readonly maxWaiting: number
  /** whoever has no place */
  readonly tooMany: () => Error
}

/** A turn that may be taken away for others. */
export interface Reclaimable {
  /** when it began, by any clock */
  readonly since: number
  /** Its holder is to end it: others wait. */
  reclaim(): void
}

interface Running<Source> {
  readonly source: Source
  /** undefined: it lasts as long as its holder likes */
  readonly reclaimable: Reclaimable | undefined
  /** for whom it was taken away; it counts as his */
  heir: Source | undefined
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
export class FairTurns<Source> {
  readonly #options: FairTurnsOptions
  /** the longest first */
  readonly #running = new Set<Running<Source>>()
  readonly #counts = new Map<Source, number>()
  readonly #waiting: FairQueue<Waiting<Source>>

  constructor(options: FairTurnsOptions) {
    this.#options = options
    this.#waiting = new FairQueue(options.maxWaiting)
  }

  /** Whether all turns are taken, and somebody waits. */
  get isContended(): boolean {
    return this.#running.size >= this.#options.maxRunning && this.#waiting.size > 0
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
   * One of this source has waited for long. Where all turns are taken, one is taken away for it: the longest of whoever has most, if
   * he still has no less than this source then; else the longest of those who have more than it now, if it began by `latest`.
   */
  reclaim(source: Source, latest: number): void {
    const { maxRunning, maxRunningOfSource = maxRunning } = this.#options
    const own = this.#countOf(source)
    if (this.#running.size < maxRunning || own >= maxRunningOfSource) return
    const turns = [...this.#running].filter((turn) => turn.reclaimable && turn.heir === undefined)
    const most = Math.max(0, ...turns.map((turn) => this.#countOf(turn.source)))
    const isLong = ({ reclaimable }: Running<Source>) => reclaimable !== undefined && reclaimable.since <= latest
    const longest = turns.find((turn) => {
      const count = this.#countOf(turn.source)
      return most > own + 1 ? count === most : count > own && isLong(turn)
    })
    if (!longest) return
    this.#count(longest.source, -1)
    this.#count(source, 1)
    longest.heir = source
    longest.reclaimable?.reclaim()
  }

  #isFree(source: Source): boolean {
    const { maxRunning, maxRunningOfSource = maxRunning } = this.#options
    return this.#running.size < maxRunning && this.#countOf(source) < maxRunningOfSource
  }

  #begin(source: Source, reclaimable: Reclaimable | undefined): Running<Source> {
    const turn = { source, reclaimable, heir: undefined }
    this.#running.add(turn)
    this.#count(source, 1)
    return turn
  }

  /** The turn is handed on, or over. */
  #end(turn: Running<Source> | undefined): void {
    if (!turn || !this.#running.delete(turn)) return
    const { source, heir } = turn
    this.#count(heir ?? source, -1)
    const inherits = heir === undefined ? undefined : this.#waiting.take((each) => each === heir && this.#isFree(each))
    const next = inherits ?? this.#waiting.take((each) => this.#isFree(each))
    next?.begin()
  }

  #countOf(source: Source): number {
    return this.#counts.get(source) ?? 0
  }

  #count(source: Source, by: number): void {
    const count = this.#countOf(source) + by
    if (count > 0) this.#counts.set(source, count)
    else this.#counts.delete(source)
  }
}
