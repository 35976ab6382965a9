import { Duplex } from 'node:stream'
import WebSocket from 'ws'
import { webSocketMessageBytes } from '../../proto/grpc/limits.ts'

/** ws may keep this much unsent; beyond it a write waits until it is flushed. */
const maxBufferedBytes = 256 * 1024

/**
 * The byte stream inside a WebSocket's binary messages, whose borders mean nothing (wire-protocol 2.2). Our own,
 * because ws' createWebSocketStream costs several times more. Make it before the socket is open, or in the same turn:
 * what comes first is the peer's SETTINGS.
 */
export class WebSocketDuplex extends Duplex {
  /** payload received so far */
  bytesRead = 0
  readonly #ws: WebSocket

  constructor(ws: WebSocket) {
    super({ allowHalfOpen: false, readableHighWaterMark: 256 * 1024, writableHighWaterMark: 256 * 1024 })
    this.#ws = ws
    ws.binaryType = 'nodebuffer'
    ws.on('message', (data, isBinary) => this.#onMessage(data as Buffer, isBinary))
    ws.on('error', (error) => this.destroy(error))
    ws.on('close', () => this.#onClose())
  }

  override _read(): void {
    if (this.#ws.isPaused) this.#ws.resume()
  }

  override _write(chunk: Buffer, _: string, done: (error?: Error | null) => void): void {
    this.#send(chunk, done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(Buffer.concat(chunks.map((each) => each.chunk)), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#ws.close(1000)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#ws.readyState !== WebSocket.CLOSED) this.#ws.terminate()
    done(error)
  }

  #send(bytes: Buffer, done: (error?: Error | null) => void): void {
    if (this.#ws.readyState !== WebSocket.OPEN) {
      done(new Error('the WebSocket is closed'))
      return
    }
    const options = { binary: true, compress: false }
    let at = 0
    for (; bytes.length - at > webSocketMessageBytes; at += webSocketMessageBytes) {
      this.#ws.send(bytes.subarray(at, at + webSocketMessageBytes), options)
    }
    const last = bytes.subarray(at)
    if (this.#ws.bufferedAmount > maxBufferedBytes) {
      this.#ws.send(last, options, (error) => done(error))
      return
    }
    this.#ws.send(last, options)
    done()
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (!isBinary) {
      this.destroy(new Error('kas sent a text message inside ws-tunnel'))
      return
    }
    this.bytesRead += data.length
    if (!this.push(data)) this.#ws.pause()
  }

  #onClose(): void {
    this.push(null)
    if (!this.writableFinished) this.end()
  }
}
