import type { Clock } from '../../lib/clock.ts'

/** It may be another version by then. ms */
const retryMs = 24 * 3600_000

/** Whether the API server lists by a watch (WatchList), as all lists together have found. */
export class WatchLists {
  readonly #clock: Clock
  #refusedAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOffered(): boolean {
    return this.#clock.now() - this.#refusedAt >= retryMs
  }

  /** It has refused, or kept silent. */
  refused(): void {
    this.#refusedAt = this.#clock.now()
  }
}
