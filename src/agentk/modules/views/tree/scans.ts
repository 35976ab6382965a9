import type { Clock } from '../../../../lib/clock.ts'

/** Share of the time that scans of pages which were shown before take at most. */
const scansShare = 0.1

/**
 * Repeats `step` until nothing is left, then calls `done`.
 *
 * @returns a function that ends the work early
 */
export type RunInTurns = (step: () => boolean, done: () => void) => () => void

/** Runs scans, one at a time. */
export class Scans {
  readonly run: RunInTurns
  readonly #clock: Clock
  readonly #waiting: { readonly isFirst: boolean; readonly run: (done: () => void) => void }[] = []
  #isRunning = false
  #pauseUntil = Number.NEGATIVE_INFINITY
  #cancelPause: (() => void) | undefined

  constructor(clock: Clock, run: RunInTurns) {
    this.#clock = clock
    this.run = run
  }

  /**
   * @param isFirst - somebody waits for it: it begins in its turn
   * @param run - calls its argument once it has ended
   * @returns a function that ends the wait
   */
  add(isFirst: boolean, run: (done: () => void) => void): () => void {
    const scan = { isFirst, run }
    this.#waiting.push(scan)
    this.#next()
    return () => {
      const index = this.#waiting.indexOf(scan)
      if (index >= 0) this.#waiting.splice(index, 1)
    }
  }

  #next(): void {
    if (this.#isRunning || this.#waiting.length === 0) return
    this.#cancelPause?.()
    const started = this.#clock.now()
    const isPaused = started < this.#pauseUntil
    const index = isPaused ? this.#waiting.findIndex(({ isFirst }) => isFirst) : 0
    const [scan] = index < 0 ? [] : this.#waiting.splice(index, 1)
    if (!scan) {
      this.#cancelPause = this.#clock.after(this.#pauseUntil - started, () => this.#next())
      return
    }
    this.#isRunning = true
    scan.run(() => {
      const ended = this.#clock.now()
      this.#pauseUntil = Math.max(this.#pauseUntil, ended + (ended - started) * (1 / scansShare - 1))
      this.#isRunning = false
      this.#next()
    })
  }
}
