import { Duplex } from 'node:stream'
import { KasError } from '../../lib/errors.ts'
import { freeBuffer } from './free-buffer.ts'
import { maxUnsentBytes } from './limits.ts'
import { lengthOf, type Masking, writeFrames } from './message-frames.ts'
import { PartialMessage } from './partial-message.ts'
import type { UnreadBytes } from './unread-bytes.ts'

/** What is needed of a WebSocket; that of package ws fits. */
export interface MessageSocket {
  readonly readyState: number
  binaryType: string
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown
  on(event: 'ping' | 'pong', listener: (data: Buffer) => void): unknown
  on(event: 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  pause(): void
  resume(): void
  close(code: number, reason?: string): void
  terminate(): void
}

/** the sub-protocol of agents, and either side's limit for one message (doc/reference/tunnel-protocol.md 2.2) */
export const webSocketProtocol = 'ws-tunnel'
export const maxWebSocketMessageBytes = 10 * 1024 * 1024

/** of WebSocket's readyState */
const open = 1
const closed = 3
/** of RFC 6455 */
const normalClosure = 1000
const unsupportedData = 1003
const messageTooBig = 1009

/** Received bytes that wait for their reader: beyond it the WebSocket is not read. */
const maxUnreadBytes = 256 * 1024
const defaultUnreadPatienceMs = 1000

export interface MessageDuplexOptions {
  /** below the WebSocket */
  readonly connection: Duplex
  readonly masking: Masking
  /** what the other side sends of a message is not bounded before it is whole */
  readonly trusted?: boolean
  /** after the end of the WebSocket a reader may take what came before for this long */
  readonly unreadPatienceMs?: number
}

/**
 * A byte stream inside a WebSocket: the payloads of its binary messages, whose borders mean nothing
 * (doc/reference/tunnel-protocol.md 2.2). Our own, because ws' createWebSocketStream costs several times more. Must be
 * made before the socket is open or in the same turn, or the first bytes are lost.
 *
 * For node:http2, which copies what it reads and what it writes: a large buffer of its own, of either way, is freed
 * as soon as it has passed.
 *
 * It closes with the WebSocket, also while nobody reads: node:http2 stops reading a connection that it is about to
 * leave, and would never get an 'end'.
 */
export class MessageDuplex extends Duplex {
  /** payload bytes received: grows while the other side lives */
  bytesRead = 0
  /** payload bytes handed to the WebSocket */
  bytesWritten = 0
  readonly #socket: MessageSocket
  readonly #connection: Duplex
  readonly #masking: Masking
  readonly #unreadPatienceMs: number
  readonly #partial = new PartialMessage()
  #paused = false
  #closing: NodeJS.Timeout | undefined

  constructor(socket: MessageSocket, options: MessageDuplexOptions) {
    super({ readableHighWaterMark: maxUnreadBytes, writableHighWaterMark: maxUnsentBytes })
    this.#socket = socket
    this.#connection = options.connection
    this.#masking = options.masking
    this.#unreadPatienceMs = options.unreadPatienceMs ?? defaultUnreadPatienceMs
    socket.binaryType = 'nodebuffer'
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    // ahead of ws, which may find a whole message in it
    if (!options.trusted) options.connection.prependListener('data', ({ length }: Buffer) => this.#arrived(length))
    socket.on('ping', ({ length }) => this.#partial.passed(length))
    socket.on('pong', ({ length }) => this.#partial.passed(length))
    socket.on('close', () => this.#onClose())
    socket.on('error', (error) => this.destroy(error))
  }

  /** What ws keeps of a message that is not whole is counted there from now on; without room the connection ends. */
  chargeTo(held: UnreadBytes): void {
    if (!this.destroyed && !this.#partial.chargeTo(held)) this.#refusePartial()
  }

  #arrived(bytes: number): void {
    if (!this.destroyed && !this.#partial.arrived(bytes)) this.#refusePartial()
  }

  /** The way of what had to wait: the listeners of 'data' have it when this returns. */
  override read(size?: number): Buffer | null {
    const bytes = super.read(size) as Buffer | null
    if (bytes && this.readableFlowing) freeBuffer(bytes)
    return bytes
  }

  #refusePartial(): void {
    const error = new KasError({ code: 'TOO_MUCH_UNREAD', limit: this.#partial.limit })
    if (this.#socket.readyState === open) this.#socket.close(messageTooBig, error.message)
    this.destroy(error)
  }

  override _read(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
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
    this.#partial.drop()
    if (this.#socket.readyState !== closed) this.#socket.terminate()
    done(error)
  }

  /** Waits only while much is unsent: a wait for each write would cost a turn of the event loop. */
  #send(pieces: readonly Buffer[], done: (error?: Error | null) => void): void {
    // 'close' brings its end: an error here would throw away what came before and is not read yet
    if (this.#socket.readyState !== open) {
      done()
      return
    }
    const bytes = lengthOf(pieces)
    this.bytesWritten += bytes
    let wait = false // it is never sent before this returns
    writeFrames(this.#connection, pieces, { masking: this.#masking, sent: () => wait && done() })
    wait = bytes > 0 && this.#connection.writableLength > maxUnsentBytes
    if (!wait) done()
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (!isBinary) {
      this.#socket.close(unsupportedData, 'text message')
      this.destroy(new Error('a text message came where only binary ones are allowed'))
      return
    }
    this.bytesRead += data.length
    this.#partial.taken(data.length)
    // a small one that waits would keep all that was read with it
    const alone = this.readableLength > 0 && data.length < data.buffer.byteLength / 4
    const room = this.push(alone ? Buffer.from(data) : data)
    if (this.readableLength === 0) freeBuffer(data) // its reader has it
    if (room) return
    this.#paused = true
    this.#socket.pause()
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
