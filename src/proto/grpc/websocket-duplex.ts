import { Duplex } from 'node:stream'
import { freeBuffer } from './buffer-memory.ts'
import { FrameFault, FrameReader } from './frame-reader.ts'
import { maxUnsentBytes, waitingPieceBytes } from './limits.ts'
import { lengthOf, type Masking, writeFrames } from './message-frames.ts'

/**
 * The part of a WebSocket that this file uses. A socket of package ws fits: it reads its connection by one listener of
 * 'data'.
 */
export interface MessageSocket {
  readonly readyState: number
  on(event: 'open' | 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  pause(): void
  resume(): void
  close(code: number, reason?: string): void
  terminate(): void
}

/** the sub-protocol of agents (doc/reference/tunnel-protocol.md 2.2) */
export const webSocketProtocol = 'ws-tunnel'

/** of WebSocket's readyState */
const open = 1
const closed = 3
/** of RFC 6455 */
const normalClosure = 1000

/** Unread bytes, with the cost of each piece, above which the WebSocket is not read. */
const maxUnreadBytes = 256 * 1024
const defaultUnreadPatienceMs = 1000

export interface WebSocketDuplexOptions {
  /** connection below the WebSocket */
  readonly connection: Duplex
  readonly masking: Masking
  /** time for a reader to take the remaining bytes after the end of the WebSocket */
  readonly unreadPatienceMs?: number
}

/**
 * A byte stream inside a WebSocket: the payloads of its binary messages, whose borders mean nothing
 * (doc/reference/tunnel-protocol.md 2.2). ws' createWebSocketStream costs several times more. The stream must be made
 * before the socket is open or in the same turn, or the first bytes are lost.
 *
 * It reads and writes the frames of binary messages itself, and passes on payloads as they come. The package ws would
 * collect and copy each message until it is complete. It does only the upgrade and control frames.
 *
 * It is made for node:http2, which copies the bytes that it reads and writes. So large buffers, both ways, are freed as
 * soon as they have passed.
 *
 * It closes with the WebSocket, also while it is not read. The reason is that node:http2 stops reading a connection
 * that it is about to leave, and would never get an 'end'.
 */
export class WebSocketDuplex extends Duplex {
  /** payload bytes received: grows while the other side lives */
  bytesRead = 0
  /** payload bytes passed to the WebSocket */
  bytesWritten = 0
  readonly #socket: MessageSocket
  readonly #connection: Duplex
  readonly #masking: Masking
  readonly #unreadPatienceMs: number
  readonly #frames: FrameReader
  /** listener of ws, which gets control frames */
  #ofSocket: ((bytes: Buffer) => void) | undefined
  #paused = false
  /** pieces that wait for their reader */
  #unreadPieces = 0
  /** writes that wait for the connection */
  #unsentWrites = 0
  #closing: NodeJS.Timeout | undefined

  constructor(socket: MessageSocket, options: WebSocketDuplexOptions) {
    super({ readableHighWaterMark: maxUnreadBytes, writableHighWaterMark: maxUnsentBytes })
    this.#socket = socket
    this.#connection = options.connection
    this.#masking = options.masking
    this.#unreadPatienceMs = options.unreadPatienceMs ?? defaultUnreadPatienceMs
    this.#frames = new FrameReader(
      {
        payload: (bytes) => this.#onPayload(bytes),
        control: (bytes) => this.#ofSocket?.call(options.connection, bytes),
      },
      { masked: options.masking === 'none' },
    )
    if (socket.readyState === open) this.#readFrames()
    else socket.on('open', () => this.#readFrames())
    socket.on('close', () => this.#onClose())
    // ws reads the waiting bytes of a closed connection once more, and not from the start of a frame
    socket.on('error', (error) => options.connection.destroyed || this.destroy(error))
  }

  /** Reads waiting bytes: when this returns, the listeners of 'data' have them. */
  override read(size?: number): Buffer | null {
    const bytes = super.read(size) as Buffer | null
    if (this.readableLength === 0) this.#unreadPieces = 0
    else if (bytes && this.#unreadPieces > 0) this.#unreadPieces-- // a flowing reader takes them one by one
    this.#resume()
    if (bytes && this.readableFlowing) freeBuffer(bytes)
    return bytes
  }

  override _read(): void {
    this.#resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send([chunk], done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(
      chunks.map(({ chunk }) => chunk),
      done,
    )
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#socket.readyState === open) this.#socket.close(normalClosure)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#closing)
    if (this.#socket.readyState !== closed) this.#socket.terminate()
    done(error)
  }

  /** Waits only while much is unsent: a wait for each write would cost a turn of the event loop. */
  #send(pieces: readonly Buffer[], done: (error?: Error | null) => void): void {
    const bytes = lengthOf(pieces)
    // 'close' ends the stream: an error here would drop received bytes that are not read yet
    if (this.#socket.readyState !== open || bytes === 0) {
      done()
      return
    }
    this.bytesWritten += bytes
    this.#unsentWrites++
    let wait = false // nothing is sent before this returns
    const sent = () => {
      this.#unsentWrites--
      if (wait) done()
    }
    writeFrames(this.#connection, pieces, { masking: this.#masking, sent })
    wait = this.#connection.writableLength + this.#unsentWrites * waitingPieceBytes > maxUnsentBytes
    if (!wait) done()
  }

  /** Reads the connection in place of the socket. */
  #readFrames(): void {
    const connection = this.#connection
    const listener = connection.listeners('data').at(-1) as (bytes: Buffer) => void
    this.#ofSocket = listener
    connection.off('data', listener)
    connection.on('data', (chunk: Buffer) => this.#onData(chunk))
  }

  #onData(chunk: Buffer): void {
    if (this.destroyed) return
    try {
      this.#frames.read(chunk)
    } catch (error) {
      if (!(error instanceof FrameFault)) throw error
      this.#refuse(error)
      return
    }
    if (this.readableLength === 0) freeBuffer(chunk) // its reader has it
  }

  #refuse(fault: FrameFault): void {
    if (this.#socket.readyState === open) this.#socket.close(fault.closeCode, fault.message)
    this.destroy(fault)
  }

  #onPayload(bytes: Buffer): void {
    this.bytesRead += bytes.length
    // a small waiting piece would keep the whole buffer with which it was read
    const alone = this.readableLength > 0 && bytes.length < bytes.buffer.byteLength / 4
    this.push(alone ? Buffer.from(bytes) : bytes)
    if (this.readableLength === 0) return
    this.#unreadPieces++
    if (this.#paused || !this.#isFull) return
    this.#paused = true
    this.#socket.pause()
  }

  get #isFull(): boolean {
    return this.readableLength + this.#unreadPieces * waitingPieceBytes >= maxUnreadBytes
  }

  /** Resumes the socket. Node asks for more by bytes only. */
  #resume(): void {
    if (!this.#paused || this.#isFull) return
    this.#paused = false
    this.#socket.resume()
  }

  #onClose(): void {
    if (this.destroyed) return
    this.push(null)
    if (this.readableLength === 0 && this.isPaused()) {
      this.destroy()
      return
    }
    this.once('end', () => this.destroy())
    this.#closing = setTimeout(() => this.destroy(), this.#unreadPatienceMs)
  }
}
