import type { Clock } from '../../lib/clock.ts'

/** Replicas that are remembered; the oldest makes room. */
const maxNames = 100

/** Replicas that were not reached, and are left alone for a while. */
export class FailedMoves {
  readonly #clock: Clock
  readonly #onExpired: () => void
  /** what cancels the timer of each */
  readonly #names = new Map<string, () => void>()

  /** @param onExpired - one of them may be tried again */
  constructor(clock: Clock, onExpired: () => void) {
    this.#clock = clock
    this.#onExpired = onExpired
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  add(name: string, ms: number): void {
    this.#remove(name)
    const [oldest] = this.#names.keys()
    if (oldest !== undefined && this.#names.size >= maxNames) this.#remove(oldest)
    const expire = () => {
      this.#names.delete(name)
      this.#onExpired()
    }
    this.#names.set(name, this.#clock.after(ms, expire))
  }

  clear(): void {
    for (const name of [...this.#names.keys()]) this.#remove(name)
  }

  #remove(name: string): void {
    this.#names.get(name)?.()
    this.#names.delete(name)
  }
}
