import type { Clock } from '../../../../lib/clock.ts'

/** Exit codes. 0: healthy */
export const progressing = 3
export const degraded = 4
export const unknown = 5

/** A view may be older than the `kubectl apply` before it. ms */
export const holdMs = 5000

export interface StableCodeOptions {
  /** healthy ends the wait after so long. ms */
  readonly stableMs?: number
  /** so does degraded, after `holdMs` */
  readonly failsFast?: boolean
}

/** A verdict that ends the wait has to hold: what is seen may be older than what was done just before. */
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

  /** What to exit with: healthy is only what has been so for long enough. */
  get code(): number {
    return this.#code === 0 && !this.#isStable ? progressing : this.#code
  }

  /** @param restarts - of containers, so far: one more begins it anew */
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
