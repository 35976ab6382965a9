import type { Clock } from '../../src/lib/clock.ts'

/** A clock that stands still until it is moved. */
export class ManualClock implements Clock {
  #now: number
  readonly #timers = new Set<{ at: number; action: () => void }>()

  constructor(start = Date.parse('2026-06-01T00:00:00Z')) {
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  after(ms: number, action: () => void): () => void {
    const timer = { at: this.#now + ms, action }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Timers that wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves the time on and runs what is due, in order. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0]
      if (!due) break
      this.#timers.delete(due)
      this.#now = Math.max(this.#now, due.at)
      due.action()
    }
    this.#now = end
  }
}
