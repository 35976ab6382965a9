import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { Blocks, ownCopy } from './blocks.ts'
import { passedBytes } from './buffer-memory.ts'
import type { StreamWindow } from './stream-window.ts'
import type { Holder, UnreadBytes } from './unread-bytes.ts'

/** Received of a stream, beyond what it says while it waits for a call. */
const callBytes = 64 * 1024

/**
 * The bytes that a stream has received, counted from the moment that they come until they are taken. While nobody reads
 * node holds them back, in blocks.
 */
export class ReceivedBytes implements Holder {
  readonly #stream: Http2Stream
  readonly #window: StreamWindow
  readonly #onOverflow: (error: KasError) => void
  readonly #onDrop: () => void
  /** the stream's own, for what its reader gets */
  readonly #push: Http2Stream['push']
  /** also what node keeps */
  #bufferedBytes = 0
  /** of them, what came because the window was wide */
  #extraBytes = 0
  /** counted by the window as one that receives */
  #receives = false
  /** since it began to */
  #receivedBytes = 0
  #charged: UnreadBytes | undefined
  #isDropped = false
  #hasEnded = false
  #begun = false
  /** what came last while nobody reads; node keeps what is before it */
  #kept: Blocks | undefined
  #paused = false

  /**
   * @param window - of the stream's connection
   * @param onOverflow - there is no room for what came: the call ends
   * @param onDrop - its messages are not wanted any more
   */
  constructor(stream: Http2Stream, window: StreamWindow, onOverflow: (error: KasError) => void, onDrop: () => void) {
    this.#stream = stream
    this.#window = window
    this.#onOverflow = onOverflow
    this.#onDrop = onDrop
    this.#push = stream.push
    stream.push = (chunk: Buffer | null) => this.#arrive(chunk)
  }

  get bufferedBytes(): number {
    return this.#bufferedBytes
  }

  /** Passes on what has come, and what comes. */
  begin(onData: (chunk: Buffer) => void): void {
    this.#begun = true
    this.#kept?.flush()
    this.#stream.on('data', onData)
  }

  /** They are counted there from now on, where without room the call ends; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined): void {
    const bytes = this.#bufferedBytes
    this.remove(bytes)
    this.#charged?.leave(this)
    this.#charged = unread
    if (!this.#hasEnded) unread?.enter(this)
    this.add(bytes)
  }

  /** @returns false: there is no room for them */
  add(bytes: number): boolean {
    const extra = this.#window.extraOf(this.#bufferedBytes + bytes) - this.#extraBytes
    if (this.#charged && !this.#charged.add(bytes, extra)) {
      this.#overflow()
      return false
    }
    this.#bufferedBytes += bytes
    this.#extraBytes += extra
    this.#window.hold(bytes - extra)
    if (this.#isDropped) this.remove(bytes) // it was the one that had most
    return !this.#isDropped
  }

  /** So many are taken, or not wanted; no more than there are. */
  remove(bytes: number): void {
    const removed = Math.min(bytes, this.#bufferedBytes)
    this.#bufferedBytes -= removed
    const extra = this.#extraBytes - this.#window.extraOf(this.#bufferedBytes)
    this.#extraBytes -= extra
    this.#window.hold(extra - removed)
    this.#charged?.remove(removed, extra)
  }

  /** As `remove`, by its reader. */
  take(bytes: number): void {
    this.remove(bytes)
    this.#window.took(this, bytes)
  }

  /** A call is to bring its bytes, or has ended: a stream may wait for calls, and carry one after another. */
  receives(isSo: boolean): void {
    this.#receivedBytes = 0
    if (isSo === this.#receives) return
    this.#receives = isSo
    if (isSo) this.#window.began()
    else this.#window.ended()
  }

  /** Takes no more for now: the sender's window fills. */
  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.#stream.pause()
  }

  resume(): void {
    if (!this.#unpause()) return
    this.#kept?.flush()
    this.#stream.resume()
  }

  /** Nothing follows; the call may have ended well, and is not dropped any more. */
  end(): void {
    this.#hasEnded = true
    this.receives(false)
    this.#unpause()
    this.#charged?.leave(this)
  }

  /** The stream has closed: of what it received `bytes` are still here. */
  close(bytes: number): void {
    this.receives(false)
    this.#unpause()
    this.#charged?.leave(this)
    this.remove(Math.max(0, this.#bufferedBytes - bytes))
  }

  /** Nothing of it is kept: others have no room. */
  drop(): void {
    this.#isDropped = true
    this.#onDrop()
    this.#kept = undefined
    this.remove(this.#bufferedBytes)
    this.#overflow()
    if (this.#unpause()) this.#stream.resume() // what node keeps goes too
  }

  /** What the connection brings, `null` at the end. */
  #arrive(chunk: Buffer | null): boolean {
    const stream = this.#stream
    if (chunk) passedBytes.add(chunk.length)
    if (chunk) this.#window.arrived()
    if (chunk && !this.#receives && !this.#hasEnded) this.#notice(chunk.length)
    if (chunk && this.#isDropped) return true
    if (chunk && !this.add(chunk.length)) return true // its call has ended
    if (!chunk || (this.#begun && !this.#paused)) {
      this.#kept?.flush()
      return this.#push.call(stream, chunk)
    }
    // a view would keep all that was read with it
    this.#kept ??= new Blocks((bytes) => this.#push.call(stream, isAlone(bytes) ? bytes : ownCopy(bytes)))
    this.#kept.add(chunk)
    return stream.readableLength < stream.readableHighWaterMark
  }

  /** What brings so much is a call, whatever was known of it. */
  #notice(bytes: number): void {
    this.#receivedBytes += bytes
    if (this.#receivedBytes > callBytes) this.receives(true)
  }

  /** @returns whether it was paused */
  #unpause(): boolean {
    if (!this.#paused) return false
    this.#paused = false
    return true
  }

  #overflow(): void {
    this.#onOverflow(new KasError({ code: 'TOO_MUCH_UNREAD', limit: this.#charged?.maxBytes ?? 0 }))
  }
}

const isAlone = (bytes: Buffer) => bytes.length === bytes.buffer.byteLength
