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
  readonly #onTurn = () => this.#turn()

  constructor(perTurn: number, maxWaiting: number) {
    this.#perTurn = perTurn
    this.#waiting = new FairQueue(maxWaiting)
  }

  /**
   * @param begin - called in its turn, never before this returns
   * @param lost - called in place of it: the source has too many that wait, and others have fewer
   */
  enter(source: string, begin: () => void, lost: () => void): void {
    const item: Waiting = { source, begin, lost }
    const loser = this.#waiting.add(item)
    loser?.lost()
    if (loser !== item && this.#waiting.size === 1) setImmediate(this.#onTurn)
  }

  #turn(): void {
    for (let begun = 0; begun < this.#perTurn; begun++) this.#waiting.take()?.begin()
    if (this.#waiting.size > 0) setImmediate(this.#onTurn)
  }
}
