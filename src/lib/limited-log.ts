import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

/** Between two lines. ms */
const pauseMs = 60_000

/** Logs what goes wrong again and again once a minute at the most, and how often it did meanwhile. */
export class LimitedLog {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #sentence: string
  #loggedAt = Number.NEGATIVE_INFINITY
  #left = 0

  constructor(components: { clock: Clock; log: Logger }, sentence: string) {
    this.#clock = components.clock
    this.#log = components.log
    this.#sentence = sentence
  }

  /** @param fields - of the line, beside `reason` */
  warn(reason: string, fields: Readonly<Record<string, string>> = {}): void {
    const now = this.#clock.now()
    if (now - this.#loggedAt < pauseMs) {
      this.#left += 1
      return
    }
    this.#log.warn({ reason, ...fields, ...(this.#left > 0 ? { count: this.#left } : {}) }, this.#sentence)
    this.#loggedAt = now
    this.#left = 0
  }
}
