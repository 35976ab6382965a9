import { type Clock, systemClock } from '../../src/lib/clock.ts'

interface Timer {
  readonly at: number
  readonly action: () => void
  cancel: () => void
}

/** The system's clock, of which a test skips parts: what was due in them is done at once. */
export class SkippedClock implements Clock {
  #aheadMs = 0
  readonly #timers = new Set<Timer>()

  now(): number {
    return systemClock.now() + this.#aheadMs
  }

  after(ms: number, action: () => void): () => void {
    const timer: Timer = { at: this.now() + ms, action, cancel: () => undefined }
    this.#timers.add(timer)
    this.#arm(timer)
    return () => {
      timer.cancel()
      this.#timers.delete(timer)
    }
  }

  /** Moves the time forward. */
  skip(ms: number): void {
    this.#aheadMs += ms
    for (const timer of [...this.#timers].sort((one, other) => one.at - other.at)) {
      if (!this.#timers.has(timer)) continue // an earlier one has cancelled it
      timer.cancel()
      if (timer.at <= this.now()) this.#run(timer)
      else this.#arm(timer)
    }
  }

  #arm(timer: Timer): void {
    timer.cancel = systemClock.after(Math.max(0, timer.at - this.now()), () => this.#run(timer))
  }

  #run(timer: Timer): void {
    this.#timers.delete(timer)
    timer.action()
  }
}
