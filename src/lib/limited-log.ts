import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'
import { RateLimit } from './rate-limit.ts'

/** Lines. */
const rate = { perSecond: 1 / 60, burst: 1 }

/** Logs what goes wrong again and again once a minute at the most, and how often it did meanwhile. */
export class LimitedLog {
  readonly #lines: RateLimit
  readonly #log: Logger
  readonly #sentence: string
  #left = 0

  constructor(components: { clock: Clock; log: Logger }, sentence: string) {
    this.#lines = new RateLimit(components.clock, rate)
    this.#log = components.log
    this.#sentence = sentence
  }

  /** @param fields - of the line, beside `reason` */
  warn(reason: string, fields: Readonly<Record<string, string>> = {}): void {
    if (!this.#lines.takeIfThere(1)) {
      this.#left += 1
      return
    }
    this.#log.warn({ reason, ...fields, ...(this.#left > 0 ? { count: this.#left } : {}) }, this.#sentence)
    this.#left = 0
  }
}
