import type { Clock } from '../../../../lib/clock.ts'
import { FairQueue } from '../../../../lib/fair-queue.ts'

export const maxReviewsInFlight = 8
/** At once, after a while without; then so many a second. */
const burst = 300
const perSecond = 100
/** Those of whoever has the most are lost first. */
const maxWaiting = 100_000

export interface Job {
  /** callers have their turns */
  readonly source: object
  run(): Promise<void>
  /** in place of `run` */
  lost(): void
}

/** Reviews are written to the API server's audit log, each: so they are few at a time. */
export class ReviewQueue {
  readonly #clock: Clock
  readonly #waiting = new FairQueue<Job>(maxWaiting)
  #inFlight = 0
  #tokens = burst
  #countedAt: number
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#countedAt = clock.now()
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
    this.#refill()
    while (this.#inFlight < maxReviewsInFlight && this.#waiting.size > 0) {
      if (this.#tokens < 1) {
        this.#waitForToken()
        return
      }
      this.#tokens--
      this.#inFlight++
      const job = this.#waiting.take() as Job
      void job.run().finally(() => {
        this.#inFlight--
        this.#next()
      })
    }
  }

  #refill(): void {
    const now = this.#clock.now()
    this.#tokens = Math.min(burst, this.#tokens + (Math.max(0, now - this.#countedAt) * perSecond) / 1000)
    this.#countedAt = now
  }

  #waitForToken(): void {
    this.#cancel ??= this.#clock.after(1000 / perSecond, () => {
      this.#cancel = undefined
      this.#next()
    })
  }
}
