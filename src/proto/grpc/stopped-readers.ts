import { crowdStopped, crowdWindowBytes, fewStopped, manyStopped, narrowWindowBytes } from './limits.ts'

/** Readers that take no more for now: with many of them windows become narrow, and wide again once few are left. */
export class StoppedReaders {
  readonly #watchers = new Set<() => void>()
  #count = 0
  #windowBytes = Number.POSITIVE_INFINITY

  /** No stream's window is to be wider. */
  get windowBytes(): number {
    return this.#windowBytes
  }

  add(): void {
    this.#count++
    this.#adapt()
  }

  remove(): void {
    this.#count--
    this.#adapt()
  }

  /** @param onChange - called whenever `windowBytes` has changed, until `unwatch` */
  watch(onChange: () => void): void {
    this.#watchers.add(onChange)
  }

  unwatch(onChange: () => void): void {
    this.#watchers.delete(onChange)
  }

  #adapt(): void {
    const bytes = this.#nextBytes()
    if (bytes === this.#windowBytes) return
    this.#windowBytes = bytes
    for (const onChange of this.#watchers) onChange()
  }

  #nextBytes(): number {
    const isNarrow = this.#count > (this.#windowBytes <= narrowWindowBytes ? fewStopped : manyStopped)
    if (!isNarrow) return Number.POSITIVE_INFINITY
    return this.#count > crowdStopped ? crowdWindowBytes : Math.min(this.#windowBytes, narrowWindowBytes)
  }
}
