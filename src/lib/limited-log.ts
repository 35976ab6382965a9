import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'
import { RateLimit, RateLimits } from './rate-limit.ts'

/** Rate of lines. */
const rate = { perSecond: 1 / 60, burst: 1 }

/** Logs a repeated fault at most once a minute, with the number of times since the last line. */
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

  /** @param fields - further fields of the line, beside `reason` */
  warn(reason: string, fields: Readonly<Record<string, string>> = {}): void {
    if (!this.#lines.takeIfThere(1)) {
      this.#left += 1
      return
    }
    this.#log.warn({ reason, ...fields, ...(this.#left > 0 ? { count: this.#left } : {}) }, this.#sentence)
    this.#left = 0
  }
}

/** Rate of each line, and number of lines that are remembered: one that was forgotten is logged once more. */
const hourly = { perSecond: 1 / 3600, burst: 1, maxKeys: 1000 }

/** Logs each line, a sentence with its fields, at most once an hour. */
export class HourlyLog {
  readonly #log: Logger
  readonly #lines: RateLimits<string>

  constructor(components: { clock: Clock; log: Logger }) {
    this.#log = components.log
    this.#lines = new RateLimits(components.clock, hourly)
  }

  log(level: 'info' | 'warn', fields: Readonly<Record<string, string>>, sentence: string): void {
    if (this.#lines.of(JSON.stringify([sentence, fields])).takeIfThere(1)) this.#log[level](fields, sentence)
  }
}
