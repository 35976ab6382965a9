import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

/** Between two lines. ms */
const pauseMs = 60_000

/** Says what goes wrong over and over once a minute at the most, and how often it did meanwhile. */
export class LimitedLog {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #sentence: string
  #toldAt = Number.NEGATIVE_INFINITY
  #untold = 0

  constructor(components: { clock: Clock; log: Logger }, sentence: string) {
    this.#clock = components.clock
    this.#log = components.log
    this.#sentence = sentence
  }

  tell(reason: string): void {
    const now = this.#clock.now()
    if (now - this.#toldAt < pauseMs) {
      this.#untold += 1
      return
    }
    this.#log.warn({ reason, ...(this.#untold > 0 ? { count: this.#untold } : {}) }, this.#sentence)
    this.#toldAt = now
    this.#untold = 0
  }
}
