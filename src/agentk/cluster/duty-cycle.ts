import type { Clock } from '../../lib/clock.ts'

/** Work for so long without a rest. ms */
const burstMs = 8

/** Leaves a thread half of its time: after a burst of work, whoever did it, all rest as long as it took. */
export class DutyCycle {
  readonly #clock: Clock
  /** when the rest that the work so far asks for is over */
  #restedAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A piece of work that began at `since` is done. @returns ms to rest before the next one; 0: go on */
  worked(since: number): number {
    const now = this.#clock.now()
    const tookMs = Math.max(0, now - since)
    this.#restedAt = Math.max(this.#restedAt, since) + 2 * tookMs
    const restMs = this.#restedAt - now
    return restMs < burstMs ? 0 : restMs
  }
}
