import type { Clock } from '../../../lib/clock.ts'

export interface FailureBudgetsOptions {
  /** failures at once that a source may have */
  readonly maxFailures: number
  /** forgiven as time goes by */
  readonly forgivenPerSecond: number
  /** sources at once; the one that failed longest ago makes room */
  readonly maxSources: number
}

/** How often each source failed lately. */
export class FailureBudgets {
  readonly #clock: Clock
  readonly #options: FailureBudgetsOptions
  /** longest unchanged first */
  readonly #failures = new Map<string, { readonly count: number; readonly at: number }>()

  constructor(components: { clock: Clock }, options: FailureBudgetsOptions) {
    this.#clock = components.clock
    this.#options = options
  }

  isSpent(source: string): boolean {
    return this.#count(source) >= this.#options.maxFailures
  }

  failed(source: string): void {
    this.#set(source, this.#count(source) + 1)
  }

  /** Makes up for one failure. */
  succeeded(source: string): void {
    if (this.#failures.has(source)) this.#set(source, this.#count(source) - 1)
  }

  /** No more than one over the budget: what is forgiven may be used at once. */
  #set(source: string, count: number): void {
    this.#failures.delete(source)
    if (count <= 0) return
    this.#failures.set(source, { count: Math.min(count, this.#options.maxFailures + 1), at: this.#clock.now() })
    for (const oldest of this.#failures.keys()) {
      if (this.#failures.size <= this.#options.maxSources) break
      this.#failures.delete(oldest)
    }
  }

  #count(source: string): number {
    const failures = this.#failures.get(source)
    if (!failures) return 0
    const seconds = Math.max(0, this.#clock.now() - failures.at) / 1000
    return Math.max(0, failures.count - seconds * this.#options.forgivenPerSecond)
  }
}
