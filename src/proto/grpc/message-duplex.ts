import { Duplex } from 'node:stream'
import { webSocketMessageBytes } from './limits.ts'

/** What is needed of a WebSocket; that of package ws fits. */
export interface MessageSocket {
  readonly bufferedAmount: number
  binaryType: string
  send(data: Uint8Array, options: { binary: true; compress: false }, sent: (error?: Error) => void): void
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown
  on(event: 'close', listener: (code: number, reason: Buffer) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  pause(): void
  resume(): void
  close(code: number, reason?: string): void
  terminate(): void
}

const normalClosure = 1000
const unsupportedData = 1003

/**
 * A byte stream inside a WebSocket: the payloads of its binary messages, whose borders mean nothing
 * (wire-protocol 2.2). Must be made in the same tick as the socket opens, or the first bytes are lost.
 */
export class MessageDuplex extends Duplex {
  /** payload bytes received: grows while the other side lives */
  bytesRead = 0
  /** payload bytes handed to the WebSocket */
  bytesWritten = 0
  readonly #socket: MessageSocket
  #closed = false

  constructor(socket: MessageSocket) {
    super()
    this.#socket = socket
    socket.binaryType = 'nodebuffer'
    socket.on('message', (data, isBinary) => {
      if (!isBinary) {
        socket.close(unsupportedData, 'text message')
        this.destroy(new Error('a text message came where only binary ones are allowed'))
        return
      }
      this.bytesRead += data.length
      if (!this.push(data)) socket.pause()
    })
    socket.on('close', () => {
      this.#closed = true
      this.push(null)
      this.destroy()
    })
    socket.on('error', (error) => this.destroy(error))
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(chunk, done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#closed) this.#socket.close(normalClosure)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#closed) this.#socket.terminate()
    done(error)
  }

  #send(bytes: Buffer, done: (error?: Error | null) => void): void {
    this.bytesWritten += bytes.length
    const options = { binary: true, compress: false } as const
    let at = 0
    for (; bytes.length - at > webSocketMessageBytes; at += webSocketMessageBytes) {
      this.#socket.send(bytes.subarray(at, at + webSocketMessageBytes), options, toldByLast)
    }
    this.#socket.send(bytes.subarray(at), options, done)
  }
}

/** A write that fails fails with its last message. */
function toldByLast(): void {}
