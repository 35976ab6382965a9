import type { Clock } from '../../../../lib/clock.ts'

/** shortest time from one round to the next. ms */
const leastWaitMs = 50
/** longest timer: after this time at most, a clock that was set is noticed. ms */
const mostWaitMs = 60_000

/** Verdicts that time alone brings: each is known before, with its time. One timer serves all. */
export class DueVerdicts<Verdict> {
  readonly #clock: Clock
  readonly #onDue: (uid: string, verdict: Verdict) => void
  readonly #waiting = new Map<string, { readonly at: number; readonly verdict: Verdict }>()
  #timer: { readonly at: number; readonly cancel: () => void } | undefined

  /** @param clock - ms since 1970 */
  constructor(clock: Clock, onDue: (uid: string, verdict: Verdict) => void) {
    this.#clock = clock
    this.#onDue = onDue
  }

  set(uid: string, at: number, verdict: Verdict): void {
    this.#waiting.set(uid, { at, verdict })
    if (!this.#timer || at < this.#timer.at) this.#wait(at)
  }

  delete(uid: string): void {
    this.#waiting.delete(uid)
    if (this.#waiting.size === 0) this.stop()
  }

  *verdicts(): Iterable<Verdict> {
    for (const { verdict } of this.#waiting.values()) yield verdict
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #wait(at: number): void {
    this.#timer?.cancel()
    const waitMs = Math.min(Math.max(at - this.#clock.now(), leastWaitMs), mostWaitMs)
    this.#timer = { at, cancel: this.#clock.after(waitMs, () => this.#judge()) }
  }

  #judge(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    const due = [...this.#waiting].filter(([, { at }]) => at <= now)
    for (const [uid, { verdict }] of due) {
      this.#waiting.delete(uid)
      this.#onDue(uid, verdict)
    }
    let next = Number.POSITIVE_INFINITY
    for (const { at } of this.#waiting.values()) next = Math.min(next, at)
    if (next < Number.POSITIVE_INFINITY) this.#wait(next)
  }
}
