/** Repeats one read, never two at once. A request during a read causes one more read, so that its result is current. */
export class RepeatedRead {
  readonly #read: () => Promise<void>
  #reading: Promise<void> | undefined
  #again = false
  #stopped = false

  /** @param read - does not reject */
  constructor(read: () => Promise<void>) {
    this.#read = read
  }

  /** Resolves once a read that began after the call is done. Once stopped, it resolves with the read that runs. */
  now(): Promise<void> {
    if (this.#reading) this.#again = true
    this.#reading ??= this.#untilCurrent().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** Resolves once no read runs. */
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
