/** Reads what may change at any time: one read at a time, and once more if asked meanwhile, so that none is outdated. */
export class RepeatedRead {
  readonly #read: () => Promise<void>
  #reading: Promise<void> | undefined
  #again = false
  #stopped = false

  /** @param read - does not reject */
  constructor(read: () => Promise<void>) {
    this.#read = read
  }

  /** Resolves once a read that began later is done, or the one that runs when it is stopped. */
  now(): Promise<void> {
    if (this.#reading) this.#again = true
    this.#reading ??= this.#untilCurrent().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** Resolves once nothing reads any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#reading
  }

  async #untilCurrent(): Promise<void> {
    do {
      this.#again = false
      await this.#read()
    } while (this.#again && !this.#stopped)
  }
}
