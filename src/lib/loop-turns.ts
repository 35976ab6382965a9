import { performance } from 'node:perf_hooks'
import { FairQueue } from './fair-queue.ts'

interface Waiting {
  readonly source: string
  readonly begin: () => void
  readonly lost: () => void
}

/** The event loop, and its timers. */
export interface Loop {
  /** since some moment, in ms */
  readonly used: () => { readonly active: number; readonly idle: number }
  readonly after: (ms: number, action: () => void) => void
}

/** Of what passes between two turns one source may keep the loop busy for so much: others are served in between. */
const sharePerSource = 1 / 3
/** However busy the loop is, the next turn comes after it. ms */
const maxRestMs = 20

const ownLoop: Loop = {
  used: () => performance.eventLoopUtilization(),
  after: (ms, action) => void setTimeout(action, ms),
}

/**
 * Work that comes in bursts begins a few pieces at a time, one source after another. A source that comes alone leaves the
 * event loop most of its time: what others send is served in between.
 */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting: FairQueue<Waiting>
  readonly #loop: Loop
  /** in this turn */
  #begun = 0
  #turnBegan: ReturnType<Loop['used']> = { active: 0, idle: 0 }
  readonly #onRested = () => this.#rested()

  /** @param loop - absent: this thread's */
  constructor(perTurn: number, maxWaiting: number, loop = ownLoop) {
    this.#perTurn = perTurn
    this.#waiting = new FairQueue(maxWaiting)
    this.#loop = loop
  }

  /**
   * @param begin - called in its turn, which may be now
   * @param lost - called in place of it: the source has too many that wait, and others have fewer
   */
  enter(source: string, begin: () => void, lost: () => void): void {
    if (this.#begun < this.#perTurn) {
      this.#begin(begin)
      return
    }
    this.#waiting.add({ source, begin, lost })?.lost()
  }

  #begin(begin: () => void): void {
    this.#begun++
    if (this.#begun === 1) {
      this.#turnBegan = this.#loop.used()
      this.#loop.after(1, this.#onRested)
    }
    begin()
  }

  #rested(): void {
    const restMs = this.#restMs()
    if (restMs > 0) this.#loop.after(restMs, this.#onRested)
    else this.#turn()
  }

  /** Until the next turn, if the loop has nothing else to do. */
  #restMs(): number {
    const used = this.#loop.used()
    const active = used.active - this.#turnBegan.active
    const idle = used.idle - this.#turnBegan.idle
    const share = Math.min(1, Math.max(1, this.#waiting.sources) * sharePerSource)
    const owed = active / share - active - idle
    return Math.ceil(Math.min(owed, maxRestMs - active - idle))
  }

  /** Nobody waits while fewer than may have begun. */
  #turn(): void {
    this.#begun = 0
    while (this.#begun < this.#perTurn) {
      const next = this.#waiting.take()
      if (!next) return
      this.#begin(next.begin)
    }
  }
}
