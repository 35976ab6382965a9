import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'

/** Until the same refusal is told again. ms */
const pauseMs = 3_600_000
/** Refusals that are remembered: what is told of one that was forgotten is one line more. */
const maxRemembered = 1000

/** Why somebody who is known was refused, each once an hour: the caller's text says nothing of it, as upstream's. */
export class RefusalLog {
  readonly #clock: Clock
  readonly #log: Logger
  /** when each was told, longest ago first */
  readonly #toldAt = new Map<string, number>()

  constructor(components: { clock: Clock; log: Logger }) {
    this.#clock = components.clock
    this.#log = components.log
  }

  tell(level: 'info' | 'warn', fields: Readonly<Record<string, string>>, sentence: string): void {
    const key = JSON.stringify([sentence, fields])
    const now = this.#clock.now()
    const toldAt = this.#toldAt.get(key)
    if (toldAt !== undefined && now - toldAt < pauseMs) return
    this.#toldAt.delete(key)
    this.#toldAt.set(key, now)
    if (this.#toldAt.size > maxRemembered) this.#toldAt.delete(this.#toldAt.keys().next().value as string)
    this.#log[level](fields, sentence)
  }
}
