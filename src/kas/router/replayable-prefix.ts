const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/**
 * Messages that can be read again from the first one, up to `maxBytes`. Messages beyond that pass uncopied, without a
 * layer between reader and source: every byte of an upload takes this path.
 */
export class ReplayablePrefix {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #maxBytes: number
  #kept: Uint8Array[] = []
  #keptBytes = 0
  #whole = true
  #ended = false
  /** number of the current reader */
  #turn = 0
  #pending: Promise<IteratorResult<Uint8Array>> | undefined

  constructor(messages: AsyncIterable<Uint8Array>, maxBytes: number) {
    this.#source = messages[Symbol.asyncIterator]()
    this.#maxBytes = maxBytes
  }

  /** True while all messages read so far can be read again. */
  get whole(): boolean {
    return this.#whole
  }

  /** Drops the kept messages: nothing can be read again from now on. */
  forget(): void {
    this.#whole = false
    this.#kept = []
  }

  /** Returns a reader that begins at the first message; the reader before it ends. */
  read(): AsyncIterable<Uint8Array> {
    const turn = ++this.#turn
    const again = this.#kept // this array object: `forget` and `#keep` assign a new one
    const count = again.length
    let at = 0
    const next = (): Promise<IteratorResult<Uint8Array>> => {
      if (turn !== this.#turn) return Promise.resolve(end)
      if (at < count) return Promise.resolve({ value: again[at++] as Uint8Array, done: false })
      return this.#whole || this.#pending ? this.#readOn(turn) : this.#source.next()
    }
    const leave = async (): Promise<IteratorResult<Uint8Array>> => {
      const isLast = turn === this.#turn && !this.#whole && !this.#pending
      if (isLast) await this.#source.return?.()
      return end
    }
    return { [Symbol.asyncIterator]: () => ({ next, return: leave }) }
  }

  async #readOn(turn: number): Promise<IteratorResult<Uint8Array>> {
    if (this.#ended) return end
    // an abandoned reader leaves its read pending: the next reader takes its result
    this.#pending ??= this.#source.next()
    const result = await this.#pending
    if (turn !== this.#turn) return end
    this.#pending = undefined
    if (result.done) this.#ended = true
    else this.#keep(result.value)
    return result
  }

  #keep(message: Uint8Array): void {
    if (!this.#whole) return
    this.#keptBytes += message.length
    if (this.#keptBytes > this.#maxBytes) this.forget()
    else this.#kept.push(message)
  }
}
