import type { Clock } from '../../../../lib/clock.ts'

export interface UnsentBytesOptions {
  readonly maxUnsentBytes: number
  /** ms */
  readonly patienceMs: number
}

/**
 * What viewers of an agent have not taken. Over the bound its reader waits, but not for ever: viewers that are slow
 * then hold those that are not up no longer. What each of them has is bounded by itself.
 */
export class UnsentBytes {
  readonly #clock: Clock
  readonly #options: UnsentBytesOptions
  #bytes = 0
  /** of those that were not waited for: as many of `#bytes` do not count */
  #slow = 0
  #wake: (() => void) | undefined

  constructor(clock: Clock, options: UnsentBytesOptions) {
    this.#clock = clock
    this.#options = options
  }

  add(change: number): void {
    this.#bytes += change
    this.#slow = Math.min(this.#slow, this.#bytes)
    if (!this.#isOver) this.#wake?.()
  }

  /** Undefined: go on. @param signal - ends the wait */
  room(signal: AbortSignal): Promise<void> | undefined {
    return this.#isOver ? this.#wait(signal) : undefined
  }

  get #isOver(): boolean {
    return this.#bytes - this.#slow > this.#options.maxUnsentBytes
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel()
        signal.removeEventListener('abort', done)
        this.#wake = undefined
        resolve()
      }
      const cancel = this.#clock.after(this.#options.patienceMs, () => {
        this.#slow = this.#bytes
        done()
      })
      this.#wake = done
      signal.addEventListener('abort', done, { once: true })
      if (signal.aborted) done()
    })
  }
}
