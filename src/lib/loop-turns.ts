import { FairQueue } from './turns.ts'

interface Waiting {
  readonly source: string
  readonly begin: () => void
  readonly lost: () => void
}

/** Turns in a row in which what waits gives way. */
const maxGivenWay = 16

/**
 * Work that comes in bursts begins a few pieces in each turn of the event loop, or after each rest, one source after
 * another: what others send is served in between.
 */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting: FairQueue<Waiting>
  readonly #restMs: number
  /** in this turn */
  #begun = 0
  #isTurnDue = false
  #givesWay = false
  #givenWay = 0
  readonly #onTurn = () => this.#turn()

  /** @param restMs - from one turn to the next, at least; 0: the event loop's next turn */
  constructor(perTurn: number, maxWaiting: number, restMs = 0) {
    this.#perTurn = perTurn
    this.#waiting = new FairQueue(maxWaiting)
    this.#restMs = restMs
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

  /**
   * What waits leaves the next turn to others, unless it has done so for too long: node accepts one connection in each
   * turn, so those behind wait for all that the turns before theirs take.
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

  /** Nobody waits while fewer than may have begun, but who comes in the midst of it. */
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
