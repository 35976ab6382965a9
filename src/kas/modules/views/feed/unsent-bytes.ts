import type { Clock } from '../../../../lib/clock.ts'

export interface UnsentBytesOptions {
  readonly maxUnsentBytes: number
  /** in ms */
  readonly patienceMs: number
}

/**
 * Bytes that an agent's viewers have not taken. Beyond the bound, reading from the agent pauses, but only for
 * `patienceMs`. After that, bytes of slow viewers no longer count. Each viewer's own bytes are bounded elsewhere.
 */
export class UnsentBytes {
  readonly #clock: Clock
  readonly #options: UnsentBytesOptions
  #bytes = 0
  /** bytes of slow viewers, which do not count */
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

  /** Waits for room. @param signal - ends the wait. @returns undefined: there is room */
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
