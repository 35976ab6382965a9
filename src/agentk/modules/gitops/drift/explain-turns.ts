import type { Clock } from '../../../../lib/clock.ts'
import { RateLimit } from '../../../../lib/rate-limit.ts'
import { FairQueue } from '../../../../lib/turns.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'

/** Explanations of an agent: each is a dry run and a read, so that this takes a fourth of the calls in the background. */
const rate = { perSecond: 20, burst: 20 }
/** Explanations at once: the API server answers each in some 10 ms. */
const maxRunning = 4
/**
 * After each explanation all rest for so many times as long as it took: a busy API server is asked less often. At 16 ms
 * this is as long as `rate` lets each take.
 */
const restTimes = 3
/** Limit of such a rest: an API server that answers nothing for a minute is asked again soon. ms */
const maxRestMs = 1000

interface Explanation {
  readonly source: object
  readonly run: () => Promise<void>
  readonly onLost: () => void
}

/** Turns of all sources of an agent to explain drift. */
export class ExplainTurns {
  readonly #clock: Clock
  readonly #rate: RateLimit
  readonly #queue = new FairQueue<Explanation>(maxObjects)
  #running = 0
  #isWaiting = false

  constructor(clock: Clock) {
    this.#clock = clock
    this.#rate = new RateLimit(clock, rate)
  }

  /**
   * Runs `run` once it has its turn.
   *
   * @param explanation.run - never rejects
   * @param explanation.onLost - called in place of `run` if too many wait
   */
  add(explanation: Explanation): void {
    this.#queue.place(explanation, ({ onLost }) => onLost())
    this.#runNext()
  }

  /** Removes all that waits for a source. */
  leave(source: object): void {
    while (this.#queue.takeOf(source));
  }

  #runNext(): void {
    while (this.#running < maxRunning && this.#queue.size > 0 && !this.#isWaiting) {
      const waitMs = this.#rate.msUntil(1)
      if (waitMs > 0) {
        this.#isWaiting = true
        this.#clock.after(Math.ceil(waitMs), () => {
          this.#isWaiting = false
          this.#runNext()
        })
        return
      }
      this.#rate.take(1)
      const next = this.#queue.take() as Explanation
      this.#running += 1
      const began = this.#clock.now()
      void next.run().finally(() => {
        this.#running -= 1
        this.#rest(this.#clock.now() - began)
        this.#runNext()
      })
    }
  }

  /** @param tookMs - the last explanation; its turn has paid for a part */
  #rest(tookMs: number): void {
    const restMs = Math.min(tookMs * restTimes, maxRestMs)
    this.#rate.take(Math.max(0, (restMs * rate.perSecond) / 1000 - 1))
  }
}
