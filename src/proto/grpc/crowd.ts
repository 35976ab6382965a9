import { Listeners } from '../../lib/listeners.ts'

/** So much waits for its readers that windows have to be narrow, until half of it is taken. */
export class Crowd {
  readonly #crowdedBytes: number
  readonly #listeners = new Listeners()
  #bytes = 0
  #isCrowded = false

  /** @param crowdedBytes - more than these have to wait */
  constructor(crowdedBytes: number) {
    this.#crowdedBytes = crowdedBytes
  }

  get isCrowded(): boolean {
    return this.#isCrowded
  }

  /** @param bytes - that wait from now on, or fewer than 0: that do no more */
  count(bytes: number): void {
    this.#bytes += bytes
    const isCrowded = this.#bytes > (this.#isCrowded ? this.#crowdedBytes / 2 : this.#crowdedBytes)
    if (isCrowded === this.#isCrowded) return
    this.#isCrowded = isCrowded
    this.#listeners.notify()
  }

  /** Calls `listener` whenever `isCrowded` has changed, until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }
}
