import type { KasError } from '../../src/lib/errors.ts'

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** Messages that a stream receives; it behaves as src/proto/grpc/inbox.ts. */
export class SimulatedInbox implements AsyncIterableIterator<Uint8Array> {
  readonly #onUnwanted: () => void
  readonly #messages: Uint8Array[] = []
  #ended = false
  #failure: KasError | undefined
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined

  /** @param onUnwanted - called when the reader leaves before the end */
  constructor(onUnwanted: () => void) {
    this.#onUnwanted = onUnwanted
  }

  add(message: Uint8Array): void {
    if (this.#ended || this.#failure) return
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting) waiting.resolve({ value: message, done: false })
    else this.#messages.push(message)
  }

  end(): void {
    if (this.#ended || this.#failure) return
    this.#ended = true
    this.#waiting?.resolve(end)
  }

  /** @returns false if it has ended before */
  fail(error: KasError): boolean {
    if (this.#ended || this.#failure) return false
    this.#failure = error
    this.#waiting?.reject(error)
    return true
  }

  get isRead(): boolean {
    return this.#ended && this.isEmpty
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  take(): Uint8Array | undefined {
    return this.#messages.shift()
  }

  /** Has no effect: messages here have no size. */
  limit(): void {}

  /** Has no effect: bytes are not counted here. */
  chargeTo(): void {}
  receives(): void {}

  next(): Promise<IteratorResult<Uint8Array>> {
    const message = this.take()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(end)
    if (this.#waiting) return Promise.reject(new Error('messages are read by one reader, one at a time'))
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#messages.length = 0
    if (!this.#ended && !this.#failure) this.#onUnwanted()
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
