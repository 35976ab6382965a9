import type { Clock } from '../../../src/lib/clock.ts'

/** A clock that the test moves. */
export class MovingClock implements Clock {
  #now = 1_000_000
  readonly #timers = new Set<{ at: number; action: () => void }>()

  now(): number {
    return this.#now
  }

  after(ms: number, action: () => void): () => void {
    const timer = { at: this.#now + ms, action }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Timers that wait. */
  get pending(): number[] {
    return Array.from(this.#timers, ({ at }) => at - this.#now).sort((a, b) => a - b)
  }

  /** Moves on and runs what is due, in order, each followed by what its promises start. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)
      if (!next) break
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.action()
    }
    this.#now = Math.max(this.#now, end)
    await settle()
  }

  /** The process was not run for a while: all that is due is late. */
  freeze(ms: number): void {
    this.#now += ms
  }
}

/** Lets everything that waits for no timer go on. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
