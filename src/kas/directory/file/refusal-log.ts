import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { RateLimits } from '../../../lib/rate-limit.ts'

/** Lines of one refusal; one that was forgotten is one line more in the log. */
const rate = { perSecond: 1 / 3600, burst: 1, maxKeys: 1000 }

/** Why somebody who is known was refused, each once an hour: the caller's text says nothing of it, as upstream's. */
export class RefusalLog {
  readonly #log: Logger
  /** by refusal */
  readonly #lines: RateLimits<string>

  constructor(components: { clock: Clock; log: Logger }) {
    this.#log = components.log
    this.#lines = new RateLimits(components.clock, rate)
  }

  log(level: 'info' | 'warn', fields: Readonly<Record<string, string>>, sentence: string): void {
    if (this.#lines.of(JSON.stringify([sentence, fields])).takeIfThere(1)) this.#log[level](fields, sentence)
  }
}
