import type { Clock } from '../../src/lib/clock.ts'

/**
 * Detects a process that should have ended, because no test runs: an open handle keeps it alive. A running test may be
 * silent for any time, even after another test beside it has ended.
 */
export class OpenHandles {
  readonly #clock: Clock
  readonly #options: { readonly lingerMs: number; readonly onLinger: () => void }
  #running = 0
  #cancel: (() => void) | undefined

  /**
   * @param options.lingerMs - time from the end of a test to the start of the next one, or to the end of the process
   */
  constructor(
    { clock }: { readonly clock: Clock },
    options: { readonly lingerMs: number; readonly onLinger: () => void },
  ) {
    this.#clock = clock
    this.#options = options
  }

  /** @param text - whole lines of tell-tests.ts */
  read(text: string): void {
    this.stop()
    for (const [what] of text.matchAll(/begins|ends/g)) this.#running += what === 'begins' ? 1 : -1
    if (this.#running > 0) return
    const { lingerMs, onLinger } = this.#options
    this.#cancel = this.#clock.after(lingerMs, onLinger)
  }

  /** Stops, because the process has ended. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
}
