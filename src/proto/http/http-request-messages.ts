import { Code, KasError } from '../../lib/errors.ts'
import { MessageOrder } from '../wire/message-order.ts'
import type { HttpMessage } from './http-message.ts'
import { httpMessageOrder } from './http-over-grpc.ts'

/** Reads the messages of one request (doc/reference/tunnel-protocol.md 1.3) in order, each once. */
export class HttpRequestMessages<Header> {
  readonly #messages: AsyncIterator<Uint8Array>
  readonly #decode: (bytes: Uint8Array) => HttpMessage<Header>
  readonly #order = new MessageOrder(httpMessageOrder)
  /** message that was read ahead, to learn whether a body of unknown length follows */
  #peeked: HttpMessage<Header> | undefined
  #trailerSeen = false

  /** @param decode - throws KasError INVALID_MESSAGE */
  constructor(messages: AsyncIterable<Uint8Array>, decode: (bytes: Uint8Array) => HttpMessage<Header>) {
    this.#messages = messages[Symbol.asyncIterator]()
    this.#decode = decode
  }

  /** @throws KasError INVALID_MESSAGE if the request does not begin with its header */
  async header(): Promise<Header> {
    const message = await this.next()
    if (message?.kind !== 'header') throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request header' })
    return message.header
  }

  /**
   * Returns the next message, undefined at the caller's half-close.
   *
   * @throws KasError
   */
  async next(): Promise<HttpMessage<Header> | undefined> {
    const peeked = this.#peeked
    if (peeked) {
      this.#peeked = undefined
      return peeked
    }
    const { value, done } = await this.#messages.next()
    if (done) {
      this.#order.end()
      return undefined
    }
    const message = this.#decode(value)
    this.#order.accept(message.kind)
    if (message.kind === 'trailer') this.#trailerSeen = true
    return message
  }

  /** True if a body follows the header. */
  async hasBody(): Promise<boolean> {
    this.#peeked = await this.next()
    return this.#peeked?.kind === 'data'
  }

  /** Yields the body, up to its trailer. A loop that ends early leaves the rest to `discard`. */
  async *body(): AsyncGenerator<Uint8Array> {
    for (let message = await this.next(); message?.kind === 'data'; message = await this.next()) {
      if (message.data.length > 0) yield message.data
    }
  }

  /**
   * Reads and drops the rest.
   *
   * @throws KasError if a body comes that `header` had ruled out
   */
  async discard(options: { bodyAllowed: boolean }): Promise<void> {
    for (let message = await this.next(); message; message = await this.next()) {
      if (message.kind === 'data' && !options.bodyAllowed && !this.#trailerSeen) {
        const text = 'unexpected HttpRequest_Data message received'
        throw new KasError({ code: 'STATUS', grpc: Code.INTERNAL, message: text })
      }
    }
  }
}
