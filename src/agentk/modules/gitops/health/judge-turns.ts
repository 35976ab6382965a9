import type { Clock } from '../../../../lib/clock.ts'

/** After each judgement all rest for so many times as long as it took: an eighth of the thread at most. */
const restTimes = 7

export interface JudgeTurnsComponents {
  /** for timers */
  readonly clock: Clock
  /** for durations, in ms */
  readonly pace: Pick<Clock, 'now'>
}

/** Turns of all namespaces of all sources of an agent to judge their objects, so that no tenant takes the thread. */
export class JudgeTurns {
  readonly #components: JudgeTurnsComponents
  /** in the order of their turns; each waits once */
  readonly #waiting = new Set<() => void>()
  /** end of the rest after the last judgement, by `pace` */
  #restedAt = Number.NEGATIVE_INFINITY
  #isBusy = false

  constructor(components: JudgeTurnsComponents) {
    this.#components = components
  }

  /** Calls `judge` once it has its turn. @returns function that takes it back */
  add(judge: () => void): () => void {
    this.#waiting.add(judge)
    this.#begin()
    return () => void this.#waiting.delete(judge)
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
    const [judge] = this.#waiting
    if (!judge) return
    this.#waiting.delete(judge)
    const { pace } = this.#components
    const began = pace.now()
    judge()
    const now = pace.now()
    this.#restedAt = now + (now - began) * restTimes
  }
}
