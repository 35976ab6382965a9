/** So much waits for its readers that windows have to be narrow, until half of it is taken. */
export class Crowd {
  readonly #crowdedBytes: number
  readonly #watchers = new Set<() => void>()
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
    for (const onChange of this.#watchers) onChange()
  }

  /** @param onChange - called whenever `isCrowded` has changed, until `unwatch` */
  watch(onChange: () => void): void {
    this.#watchers.add(onChange)
  }

  unwatch(onChange: () => void): void {
    this.#watchers.delete(onChange)
  }
}
