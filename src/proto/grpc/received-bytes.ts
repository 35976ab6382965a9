import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import type { NoRoom, RoomUser, Share } from '../../lib/shared-total.ts'
import { Blocks, ownCopy } from './blocks.ts'
import { passedBytes } from './buffer-memory.ts'
import type { StreamWindow } from './stream-window.ts'
import type { UnreadBytes } from './unread-bytes.ts'

/** Bytes from which a stream counts as receiving, though it is not known to have a call. */
const callBytes = 64 * 1024

/**
 * Bytes that a stream has received, counted from their arrival until they are taken. Without a reader Node keeps them,
 * in blocks.
 */
export class ReceivedBytes implements RoomUser {
  readonly #stream: Http2Stream
  readonly #window: StreamWindow
  readonly #onOverflow: (error: KasError) => void
  readonly #onDrop: () => void
  /** the stream's own method, which passes bytes to its reader */
  readonly #push: Http2Stream['push']
  /** including bytes that Node keeps */
  #bufferedBytes = 0
  /** part that came because the window was wide */
  #extraBytes = 0
  /** True if the window counts this stream as receiving. */
  #receives = false
  /** bytes since `receives` was last called */
  #receivedBytes = 0
  #charged: UnreadBytes | undefined
  /** part of the total of all agents, for the caller of the call */
  #share: Share | undefined
  #callerKey: string | undefined
  /** bytes that wait for the connection: they count only in the share */
  #unsentBytes = 0
  #isDropped = false
  #hasEnded = false
  #begun = false
  /** last bytes without a reader; Node keeps earlier ones */
  #kept: Blocks | undefined
  #paused = false

  /**
   * @param window - of the stream's connection
   * @param onOverflow - called if there is no room for received bytes: the call ends
   * @param onDrop - called if its messages are to be dropped
   */
  constructor(stream: Http2Stream, window: StreamWindow, onOverflow: (error: KasError) => void, onDrop: () => void) {
    this.#stream = stream
    this.#window = window
    this.#onOverflow = onOverflow
    this.#onDrop = onDrop
    this.#push = stream.push
    stream.push = (chunk: Buffer | null) => this.#arrive(chunk)
  }

  /** bytes received and not taken */
  get receivedBytes(): number {
    return this.#bufferedBytes
  }

  /** including bytes that are unsent */
  get bufferedBytes(): number {
    return this.#bufferedBytes + this.#unsentBytes
  }

  /** Passes on the received bytes, and all later ones. */
  begin(onData: (chunk: Buffer) => void): void {
    this.#begun = true
    this.#kept?.flush()
    this.#stream.on('data', onData)
  }

  /**
   * Counts the bytes there from now on, and ends the call if there is no room; undefined: nowhere.
   *
   * @param callerKey - caller of the call; absent: the peer itself
   */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    const bytes = this.#bufferedBytes
    const unsentBytes = this.#unsentBytes
    this.remove(bytes)
    this.#leave()
    this.#charged = unread
    this.#callerKey = callerKey
    this.#share = unread?.enterShare?.(callerKey)
    if (!this.#hasEnded) {
      unread?.enter(this)
      this.#share?.holders.add(this)
    }
    if (this.#share) this.countUnsent(unsentBytes)
    this.add(bytes)
  }

  /** Sets the caller of the call from now on; undefined: there is none. */
  payBy(callerKey: string | undefined): void {
    if (this.#share && callerKey !== this.#callerKey) this.chargeTo(this.#charged, callerKey)
  }

  /** Counts unsent bytes, for which the caller's share needs room. */
  countUnsent(bytes: number): void {
    if (!this.#share || this.#isDropped || bytes === this.#unsentBytes) return
    const more = bytes - this.#unsentBytes
    this.#unsentBytes = bytes
    this.#share.total.count(this.#share, more)
    if (more > 0 && !this.#share.add(0)) this.drop(this.#share.total.noRoom)
  }

  /** @returns false: there is no room for them */
  add(bytes: number): boolean {
    const extra = this.#window.extraOf(this.#bufferedBytes + bytes) - this.#extraBytes
    if (this.#charged && !this.#charged.add(bytes, extra)) {
      this.#overflow(this.#charged.noRoom)
      return false
    }
    if (this.#share && !this.#share.add(bytes)) {
      this.#charged?.remove(bytes, extra)
      this.#overflow(this.#share.total.noRoom)
      return false
    }
    this.#bufferedBytes += bytes
    this.#extraBytes += extra
    this.#window.hold(bytes - extra)
    if (this.#isDropped) this.remove(bytes) // it was the stream with most bytes, and has made room
    return !this.#isDropped
  }

  /** Counts bytes as taken or dropped; at most as many as there are. */
  remove(bytes: number): void {
    const removed = Math.min(bytes, this.#bufferedBytes)
    this.#bufferedBytes -= removed
    const extra = this.#extraBytes - this.#window.extraOf(this.#bufferedBytes)
    this.#extraBytes -= extra
    this.#window.hold(extra - removed)
    this.#charged?.remove(removed, extra)
    this.#share?.remove(removed)
  }

  /** As `remove`, for bytes that the reader took. */
  take(bytes: number): void {
    this.remove(bytes)
    this.#window.took(this, bytes)
  }

  /** Sets whether a call is to bring bytes. A stream may wait for calls, and carry one after another. */
  receives(isSo: boolean): void {
    this.#receivedBytes = 0
    if (isSo === this.#receives) return
    this.#receives = isSo
    if (isSo) this.#window.began()
    else this.#window.ended()
  }

  /** Stops reading for now: the sender's window fills. */
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

  /** Ends the bytes: none follow. The call may have ended well, so it is not dropped any more. */
  end(): void {
    this.#hasEnded = true
    this.receives(false)
    this.#unpause()
    this.#charged?.leave(this)
    this.#share?.holders.delete(this)
  }

  /** Closes the stream: `bytes` of the received ones are still here. */
  close(bytes: number): void {
    this.receives(false)
    this.#unpause()
    this.remove(Math.max(0, this.#bufferedBytes - bytes))
    this.#leave()
  }

  /** Drops all bytes, because there is no room for others. */
  drop(why: NoRoom): void {
    this.#isDropped = true
    this.#onDrop()
    this.#kept = undefined
    this.remove(this.#bufferedBytes)
    this.#share?.remove(this.#unsentBytes)
    this.#unsentBytes = 0
    this.#overflow(why)
    if (this.#unpause()) this.#stream.resume() // drops the bytes that Node keeps
  }

  /** Accepts bytes of the connection, `null` at the end. */
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
    // a view would keep the whole buffer with which it was read
    this.#kept ??= new Blocks((bytes) => this.#push.call(stream, isAlone(bytes) ? bytes : ownCopy(bytes)))
    this.#kept.add(chunk)
    return stream.readableLength < stream.readableHighWaterMark
  }

  /** Counts a stream as receiving after this many bytes, even if no call is known. */
  #notice(bytes: number): void {
    this.#receivedBytes += bytes
    if (this.#receivedBytes > callBytes) this.receives(true)
  }

  /** @returns true: it was paused */
  #unpause(): boolean {
    if (!this.#paused) return false
    this.#paused = false
    return true
  }

  /** Stops counting there. Unread bytes count until they are read. */
  #leave(): void {
    this.#charged?.leave(this)
    const share = this.#share
    share?.holders.delete(this)
    share?.remove(this.#unsentBytes)
    this.#unsentBytes = 0
    share?.leave()
  }

  #overflow({ of, limit }: NoRoom): void {
    if (of === 'agent') this.#onOverflow(new KasError({ code: 'TOO_MUCH_UNREAD', limit }))
    else this.#onOverflow(new KasError({ code: 'REPLICA_MEMORY_FULL', share: 'unread', limit }))
  }
}

const isAlone = (bytes: Buffer) => bytes.length === bytes.buffer.byteLength
