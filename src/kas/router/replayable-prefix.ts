const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/**
 * Messages that can be read again from their first, as long as they are few. What is not kept passes as it comes,
 * without a layer between reader and source: this is the path of every byte of an upload.
 */
export class ReplayablePrefix {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #maxBytes: number
  #kept: Uint8Array[] = []
  #keptBytes = 0
  #whole = true
  #ended = false
  /** which reader is the current one */
  #turn = 0
  #pending: Promise<IteratorResult<Uint8Array>> | undefined

  constructor(messages: AsyncIterable<Uint8Array>, maxBytes: number) {
    this.#source = messages[Symbol.asyncIterator]()
    this.#maxBytes = maxBytes
  }

  /** All that was read so far can be read again. */
  get whole(): boolean {
    return this.#whole
  }

  /** Nothing is kept any more: what was sent will not be sent again. */
  forget(): void {
    this.#whole = false
    this.#kept = []
  }

  /** Reads from the first message; a reader that was given out before ends. */
  read(): AsyncIterable<Uint8Array> {
    const turn = ++this.#turn
    const again = this.#kept // this very list: `forget` and `#keep` put others in its place
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
    // a reader that was given up leaves its read behind: what that brings is the next one's
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
