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

interface Waiting<Source> {
  readonly source: Source
  begin(): void
  /** It has no place. */
  refuse(): void
}

/** So many turns at once: sources take them one after another, but for those that have their share. */
export class FairTurns<Source> {
  readonly #options: FairTurnsOptions
  readonly #running = new Map<Source, number>()
  readonly #waiting: FairQueue<Waiting<Source>>
  #count = 0

  constructor(options: FairTurnsOptions) {
    this.#options = options
    this.#waiting = new FairQueue(options.maxWaiting)
  }

  /** Whether all turns are taken, and somebody waits. */
  get isContended(): boolean {
    return this.#count >= this.#options.maxRunning && this.#waiting.size > 0
  }

  /**
   * @param signal - ends the wait
   * @returns what ends the turn
   * @throws `tooMany`; the signal's reason
   */
  async take(source: Source, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const end = () => this.#end(source)
    if (this.#isFree(source)) {
      this.#begin(source)
      return end
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let hasTurn = false
    const waiting: Waiting<Source> = {
      source,
      begin: () => {
        hasTurn = true
        resolve()
      },
      refuse: () => reject(this.#options.tooMany()),
    }
    this.#waiting.add(waiting)?.refuse()
    try {
      await abortable(promise, signal)
      return end
    } catch (error) {
      this.#waiting.delete(waiting)
      if (hasTurn) end()
      throw error
    }
  }

  #isFree(source: Source): boolean {
    const { maxRunning, maxRunningOfSource = maxRunning } = this.#options
    return this.#count < maxRunning && (this.#running.get(source) ?? 0) < maxRunningOfSource
  }

  #begin(source: Source): void {
    this.#count += 1
    this.#running.set(source, (this.#running.get(source) ?? 0) + 1)
  }

  /** The turn is handed on, or over. */
  #end(source: Source): void {
    this.#count -= 1
    const left = (this.#running.get(source) ?? 0) - 1
    if (left > 0) this.#running.set(source, left)
    else this.#running.delete(source)
    const next = this.#waiting.take((waiting) => this.#isFree(waiting))
    if (!next) return
    this.#begin(next.source)
    next.begin()
  }
}
