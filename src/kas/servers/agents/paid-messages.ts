/**
 * Messages of an agent, each once it is paid for. Until then none is read behind it: they wait where they are counted,
 * and then the sender does.
 */
export class PaidMessages implements AsyncIterableIterator<Uint8Array> {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #pay: (bytes: number) => Promise<void> | undefined

  /** @param pay - for a message of so many bytes; undefined: it is paid for */
  constructor(source: AsyncIterable<Uint8Array>, pay: (bytes: number) => Promise<void> | undefined) {
    this.#source = source[Symbol.asyncIterator]()
    this.#pay = pay
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    const next = await this.#source.next()
    if (!next.done) await this.#pay(next.value.length)
    return next
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    return (await this.#source.return?.()) ?? { value: undefined, done: true }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
