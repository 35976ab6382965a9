import type { Clock } from '../../../../lib/clock.ts'

export interface SourceScanComponents {
  /** checks one object, by `keyText`. Never rejects */
  readonly check: (text: string) => Promise<unknown>
  readonly clock: Clock
  readonly random: () => number
}

/** Shortest pause between two checks. A scan of many objects takes longer than it was given. ms */
const leastPauseMs = 1000

/**
 * Checks each object of a source once in a period, spread evenly: metadata do not show everything. It begins at a random
 * object, so that pods that end early do not check the same ones again and again.
 */
export class SourceScan {
  readonly #components: SourceScanComponents
  readonly #periodMs: number
  #texts: readonly string[] = []
  #next = 0
  #cancel: (() => void) | undefined

  constructor(components: SourceScanComponents, { periodMs, signal }: { periodMs: number; signal: AbortSignal }) {
    this.#components = components
    this.#periodMs = periodMs
    signal.addEventListener('abort', () => this.stop(), { once: true })
  }

  /** Sets the objects, by `keyText`. The scan goes on where it is. */
  update(texts: Iterable<string>): void {
    const isFirst = this.#texts.length === 0
    this.#texts = [...texts]
    if (isFirst) this.#next = Math.floor(this.#components.random() * this.#texts.length)
    if (this.#texts.length === 0) this.stop()
    else if (!this.#cancel) this.#wait()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#texts = []
  }

  #wait(): void {
    const pauseMs = Math.max(leastPauseMs, this.#periodMs / this.#texts.length)
    this.#cancel = this.#components.clock.after(pauseMs, () => void this.#check())
  }

  async #check(): Promise<void> {
    const text = this.#texts[this.#next % this.#texts.length]
    this.#next = (this.#next + 1) % this.#texts.length
    if (text !== undefined) await this.#components.check(text)
    if (this.#cancel) this.#wait()
  }
}
