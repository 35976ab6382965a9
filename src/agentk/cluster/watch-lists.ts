import type { Clock } from '../../lib/clock.ts'

/** Time after which a server that refused is asked again, because its version may have changed. ms */
const retryMs = 24 * 3600_000

/** Knows if the API server lists by a watch (WatchList), as all lists together have found. */
export class WatchLists {
  readonly #clock: Clock
  #refusedAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOffered(): boolean {
    return this.#clock.now() - this.#refusedAt >= retryMs
  }

  /** Called when the server has refused, or has sent nothing. */
  refused(): void {
    this.#refusedAt = this.#clock.now()
  }
}
