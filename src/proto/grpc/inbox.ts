import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import type { Deframer } from './frames.ts'
import { maxUnreadBytes, unreadMessageBytes } from './limits.ts'
import type { StreamWindow } from './stream-window.ts'

export interface InboxComponents {
  readonly stream: Http2Stream
  readonly deframer: Deframer
  /** of the stream's connection */
  readonly window: StreamWindow
}

/**
 * The messages that a stream receives, read once, in order. While nobody reads, the stream is paused beyond
 * `maxUnreadBytes`, and the sender's window fills.
 */
export class Inbox implements AsyncIterableIterator<Uint8Array> {
  /** messages so far, read or not */
  received = 0
  readonly #stream: Http2Stream
  readonly #deframer: Deframer
  readonly #window: StreamWindow
  readonly #onUnwanted: () => void
  readonly #messages: Uint8Array[] = []
  #unreadBytes = 0
  #paused = false
  #ended = false
  #failure: KasError | undefined
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined

  /**
   * @param onFault - a frame that cannot be: the call ends with it
   * @param onUnwanted - the reader left before the end
   */
  constructor(
    { stream, deframer, window }: InboxComponents,
    onFault: (error: KasError) => void,
    onUnwanted: () => void,
  ) {
    this.#stream = stream
    this.#deframer = deframer
    this.#window = window
    this.#onUnwanted = onUnwanted
    const add = (message: Uint8Array) => this.#add(message)
    // node keeps what comes while the stream is paused: a view would keep all that was read with it
    const push = stream.push
    stream.push = (chunk: Buffer | null, encoding?: BufferEncoding) =>
      push.call(stream, this.#paused && chunk ? ownCopy(chunk) : chunk, encoding)
    stream.on('data', (chunk: Buffer) => {
      if (this.#failure) return
      try {
        this.#deframer.push(chunk, add)
      } catch (error) {
        onFault(KasError.from(error))
        return
      }
      if (this.#unreadBytes > maxUnreadBytes && !this.#paused) {
        this.#paused = true
        stream.pause()
        window.stopped()
      }
    })
    stream.on('close', () => this.#go())
  }

  /** The other side has half-closed. */
  end(): void {
    if (this.#ended || this.#failure) return
    if (this.#deframer.heldBytes > 0) {
      this.fail(new KasError({ code: 'INVALID_MESSAGE', detail: 'the stream ended inside a message' }))
      return
    }
    this.#ended = true
    this.#waiting?.resolve({ value: undefined, done: true })
    this.#waiting = undefined
  }

  /** What was received before is still read; then the reader gets `error`. */
  fail(error: KasError): void {
    if (this.#ended || this.#failure) return
    this.#failure = error
    this.#waiting?.reject(error)
    this.#waiting = undefined
  }

  /** The other side has half-closed, and what it sent was whole. */
  get ended(): boolean {
    return this.#ended
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  /** A message that is here already. */
  take(): Uint8Array | undefined {
    const message = this.#messages.shift()
    if (!message) return undefined
    this.#unreadBytes -= message.length + unreadMessageBytes
    if (this.#unreadBytes <= maxUnreadBytes / 2 && this.#go()) this.#stream.resume()
    return message
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const message = this.take()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    if (this.#waiting) return Promise.reject(new Error('messages are read by one reader, one at a time'))
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#messages.length = 0
    if (!this.#ended && !this.#failure) this.#onUnwanted()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** @returns whether it was paused */
  #go(): boolean {
    if (!this.#paused) return false
    this.#paused = false
    this.#window.resumed()
    return true
  }

  #add(message: Uint8Array): void {
    this.received++
    const waiting = this.#waiting
    if (waiting) {
      this.#waiting = undefined
      waiting.resolve({ value: message, done: false })
      return
    }
    this.#messages.push(message)
    this.#unreadBytes += message.length + unreadMessageBytes
  }
}

/** Outside of node's pool, which other streams share. */
function ownCopy(chunk: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(chunk.length)
  copy.set(chunk)
  return copy
}
