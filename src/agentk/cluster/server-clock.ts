import type { Clock } from '../../lib/clock.ts'

/** `Date` leaves out what is less than a second. ms */
const dateStepMs = 1000

/**
 * The API server's time, by the `Date` of its answers: times in objects are its own, and the machine of agentk may be
 * set otherwise. It moves no more than an answer asks for: a clock that is right to the second stays as it is.
 */
export class ServerClock implements Clock {
  readonly #clock: Clock
  #aheadMs = 0

  /** @param clock - since 1970, of this machine */
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
   * An answer has come.
   *
   * @param date - its header; what is no time says nothing
   * @param waitedMs - since its request was sent: its date is of some moment since then
   */
  answered(date: string, waitedMs: number): void {
    const at = Date.parse(date)
    if (Number.isNaN(at)) return
    const now = this.#clock.now()
    const least = at - now
    const most = at + dateStepMs - (now - waitedMs)
    this.#aheadMs = Math.min(Math.max(this.#aheadMs, least), most)
  }
}
