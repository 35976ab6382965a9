import type { Absence } from './absence.ts'

/** Pauses between attempts to reach a server that does not accept connections. ms */
const pauseMs = { first: 50, max: 1000, factor: 2 }

/** How one call waits for a server that restarts: one for each time it is away. */
export class DialPatience {
  readonly #absence: Pick<Absence, 'failed'>
  #pauseMs = pauseMs.first

  constructor(absence: Pick<Absence, 'failed'>) {
    this.#absence = absence
  }

  /** A dial has failed. @returns ms to the next attempt; undefined: another would not help, or the time is over */
  next(error: unknown): number | undefined {
    const leftMs = this.#absence.failed(error)
    if (leftMs === 0) return undefined
    const waitMs = Math.min(this.#pauseMs, leftMs)
    this.#pauseMs = Math.min(this.#pauseMs * pauseMs.factor, pauseMs.max)
    return waitMs
  }
}
