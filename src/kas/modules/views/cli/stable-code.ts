import type { Clock } from '../../../../lib/clock.ts'

/** Exit codes. 0: healthy */
export const progressing = 3
export const degraded = 4
export const unknown = 5

/** Time in ms by which a view may be older than the `kubectl apply` before it. */
export const holdMs = 5000

export interface StableCodeOptions {
  /** time for which it has to stay healthy before the wait ends, in ms */
  readonly stableMs?: number
  /** true: degraded ends the wait, too, after `holdMs` */
  readonly failsFast?: boolean
}

/** A verdict that has to last before it ends the wait: the view may be older than the last change. */
export class StableCode {
  readonly #clock: Clock
  readonly #onStable: () => void
  readonly #stableMs: number
  readonly #failsFast: boolean
  #code = unknown
  #restarts = 0
  #isStable = false
  #cancel = () => {}

  constructor(
    { clock, onStable }: { clock: Clock; onStable: () => void },
    { stableMs = holdMs, failsFast = true }: StableCodeOptions = {},
  ) {
    this.#clock = clock
    this.#onStable = onStable
    this.#stableMs = stableMs
    this.#failsFast = failsFast
  }

  /** Exit code; healthy counts only after it has lasted long enough. */
  get code(): number {
    return this.#code === 0 && !this.#isStable ? progressing : this.#code
  }

  /** @param restarts - of containers, so far: one more restarts the time */
  now(code: number, restarts = 0): void {
    if (code === this.#code && restarts === this.#restarts) return
    this.#cancel()
    this.#code = code
    this.#restarts = restarts
    if (code !== 0 && !(code === degraded && this.#failsFast)) return
    this.#cancel = this.#clock.after(code === 0 ? this.#stableMs : holdMs, () => {
      this.#isStable = true
      this.#onStable()
    })
  }

  end(): void {
    this.#cancel()
  }
}
