import { Listeners } from '../../lib/listeners.ts'

/** High while so many bytes wait for their readers that windows must be narrow. Ends once half of them are read. */
export class MemoryPressure {
  readonly #highBytes: number
  readonly #listeners = new Listeners()
  #bytes = 0
  #isHigh = false

  /** @param highBytes - pressure is high above this number of waiting bytes */
  constructor(highBytes: number) {
    this.#highBytes = highBytes
  }

  get isHigh(): boolean {
    return this.#isHigh
  }

  /** @param bytes - change of the waiting bytes; below 0: fewer wait */
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
