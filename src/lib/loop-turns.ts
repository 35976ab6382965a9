import { FairQueue } from './turns.ts'

interface Waiting {
  readonly source: string
  readonly begin: () => void
  readonly lost: () => void
}

/** Bound of successive turns that are given to other work. */
const maxGivenWay = 16

/**
 * Spreads bursts of work: a few pieces begin in each turn of the event loop, or after each rest, one source after
 * another. Other events are served in between.
 */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting: FairQueue<Waiting>
  readonly #restMs: number
  /** pieces that began in this turn */
  #begun = 0
  #isTurnDue = false
  #givesWay = false
  #givenWay = 0
  readonly #onTurn = () => this.#turn()

  /** @param restMs - least time between turns; 0: the event loop's next turn */
  constructor(perTurn: number, maxWaiting: number, restMs = 0) {
    this.#perTurn = perTurn
    this.#waiting = new FairQueue(maxWaiting)
    this.#restMs = restMs
  }

  /**
   * @param begin - called in its turn, which may be now
   * @param lost - called in its place: too many of the source wait, and others have fewer
   * @returns undefined: it has begun; else a function that ends the wait, so that neither is called
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

  /**
   * Leaves the next turn to other work, unless that has happened too often in a row. Node accepts one connection in
   * each turn, so later connections wait for the work of all turns before theirs.
   */
  giveWay(): void {
    this.#givesWay = this.#waiting.size > 0
  }

  #begin(begin: () => void): void {
    this.#begun++
    this.#turnLater()
    begin()
  }

  #turnLater(): void {
    if (this.#isTurnDue) return
    this.#isTurnDue = true
    if (this.#restMs > 0) setTimeout(this.#onTurn, this.#restMs)
    else setImmediate(this.#onTurn)
  }

  /**
   * Begins waiting pieces up to the bound. While fewer have begun, nothing waits, except pieces that come during this
   * function.
   */
  #turn(): void {
    this.#isTurnDue = false
    this.#begun = 0
    const givesWay = this.#givesWay && this.#givenWay < maxGivenWay
    this.#givesWay = false
    this.#givenWay = givesWay ? this.#givenWay + 1 : 0
    if (givesWay) this.#turnLater()
    while (!givesWay && this.#begun < this.#perTurn) {
      const next = this.#waiting.take()
      if (!next) return
      this.#begin(next.begin)
    }
  }
}
