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
  /** window of the stream's connection */
  readonly window: StreamWindow
  /** unpacker of the stream's connection */
  readonly unpacker: Unpacker
}

/** A message as received. */
interface Unread {
  bytes: Buffer
  readonly isPacked: boolean
}

/** Cost of a waiting message beside its content. */
const queuedMessageBytes = prefixBytes + unreadMessageBytes

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/**
 * Messages that a stream receives, read once, in order. Without a reader the stream is paused above `maxUnreadBytes`,
 * and the sender's window fills. Packed messages stay packed until they are read.
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
  /** number of first messages that keep no other data in memory */
  #alone = 0
  /** absent: the connection's bound */
  #maxMessageBytes: number | undefined
  #unreadBytes = 0
  #begun = false
  #ended = false
  /** True if no reader takes the messages that still come. */
  #isLeft = false
  #failure: KasError | undefined
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined
  /** True while the first message is being unpacked. */
  #unpacking = false
  /** size of the last message, if it was unpacked in another thread */
  #unpackedBytes = 0

  /**
   * @param onFault - called for an invalid frame, which ends the call
   * @param onUnwanted - called if the reader left before the end
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

  /** Frees everything, because the stream has closed. */
  close(): void {
    this.#bytes.close(this.#queuedBytes())
    this.#release()
    this.#unpacker.leave(this)
  }

  /** Accepts messages from now on, ahead of the reader; without this call, from the first read on. */
  begin(): void {
    if (this.#begun) return
    this.#begun = true
    const add = (message: Buffer, isPacked: boolean) => this.#add(message, isPacked)
    this.#bytes.begin((chunk) => {
      if (this.#failure) return
      if (this.#messages.length > this.#alone) this.#keepAlone() // they have waited: the reader is too slow
      try {
        this.#deframer.push(chunk, add)
      } catch (error) {
        this.#onFault(KasError.from(error))
        return
      }
      if (this.#unreadBytes > maxUnreadBytes) this.#bytes.pause()
    })
  }

  /** Lowers the bound of messages, packed or not. Must be called before the next message comes. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
    this.#deframer.limit(maxMessageBytes)
  }

  /** Counts waiting bytes there from now on, and ends the call if there is no room; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    if (!this.#stream.destroyed) this.#bytes.chargeTo(unread, callerKey)
  }

  /** Sets the caller of the call on this stream; undefined: there is no call. */
  payBy(callerKey: string | undefined): void {
    if (!this.#stream.destroyed) this.#bytes.payBy(callerKey)
  }

  /** Counts unsent bytes, for which the same payer needs room. */
  countUnsent(bytes: number): void {
    this.#bytes.countUnsent(bytes)
  }

  /** Sets whether a call is to bring messages. A stream may wait for calls, and carry one after another. */
  receives(isSo: boolean): void {
    if (!this.#stream.destroyed) this.#bytes.receives(isSo)
  }

  /** Bytes received and not taken, of complete messages or not. */
  get bufferedBytes(): number {
    return this.#bytes.receivedBytes
  }

  /** Drops waiting messages. A reader that neither reads to the end nor returns has to call this. */
  discard(): void {
    this.#bytes.remove(this.#queuedBytes())
    this.#messages.length = 0
    this.#alone = 0
    this.#unreadBytes = 0
  }

  /** Drops waiting messages, and all that still come. */
  leave(): void {
    this.#isLeft = true
    this.discard()
  }

  /** Ends the messages, because the other side has half-closed. */
  end(): void {
    if (this.#ended || this.#failure) return
    if (this.#deframer.bufferedBytes > 0) {
      this.fail(new KasError({ code: 'INVALID_MESSAGE', detail: 'the stream ended inside a message' }))
      return
    }
    this.#ended = true
    this.#bytes.end()
    if (this.#unpacking) return // the reader of that message gets it first
    this.#waiting?.resolve(end)
    this.#waiting = undefined
  }

  /** Fails with `error`. Messages that came before are still read. */
  fail(error: KasError): void {
    if (this.#ended || this.#failure) return
    this.#failure = error
    this.#waiting?.reject(error)
    this.#waiting = undefined
  }

  /** True if the other side has half-closed after a complete message. */
  get ended(): boolean {
    return this.#ended
  }

  /** True if all messages are read, and none will come. */
  get isRead(): boolean {
    return this.#ended && this.isEmpty
  }

  /** True if all complete messages are read. */
  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  /** Returns a message that is here already, and needs no work in another thread. */
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

  /** Bytes of complete messages. */
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
    if (this.#failure) return // an earlier frame failed
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

  /** Gives the first message to the reader that waits for it. */
  #serve(waiting: PromiseWithResolvers<IteratorResult<Uint8Array>>): void {
    const message = this.take()
    if (message) {
      this.#waiting = undefined
      waiting.resolve({ value: message, done: false })
    } else if (!this.#failure) void this.#unpackFirst()
  }

  /** @returns undefined: the message is not small, or invalid, and the call ends */
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
    this.#ended = false // the messages were incomplete
    this.#onFault(failure)
    this.fail(failure)
  }

  /** Frees the last unpacked message, which the reader has passed on. */
  #release(): void {
    if (this.#unpackedBytes === 0) return
    this.#unpacker.release(this.#unpackedBytes)
    this.#unpackedBytes = 0
  }
}
