import type { Clock } from '../../../../lib/clock.ts'
import type { Rate, RateLimit } from '../../../../lib/rate-limit.ts'

export interface SourceScanComponents {
  /** checks one object, by `keyText`. Never rejects */
  readonly check: (text: string) => Promise<unknown>
  /** rate of the checks, which all sources of an agent share */
  readonly pace: Pick<RateLimit, 'take'>
  readonly clock: Clock
  readonly random: () => number
}

/** Checks of all sources of an agent. Scans of many objects take longer than they were given. */
export const scanRate: Rate = { perSecond: 1, burst: 1 }

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
    this.#after(this.#periodMs / this.#texts.length, () => {
      this.#after(this.#components.pace.take(1), () => void this.#check()) // others may be due at the same time
    })
  }

  #after(ms: number, action: () => void): void {
    this.#cancel = this.#components.clock.after(Math.ceil(ms), action)
  }

  async #check(): Promise<void> {
    const text = this.#texts[this.#next % this.#texts.length]
    this.#next = (this.#next + 1) % this.#texts.length
    if (text !== undefined) await this.#components.check(text)
    if (this.#cancel) this.#wait()
  }
}
