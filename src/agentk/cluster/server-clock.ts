import type { Clock } from '../../lib/clock.ts'

/** `Date` has whole seconds. ms */
const dateStepMs = 1000

/**
 * The API server's time, by the `Date` of its answers: times in objects are the server's, and agentk's machine may have
 * another time. It moves no more than an answer requires: a clock that is right to the second stays as it is. Its times
 * are whole milliseconds, as those of `clock`.
 */
export class ServerClock implements Clock {
  readonly #clock: Clock
  #aheadMs = 0

  /** @param clock - time of this machine since 1970, in whole ms */
  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now() + this.#aheadMs
  }

  after(ms: number, action: () => void): () => void {
    return this.#clock.after(ms, action)
  }

  /**
   * Adjusts the clock to an answer.
   *
   * @param date - its Date header; an invalid one changes nothing
   * @param waitedMs - time since its request was sent, also a fraction: `date` is of some moment since then
   */
  answered(date: string, waitedMs: number): void {
    const at = Date.parse(date)
    if (Number.isNaN(at)) return
    const now = this.#clock.now()
    const least = at - now
    const most = at + dateStepMs - (now - Math.ceil(waitedMs))
    this.#aheadMs = Math.min(Math.max(this.#aheadMs, least), most)
  }
}
