import { Listeners } from '../../lib/listeners.ts'

/** So much waits for its readers that windows have to be narrow, until half of it is taken. */
export class MemoryPressure {
  readonly #highBytes: number
  readonly #listeners = new Listeners()
  #bytes = 0
  #isHigh = false

  /** @param highBytes - more than these have to wait */
  constructor(highBytes: number) {
    this.#highBytes = highBytes
  }

  get isHigh(): boolean {
    return this.#isHigh
  }

  /** @param bytes - that wait from now on, or fewer than 0: that do no more */
  count(bytes: number): void {
    this.#bytes += bytes
    const isHigh = this.#bytes > (this.#isHigh ? this.#highBytes / 2 : this.#highBytes)
    if (isHigh === this.#isHigh) return
    this.#isHigh = isHigh
    this.#listeners.notify()
  }

  /** Calls `listener` whenever `isHigh` has changed, until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }
}
