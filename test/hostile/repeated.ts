import { delay } from '../../src/lib/signals.ts'

/** Results of one call that good tenants repeat. */
export interface Series {
  readonly name: string
  /** durations, sorted. ms */
  readonly tookMs: readonly number[]
  /** one line each */
  readonly failures: readonly string[]
}

export interface RepeatedOptions {
  readonly name: string
  /** interval between two begins; the next one waits until the last has ended. ms */
  readonly everyMs: number
  /** time after which a call has failed. ms */
  readonly patienceMs: number
  /** @returns durations of all waiters. ms */
  readonly once: (number: number, signal: AbortSignal) => Promise<readonly number[]>
}

/** Repeats one call at a pace. */
export class Repeated {
  readonly #options: RepeatedOptions
  readonly #tookMs: number[] = []
  readonly #failures: string[] = []
  readonly #stop = new AbortController()
  #run: Promise<void> = Promise.resolve()

  constructor(options: RepeatedOptions) {
    this.#options = options
  }

  get series(): Series {
    const { name } = this.#options
    return { name, tookMs: this.#tookMs.toSorted((one, other) => one - other), failures: this.#failures }
  }

  start(): void {
    this.#run = this.#repeat()
  }

  /** Waits for the end of the current call. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#run
  }

  async #repeat(): Promise<void> {
    const { name, everyMs, patienceMs, once } = this.#options
    for (let number = 1; !this.#stop.signal.aborted; number++) {
      const began = performance.now()
      try {
        this.#tookMs.push(...(await once(number, AbortSignal.timeout(patienceMs))))
      } catch (error) {
        const tookMs = performance.now() - began
        this.#tookMs.push(tookMs)
        this.#failures.push(`${name} ${number} took ${tookMs.toFixed(0)} ms: ${(error as Error).message}`)
      }
      await delay(Math.max(0, began + everyMs - performance.now()), this.#stop.signal).catch(() => undefined) // it ends
    }
  }
}
