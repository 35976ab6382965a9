import type { Clock } from '../../src/lib/clock.ts'

/** A clock that stands still until it is moved. */
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

  /** Timers that wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** For how long each of them waits yet, the shortest first. ms */
  get waits(): number[] {
    return Array.from(this.#timers, ({ at }) => at - this.#now).sort((a, b) => a - b)
  }

  /** Moves the time on and runs what is due, in order. */
  advance(ms: number): void {
    const end = this.#now + ms
    while (this.#runNext(end));
    this.#now = Math.max(this.#now, end)
  }

  /** The same, each followed by what its promises start. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    do await settle()
    while (this.#runNext(end))
    this.#now = Math.max(this.#now, end)
    await settle()
  }

  /** The process was not run for a while: all that is due is late. */
  freeze(ms: number): void {
    this.#now += ms
  }

  /** Somebody has set it: it shows an earlier time, and timers wait as before. */
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

/** Lets everything that waits for no timer go on: as far as it comes in so many turns of the event loop. */
export async function settle(turns = 1): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise(setImmediate)
}
