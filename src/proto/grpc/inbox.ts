import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { keepAll } from './blocks.ts'
import { type Deframer, prefixBytes } from './frames.ts'
import { maxUnreadBytes, unreadMessageBytes } from './limits.ts'
import { ReceivedBytes } from './received-bytes.ts'
import type { StreamWindow } from './stream-window.ts'
import type { Unpacker } from './unpacker.ts'
import type { UnreadBytes } from './unread-bytes.ts'

export interface InboxComponents {
  readonly stream: Http2Stream
  readonly deframer: Deframer
  /** of the stream's connection */
  readonly window: StreamWindow
  /** of the stream's connection */
  readonly unpacker: Unpacker
}

/** A message as it came. */
interface Unread {
  bytes: Buffer
  readonly isPacked: boolean
}

/** A message that waits, beside what it says. */
const queuedMessageBytes = prefixBytes + unreadMessageBytes

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/**
 * The messages that a stream receives, read once, in order. While nobody reads, the stream is paused beyond
 * `maxUnreadBytes`, and the sender's window fills. What is packed stays so until it is read.
 */
export class Inbox implements AsyncIterableIterator<Uint8Array> {
  /** messages so far, read or not */
  received = 0
  readonly #stream: Http2Stream
  readonly #bytes: ReceivedBytes
  readonly #deframer: Deframer
  readonly #unpacker: Unpacker
  readonly #onFault: (error: KasError) => void
  readonly #onUnwanted: () => void
  readonly #messages: Unread[] = []
  /** so many of them, the first ones, keep nothing else that was read with them */
  #alone = 0
  /** absent: as the connection has it */
  #maxMessageBytes: number | undefined
  #unreadBytes = 0
  #begun = false
  #ended = false
  /** nobody reads what still comes */
  #isLeft = false
  #failure: KasError | undefined
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined
  /** the first message is being unpacked */
  #unpacking = false
  /** of the last message, if it was unpacked beside the event loop */
  #unpackedBytes = 0

  /**
   * @param onFault - a frame that cannot be: the call ends with it
   * @param onUnwanted - the reader left before the end
   */
  constructor(
    { stream, deframer, window, unpacker }: InboxComponents,
    onFault: (error: KasError) => void,
    onUnwanted: () => void,
  ) {
    this.#stream = stream
    this.#deframer = deframer
    this.#unpacker = unpacker
    this.#onFault = onFault
    this.#onUnwanted = onUnwanted
    this.#bytes = new ReceivedBytes(stream, window, onFault, () => {
      this.discard()
      deframer.clear()
    })
  }

  /** The stream has closed. */
  close(): void {
    this.#bytes.close(this.#queuedBytes())
    this.#release()
    this.#unpacker.leave(this)
  }

  /** Takes what comes, ahead of the reader; without it, from the first read on. */
  begin(): void {
    if (this.#begun) return
    this.#begun = true
    const add = (message: Buffer, isPacked: boolean) => this.#add(message, isPacked)
    this.#bytes.begin((chunk) => {
      if (this.#failure) return
      if (this.#messages.length > this.#alone) this.#keepAlone() // they have waited: their reader does not keep up
      try {
        this.#deframer.push(chunk, add)
      } catch (error) {
        this.#onFault(KasError.from(error))
        return
      }
      if (this.#unreadBytes > maxUnreadBytes) this.#bytes.pause()
    })
  }

  /** No longer message is taken, packed or not. To be called before the next one comes. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
    this.#deframer.limit(maxMessageBytes)
  }

  /** What waits here is counted there from now on, where without room the call ends; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    if (!this.#stream.destroyed) this.#bytes.chargeTo(unread, callerKey)
  }

  /** The call that it carries is this caller's from now on; undefined: there is none. */
  payBy(callerKey: string | undefined): void {
    if (!this.#stream.destroyed) this.#bytes.payBy(callerKey)
  }

  /** So much waits for the connection, which the one who is charged has to have room for, too. */
  countUnsent(bytes: number): void {
    this.#bytes.countUnsent(bytes)
  }

  /** A call is to bring messages, or has ended: a stream may wait for calls, and carry one after another. */
  receives(isSo: boolean): void {
    if (!this.#stream.destroyed) this.#bytes.receives(isSo)
  }

  /** What has come and is not taken, whole or not. */
  get bufferedBytes(): number {
    return this.#bytes.receivedBytes
  }

  /** Nobody reads any further. Who has begun to, and neither reads to the end nor returns, has to say so. */
  discard(): void {
    this.#bytes.remove(this.#queuedBytes())
    this.#messages.length = 0
    this.#alone = 0
    this.#unreadBytes = 0
  }

  /** As `discard`, also of what still comes. */
  leave(): void {
    this.#isLeft = true
    this.discard()
  }

  /** The other side has half-closed. */
  end(): void {
    if (this.#ended || this.#failure) return
    if (this.#deframer.bufferedBytes > 0) {
      this.fail(new KasError({ code: 'INVALID_MESSAGE', detail: 'the stream ended inside a message' }))
      return
    }
    this.#ended = true
    this.#bytes.end()
    if (this.#unpacking) return // who waits gets that first
    this.#waiting?.resolve(end)
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

  /** Nothing is left to be read, and nothing will come. */
  get isRead(): boolean {
    return this.#ended && this.isEmpty
  }

  /** All that has come whole is read. */
  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  /** A message that is here already, and is no work. */
  take(): Uint8Array | undefined {
    this.begin()
    this.#release()
    const first = this.#messages[0]
    if (!first || this.#unpacking) return undefined
    const message = first.isPacked ? this.#unpackSmall(first.bytes) : first.bytes
    if (message) this.#shift()
    return message
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const message = this.take()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#waiting) return Promise.reject(new Error('messages are read by one reader, one at a time'))
    if (this.#messages.length > 0 && !this.#unpacking) void this.#unpackFirst()
    else if (this.#failure) return Promise.reject(this.#failure)
    else if (this.#ended && !this.#unpacking) return Promise.resolve(end)
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.discard()
    this.#release()
    if (!this.#ended && !this.#failure) this.#onUnwanted()
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Of whole messages. */
  #queuedBytes(): number {
    let sum = 0
    for (const { bytes } of this.#messages) sum += bytes.length + queuedMessageBytes
    return sum
  }

  #keepAlone(): void {
    keepAll(this.#messages, this.#alone)
    this.#alone = this.#messages.length
  }

  #shift(): void {
    const { bytes } = this.#messages.shift() as Unread
    if (this.#alone > 0) this.#alone--
    this.#bytes.take(bytes.length + queuedMessageBytes)
    this.#unreadBytes -= bytes.length + unreadMessageBytes
    if (this.#unreadBytes <= maxUnreadBytes / 2) this.#bytes.resume()
  }

  #add(bytes: Buffer, isPacked: boolean): void {
    if (this.#failure) return // a frame before it, or its number
    this.received++
    if (this.#isLeft) {
      this.#bytes.remove(bytes.length + prefixBytes)
      return
    }
    const waiting = this.#waiting
    if (waiting && !isPacked && !this.#unpacking) {
      this.#waiting = undefined
      this.#bytes.take(bytes.length + prefixBytes)
      waiting.resolve({ value: bytes, done: false })
      return
    }
    if (!this.#bytes.add(unreadMessageBytes)) return
    this.#messages.push({ bytes, isPacked })
    this.#unreadBytes += bytes.length + unreadMessageBytes
    if (waiting && !this.#unpacking) this.#serve(waiting)
  }

  /** Gives the first message to who waits for it. */
  #serve(waiting: PromiseWithResolvers<IteratorResult<Uint8Array>>): void {
    const message = this.take()
    if (message) {
      this.#waiting = undefined
      waiting.resolve({ value: message, done: false })
    } else if (!this.#failure) void this.#unpackFirst()
  }

  /** @returns undefined: it is not small, or it is none, and the call ends */
  #unpackSmall(packed: Buffer): Buffer | undefined {
    try {
      return this.#unpacker.unpackSmall(packed)
    } catch (error) {
      this.#refuse(error)
      return undefined
    }
  }

  async #unpackFirst(): Promise<void> {
    const { bytes } = this.#messages[0] as Unread
    this.#unpacking = true
    try {
      const message = await this.#unpacker.unpack(bytes, this, this.#maxMessageBytes)
      this.#unpacking = false
      this.#unpackedBytes = message.length
      const waiting = this.#waiting
      if (!waiting || this.#stream.destroyed) this.#release()
      if (!waiting || this.#messages.length === 0) return // its reader has left, or the call has failed
      this.#shift()
      this.#waiting = undefined
      waiting.resolve({ value: message, done: false })
    } catch (error) {
      this.#unpacking = false
      this.#refuse(error)
    }
  }

  #refuse(error: unknown): void {
    this.discard()
    const failure = KasError.from(error)
    this.#ended = false // what it sent was not whole
    this.#onFault(failure)
    this.fail(failure)
  }

  /** What the reader had last, it has handed on. */
  #release(): void {
    if (this.#unpackedBytes === 0) return
    this.#unpacker.release(this.#unpackedBytes)
    this.#unpackedBytes = 0
  }
}
