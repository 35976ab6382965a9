import type { Clock } from '../../../../lib/clock.ts'
import { RateLimit } from '../../../../lib/rate-limit.ts'
import { FairQueue } from '../../../../lib/turns.ts'

/** Bound of reviews in flight: the API server has other work too. */
export const maxReviewsInFlight = 8
/** Rate of reviews: `burst` after a pause, then `perSecond`. */
const rate = { perSecond: 100, burst: 300 }
/** Bound of waiting jobs. Past it, jobs of the source with the most are lost first. */
const maxWaiting = 100_000

export interface Job {
  /** sources take turns */
  readonly source: object
  run(): Promise<void>
  /** called instead of `run` if there is no room */
  lost(): void
}

/** Limits reviews: the API server writes each of them to its audit log. */
export class ReviewQueue {
  readonly #clock: Clock
  readonly #waiting = new FairQueue<Job>(maxWaiting)
  #inFlight = 0
  readonly #rateLimit: RateLimit
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#rateLimit = new RateLimit(clock, rate)
  }

  add(job: Job): void {
    this.#waiting.add(job)?.lost()
    this.#next()
  }

  delete(job: Job): void {
    this.#waiting.delete(job)
  }

  close(): void {
    this.#cancel?.()
    while (this.#waiting.take());
  }

  #next(): void {
    while (this.#inFlight < maxReviewsInFlight && this.#waiting.size > 0) {
      const waitMs = this.#rateLimit.msUntil(1)
      if (waitMs > 0) {
        this.#nextAfter(waitMs)
        return
      }
      this.#rateLimit.take(1)
      this.#inFlight++
      const job = this.#waiting.take() as Job
      void job.run().finally(() => {
        this.#inFlight--
        this.#next()
      })
    }
  }

  #nextAfter(ms: number): void {
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#cancel = undefined
      this.#next()
    })
  }
}
