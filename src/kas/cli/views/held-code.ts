import type { Clock } from '../../../lib/clock.ts'

/** Exit codes. 0: healthy */
export const progressing = 3
export const degraded = 4
export const unknown = 5

/** A view may be older than the `kubectl apply` before it. ms */
const holdMs = 5000

/** A verdict that ends the wait has to hold: what is seen may be older than what was done just before. */
export class HeldCode {
  readonly #clock: Clock
  readonly #onHeld: () => void
  #code = unknown
  #isHeld = false
  #cancel = () => {}

  constructor({ clock, onHeld }: { clock: Clock; onHeld: () => void }) {
    this.#clock = clock
    this.#onHeld = onHeld
  }

  /** What to exit with: healthy is only what has been so for long enough. */
  get code(): number {
    return this.#code === 0 && !this.#isHeld ? progressing : this.#code
  }

  now(code: number): void {
    if (code === this.#code) return
    this.#cancel()
    this.#code = code
    if (code !== 0 && code !== degraded) return
    this.#cancel = this.#clock.after(holdMs, () => {
      this.#isHeld = true
      this.#onHeld()
    })
  }

  end(): void {
    this.#cancel()
  }
}
