import type { Clock } from '../../src/lib/clock.ts'

/** A clock on which time passes only by work, and by turns of the event loop, so that long work takes long. */
export class WorkClock implements Clock {
  #now = 0
  #turnBegan = 0
  #timers: { readonly at: number; readonly action: () => void }[] = []
  /** longest work in one turn. ms */
  longestMs = 0

  now(): number {
    return this.#now
  }

  after(ms: number, action: () => void): () => void {
    const timer = { at: this.#now + ms, action }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer)
    }
  }

  /** Number of timers that wait. */
  get pending(): number {
    return this.#timers.length
  }

  /** Works for `ms`. */
  work(ms: number): void {
    this.#now += ms
    this.longestMs = Math.max(this.longestMs, this.#now - this.#turnBegan)
  }

  /**
   * Makes one turn of the event loop, 1 ms after the last: it runs the timers that are due now, and none that these
   * start.
   */
  turn(): void {
    this.#now += 1
    this.#turnBegan = this.#now
    const due = this.#timers.filter(({ at }) => at <= this.#now).sort((one, other) => one.at - other.at)
    for (const timer of due) {
      if (!this.#timers.includes(timer)) continue
      this.#timers = this.#timers.filter((one) => one !== timer)
      timer.action()
    }
  }
}
