import { FairQueue } from './fair-queue.ts'

interface Waiting {
  readonly source: string
  readonly begin: () => void
  readonly lost: () => void
}

/**
 * Work that comes in bursts begins a few pieces in each turn of the event loop, one source after another: what others
 * send is served in between.
 */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting: FairQueue<Waiting>
  /** in this turn of the event loop */
  #begun = 0
  readonly #onTurn = () => this.#turn()

  constructor(perTurn: number, maxWaiting: number) {
    this.#perTurn = perTurn
    this.#waiting = new FairQueue(maxWaiting)
  }

  /**
   * @param begin - called in its turn, which may be now
   * @param lost - called in place of it: the source has too many that wait, and others have fewer
   * @returns undefined where it has begun; else what ends the wait: neither is called then
   */
  enter(source: string, begin: () => void, lost: () => void): (() => void) | undefined {
    if (this.#begun < this.#perTurn && this.#waiting.size === 0) {
      this.#begin(begin)
      return undefined
    }
    const waiting = { source, begin, lost }
    this.#waiting.add(waiting)?.lost()
    return () => void this.#waiting.delete(waiting)
  }

  #begin(begin: () => void): void {
    this.#begun++
    if (this.#begun === 1) setImmediate(this.#onTurn)
    begin()
  }

  /** Nobody waits while fewer than may have begun, but who comes in the midst of it. */
  #turn(): void {
    this.#begun = 0
    while (this.#begun < this.#perTurn) {
      const next = this.#waiting.take()
      if (!next) return
      this.#begin(next.begin)
    }
  }
}
