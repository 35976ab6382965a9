import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { trailersFlag } from './body-trailers.ts'
import { passedBytes } from './buffer-memory.ts'
import { framePrefix, prefixBytes, writePrefix } from './frames.ts'
import { maxUnsentBytes, narrowUnsentBytes, wideUnsentBytes } from './limits.ts'
import type { UnreadBytes } from './unread-bytes.ts'

/** Below this a message is copied behind its prefix: one small write is cheaper than two. */
const copiedBytes = 4096

/** Sends messages. Those sent in one turn of the event loop leave in one write. */
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
  // node's 'drain' comes only from its own mark on, and a sender may wait for less
  #onLeft: (() => void) | undefined

  /** @param onUnsent - called with what waits for the connection while that is counted */
  constructor(stream: Http2Stream, maxMessageBytes: number, onUnsent?: (bytes: number) => void) {
    this.#stream = stream
    this.#onUnsent = onUnsent
    this.#maxMessageBytes = maxMessageBytes
  }

  /** No longer message is sent from now on. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Its waiting is counted there from now on; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined): void {
    if (this.#charged) this.#charged.unsent -= this.#countedBytes
    this.#countedBytes = 0
    this.#charged = unread
    this.#count()
  }

  /** Waits for the connection. */
  get unsentBytes(): number {
    return this.#closed ? 0 : this.#stream.writableLength
  }

  /** Calls `listener` once, when nothing waits for the connection. */
  onSent(listener: () => void): void {
    this.#onSent = listener
    this.#notifySent()
  }

  /**
   * @param head - the beginning of the message, when its payload should not be copied behind it
   * @param rest - what follows `payload` in the same message, where it lies
   * @returns undefined to go on, or a promise of room; it resolves also when the stream closes, after which
   *   messages vanish: its end says how
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
    const onLeft = this.#corked ? undefined : this.#onLeft // one for all of this turn: they leave together
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

  /** The last frame, which is no message. */
  sendTrailers(payload: Buffer): void {
    this.cork()
    this.#stream.write(Buffer.concat([framePrefix(payload.length, trailersFlag), payload]))
  }

  /** Holds writes until the end of this turn of the event loop. */
  cork(): void {
    if (this.#corked) return
    this.#corked = true
    this.#stream.cork()
    process.nextTick(uncork, this)
  }

  /** The turn has ended. */
  uncork(): void {
    this.#corked = false
    this.#stream.uncork()
  }

  /** The stream has closed: nobody waits any longer. */
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

/** The beginning of a message of `bytes`: its prefix, and what is to be copied behind that. */
function framed(bytes: number, head: Uint8Array | undefined, payload: Uint8Array | undefined): Buffer {
  const headEnd = prefixBytes + (head?.length ?? 0)
  const frame = Buffer.allocUnsafe(headEnd + (payload?.length ?? 0))
  writePrefix(frame, bytes)
  if (head) frame.set(head, prefixBytes)
  if (payload) frame.set(payload, headEnd)
  return frame
}

const uncork = (outbox: Outbox) => outbox.uncork()
