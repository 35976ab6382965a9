import type { Http2Stream } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import type { Holder, NoRoom, Share } from '../../lib/shared-total.ts'
import { Blocks, ownCopy } from './blocks.ts'
import { passedBytes } from './buffer-memory.ts'
import type { StreamWindow } from './stream-window.ts'
import type { UnreadBytes } from './unread-bytes.ts'

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
  /** of the total of all agents, for whose call it is */
  #share: Share | undefined
  #callerKey: string | undefined
  /** sent, and not taken by the connection: of the share alone */
  #unsentBytes = 0
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

  /** received */
  get receivedBytes(): number {
    return this.#bufferedBytes
  }

  /** also what is sent and has not left */
  get bufferedBytes(): number {
    return this.#bufferedBytes + this.#unsentBytes
  }

  /** Passes on what has come, and what comes. */
  begin(onData: (chunk: Buffer) => void): void {
    this.#begun = true
    this.#kept?.flush()
    this.#stream.on('data', onData)
  }

  /**
   * They are counted there from now on, where without room the call ends; undefined: nowhere.
   *
   * @param callerKey - whose call it is; absent: the peer's own
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

  /** Its call is another caller's from now on, or nobody's. */
  payBy(callerKey: string | undefined): void {
    if (this.#share && callerKey !== this.#callerKey) this.chargeTo(this.#charged, callerKey)
  }

  /** So much is sent and has not left, of which the caller's share has to have room, too. */
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
    this.#share?.remove(removed)
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
    this.#share?.holders.delete(this)
  }

  /** The stream has closed: of what it received `bytes` are still here. */
  close(bytes: number): void {
    this.receives(false)
    this.#unpause()
    this.remove(Math.max(0, this.#bufferedBytes - bytes))
    this.#leave()
  }

  /** Nothing of it is kept: others have no room. */
  drop(why: NoRoom): void {
    this.#isDropped = true
    this.#onDrop()
    this.#kept = undefined
    this.remove(this.#bufferedBytes)
    this.#share?.remove(this.#unsentBytes)
    this.#unsentBytes = 0
    this.#overflow(why)
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

  /** Nothing more is counted there. What is still to be read is, until it is. */
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
