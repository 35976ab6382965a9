import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { trailersFlag } from './body-trailers.ts'
import { passedBytes } from './buffer-memory.ts'
import { framePrefix, prefixBytes, writePrefix } from './frames.ts'
import { maxUnsentBytes, narrowUnsentBytes, wideUnsentBytes } from './limits.ts'
import type { UnreadBytes } from './unread-bytes.ts'

/** Size below which a message is copied behind its prefix: one small write is cheaper than two. */
const copiedBytes = 4096

/** Sends messages. All messages of one turn of the event loop leave in one write. */
export class Outbox {
  /** messages so far */
  sent = 0
  readonly #stream: Http2Stream
  readonly #onUnsent: ((bytes: number) => void) | undefined
  #maxMessageBytes: number
  #corked = false
  #room: PromiseWithResolvers<void> | undefined
  #closed = false
  #charged: UnreadBytes | undefined
  #countedBytes = 0
  #onSent: (() => void) | undefined
  // node's 'drain' comes only at its own mark, and a sender may wait for less
  #onLeft: (() => void) | undefined

  /** @param onUnsent - called with the unsent bytes while they are counted */
  constructor(stream: Http2Stream, maxMessageBytes: number, onUnsent?: (bytes: number) => void) {
    this.#stream = stream
    this.#onUnsent = onUnsent
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Lowers the bound of messages from now on. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Counts unsent bytes there from now on; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined): void {
    if (this.#charged) this.#charged.unsent -= this.#countedBytes
    this.#countedBytes = 0
    this.#charged = unread
    this.#count()
  }

  /** Bytes that wait for the connection. */
  get unsentBytes(): number {
    return this.#closed ? 0 : this.#stream.writableLength
  }

  /** Calls `listener` once, when no bytes wait for the connection. */
  onSent(listener: () => void): void {
    this.#onSent = listener
    this.#notifySent()
  }

  /**
   * @param head - beginning of the message, so that its payload need not be copied behind it
   * @param rest - pieces of the same message that follow `payload`, not copied
   * @returns undefined: the caller may go on; else a promise of room, which resolves also when the stream closes. After
   *   that, messages are dropped, and the stream's end has the reason
   * @throws KasError MESSAGE_TOO_LARGE
   */
  send(payload: Uint8Array, head?: Uint8Array, rest: readonly Uint8Array[] = []): Promise<void> | undefined {
    let bytes = payload.length + (head?.length ?? 0)
    for (const piece of rest) bytes += piece.length
    if (bytes > this.#maxMessageBytes) {
      throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes: this.#maxMessageBytes })
    }
    const stream = this.#stream
    if (this.#closed || stream.destroyed || stream.writableEnded) return undefined
    this.sent++
    passedBytes.add(bytes)
    this.#onLeft ??= () => this.#left()
    const onLeft = this.#corked ? undefined : this.#onLeft // one for this turn, which leaves in one write
    this.cork()
    const isCopied = payload.length <= copiedBytes
    stream.write(framed(bytes, head, isCopied ? payload : undefined), onLeft)
    if (!isCopied) stream.write(payload)
    for (const piece of rest) stream.write(piece)
    this.#count()
    if (stream.writableLength <= this.#maxUnsentBytes) return undefined
    this.#room ??= Promise.withResolvers()
    return this.#room.promise
  }

  /** Sends the last frame, which is no message. */
  sendTrailers(payload: Buffer): void {
    this.cork()
    this.#stream.write(Buffer.concat([framePrefix(payload.length, trailersFlag), payload]))
  }

  /** Delays writes until the end of this turn of the event loop. */
  cork(): void {
    if (this.#corked) return
    this.#corked = true
    this.#stream.cork()
    process.nextTick(uncork, this)
  }

  /** Writes the delayed bytes, at the end of the turn. */
  uncork(): void {
    this.#corked = false
    this.#stream.uncork()
  }

  /** Ends all waits, because the stream has closed. */
  close(): void {
    this.#closed = true
    this.#left()
  }

  get #maxUnsentBytes(): number {
    return this.#charged && this.#charged.unsent > wideUnsentBytes ? narrowUnsentBytes : maxUnsentBytes
  }

  #count(): void {
    if (!this.#charged) return
    const bytes = this.unsentBytes
    this.#charged.unsent += bytes - this.#countedBytes
    this.#countedBytes = bytes
    this.#onUnsent?.(bytes)
  }

  #left(): void {
    this.#count()
    this.#notifySent()
    if (!this.#room || this.unsentBytes > this.#maxUnsentBytes) return
    this.#room.resolve()
    this.#room = undefined
  }

  #notifySent(): void {
    if (!this.#onSent || this.unsentBytes > 0) return
    const listener = this.#onSent
    this.#onSent = undefined
    listener()
  }
}

/** Returns the beginning of a message of `bytes`: its prefix, and the parts that are copied behind it. */
function framed(bytes: number, head: Uint8Array | undefined, payload: Uint8Array | undefined): Buffer {
  const headEnd = prefixBytes + (head?.length ?? 0)
  const frame = Buffer.allocUnsafe(headEnd + (payload?.length ?? 0))
  writePrefix(frame, bytes)
  if (head) frame.set(head, prefixBytes)
  if (payload) frame.set(payload, headEnd)
  return frame
}

const uncork = (outbox: Outbox) => outbox.uncork()
