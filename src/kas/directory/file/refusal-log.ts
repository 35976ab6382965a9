import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'

/** Until the same refusal is logged again. ms */
const pauseMs = 3_600_000
/** Refusals that are remembered: one that was forgotten is one line more in the log. */
const maxRemembered = 1000

/** Why somebody who is known was refused, each once an hour: the caller's text says nothing of it, as upstream's. */
export class RefusalLog {
  readonly #clock: Clock
  readonly #log: Logger
  /** when each was logged, longest ago first */
  readonly #loggedAt = new Map<string, number>()

  constructor(components: { clock: Clock; log: Logger }) {
    this.#clock = components.clock
    this.#log = components.log
  }

  log(level: 'info' | 'warn', fields: Readonly<Record<string, string>>, sentence: string): void {
    const key = JSON.stringify([sentence, fields])
    const now = this.#clock.now()
    const loggedAt = this.#loggedAt.get(key)
    if (loggedAt !== undefined && now - loggedAt < pauseMs) return
    this.#loggedAt.delete(key)
    this.#loggedAt.set(key, now)
    if (this.#loggedAt.size > maxRemembered) this.#loggedAt.delete(this.#loggedAt.keys().next().value as string)
    this.#log[level](fields, sentence)
  }
}
