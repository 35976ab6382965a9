import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'

/** After each judgement all rest for so many times as long as it took: an eighth of the thread at most. */
const restTimes = 7

export interface JudgeTurnsComponents {
  /** for timers */
  readonly clock: Clock
  /** for durations, in ms */
  readonly pace: Pick<Clock, 'now'>
  readonly log: Logger
}

/** Turns of all sources of an agent to judge their objects, so that no tenant takes the thread. */
export class JudgeTurns {
  readonly #components: JudgeTurnsComponents
  /** by source, in the order of their turns; each judgement waits once */
  readonly #waiting = new Map<object, Set<() => void>>()
  /** end of the rest after the last judgement, by `pace` */
  #restedAt = Number.NEGATIVE_INFINITY
  #isBusy = false

  constructor(components: JudgeTurnsComponents) {
    this.#components = components
  }

  /** Calls `judge` once the source has its turn. @returns function that takes it back */
  add(source: object, judge: () => void): () => void {
    const own = this.#waiting.get(source) ?? new Set()
    this.#waiting.set(source, own.add(judge))
    this.#begin()
    return () => void this.#take(source, judge)
  }

  #begin(): void {
    if (this.#isBusy || this.#waiting.size === 0) return
    const { clock, pace } = this.#components
    this.#isBusy = true
    clock.after(Math.max(0, Math.ceil(this.#restedAt - pace.now())), () => {
      this.#judgeNext()
      this.#isBusy = false
      this.#begin()
    })
  }

  #judgeNext(): void {
    const [source, own] = this.#waiting.entries().next().value ?? []
    const [judge] = own ?? []
    if (!source || !judge) return
    const others = this.#take(source, judge)
    this.#waiting.delete(source)
    if (others.size > 0) this.#waiting.set(source, others) // behind the other sources
    const { pace, log } = this.#components
    const began = pace.now()
    try {
      judge()
    } catch (error) {
      log.error({ error }, 'Objects cannot be judged')
    }
    const now = pace.now()
    this.#restedAt = now + (now - began) * restTimes
  }

  /** @returns the other judgements of the source that wait */
  #take(source: object, judge: () => void): Set<() => void> {
    const own = this.#waiting.get(source) ?? new Set()
    own.delete(judge)
    if (own.size === 0) this.#waiting.delete(source)
    return own
  }
}
