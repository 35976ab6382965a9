import type { Clock } from '../../src/lib/clock.ts'

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number
  #backMs = 0
  readonly #timers = new Set<{ at: number; action: () => void }>()

  constructor(start = Date.parse('2026-06-01T00:00:00Z')) {
    this.#now = start
  }

  now(): number {
    return this.#now - this.#backMs
  }

  after(ms: number, action: () => void): () => void {
    const timer = { at: this.#now + ms, action }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Number of timers that wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** Remaining times of the timers, the shortest first. ms */
  get waits(): number[] {
    return Array.from(this.#timers, ({ at }) => at - this.#now).sort((a, b) => a - b)
  }

  /** Advances the time and runs all due timers, in order. */
  advance(ms: number): void {
    const end = this.#now + ms
    while (this.#runNext(end));
    this.#now = Math.max(this.#now, end)
  }

  /** Advances the time, and waits after each timer for the promises that it starts. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    do await settle()
    while (this.#runNext(end))
    this.#now = Math.max(this.#now, end)
    await settle()
  }

  /** Advances the time without running timers, as if the process had been frozen: they become late. */
  freeze(ms: number): void {
    this.#now += ms
  }

  /** Sets the wall clock back; timers wait as before. */
  putBack(ms: number): void {
    this.#backMs += ms
  }

  #runNext(end: number): boolean {
    const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)
    if (!next) return false
    this.#timers.delete(next)
    this.#now = Math.max(this.#now, next.at)
    next.action()
    return true
  }
}

/** Lets all work that waits for no timer go on, for so many turns of the event loop. */
export async function settle(turns = 1): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise(setImmediate)
}
