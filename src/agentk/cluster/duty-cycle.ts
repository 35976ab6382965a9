import type { Clock } from '../../lib/clock.ts'

/** Time of work without a rest. ms */
const burstMs = 8

/** Leaves a thread half of its time: after a burst of work, all of its work rests as long as the burst took. */
export class DutyCycle {
  readonly #clock: Clock
  /** end of the rest that is due for the work so far */
  #restedAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts a piece of work that began at `since`. @returns ms to rest before the next one; 0: no rest */
  worked(since: number): number {
    const now = this.#clock.now()
    const tookMs = Math.max(0, now - since)
    this.#restedAt = Math.max(this.#restedAt, since) + 2 * tookMs
    const restMs = this.#restedAt - now
    return restMs < burstMs ? 0 : restMs
  }
}
