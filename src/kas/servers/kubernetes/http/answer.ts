import type { ServerResponse } from 'node:http'
import { KasError } from '../../../../lib/errors.ts'
import { http } from '../../../../lib/http.ts'
import type { ResponseHead } from '../response/response-head.ts'
import type { Connection } from './connection.ts'

/**
 * Bytes written at once on a crowded connection. With its framing a piece fits into the 16 KiB that node keeps for each
 * TLS connection. After a longer write node keeps up to 80 KiB as long as the connection lives.
 */
const pieceBytes = 15 * 1024

/** The answer to one request: the cluster's, or one of kas itself. */
export class Answer {
  readonly #response: ServerResponse
  readonly #connection: Pick<Connection, 'isOfCrowd'>
  readonly #isHead: boolean
  #resume: (() => void) | undefined
  #listensForDrain = false
  #headFlushed = false
  /** the client is no longer waited for */
  #isOver = false
  /** a piece of the body is partly written, or was cut */
  #isHalfWritten = false
  /** bytes of the body; undefined: unknown, or there is none */
  #expectedBytes: number | undefined
  #sentBytes = 0

  /** @param isHead - the answer has no body, whatever its length says */
  constructor(response: ServerResponse, connection: Pick<Connection, 'isOfCrowd'>, isHead: boolean) {
    this.#response = response
    this.#connection = connection
    this.#isHead = isHead
    response.on('error', ignore) // a write after the client left: the connection notices its end
  }

  /** True if a further message cannot follow the bytes that were sent. */
  get isHalfWritten(): boolean {
    return this.#isHalfWritten
  }

  /** bytes of the body */
  get sentBytes(): number {
    return this.#isHead ? 0 : this.#sentBytes
  }

  /** True if the answer ends with its call and its length is unknown. */
  get isOpen(): boolean {
    return this.#response.headersSent && this.#expectedBytes === undefined
  }

  /** Stops waiting for the client. */
  giveUp(): void {
    this.#isOver = true
    this.#resume?.()
  }

  /** Sends the head, as `Exchange.begin`. @param isLast - the connection closes after the answer */
  begin(code: number, head: ResponseHead, isLast: boolean): void {
    if (isLast) this.#response.shouldKeepAlive = false
    this.#response.writeHead(code, head.statusText ?? http.STATUS_CODES[code] ?? '', head.headers)
    const bodiless = this.#isHead || code === 204 || code === 304
    this.#expectedBytes = bodiless ? undefined : head.contentLength
    process.nextTick(flushHead, this)
  }

  /** Sends a chunk, as `Exchange.write`. */
  write(chunk: Uint8Array): Promise<void> | undefined {
    this.#headFlushed = true
    this.#sentBytes += chunk.length
    if (this.#expectedBytes !== undefined && this.#sentBytes > this.#expectedBytes) {
      throw invalid('the answer is longer than its Content-Length')
    }
    if (chunk.length === 0) return undefined
    if (chunk.length > pieceBytes && this.#connection.isOfCrowd) return this.#writePieces(chunk)
    if (this.#response.write(chunk) || this.#isOver) return undefined
    if (!this.#listensForDrain) this.#response.on('drain', () => this.#resume?.())
    this.#listensForDrain = true
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  /** Writes pieces, each after the one before has been sent. */
  async #writePieces(chunk: Uint8Array): Promise<void> {
    this.#isHalfWritten = true
    for (let at = 0; at < chunk.length && !this.#isOver; at += pieceBytes) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#resume = resolve
      this.#response.write(chunk.subarray(at, at + pieceBytes), () => resolve())
      await promise
    }
    this.#isHalfWritten = this.#isOver
  }

  /** @throws KasError INVALID_MESSAGE if less was written than announced */
  checkLength(): void {
    if (this.#expectedBytes !== undefined && this.#sentBytes < this.#expectedBytes) {
      throw invalid('the answer is shorter than its Content-Length')
    }
  }

  end(last?: string | Uint8Array): void {
    this.#headFlushed = true
    if (last === undefined) return void this.#response.end()
    this.#sentBytes += Buffer.byteLength(last)
    this.#response.end(last)
  }

  /** Sends the head of an answer of kas itself. */
  beginOwn(code: number, headers: string[], bytes: number, isLast: boolean): void {
    if (isLast) this.#response.shouldKeepAlive = false
    headers.push('Content-Length', String(bytes))
    this.#response.writeHead(code, http.STATUS_CODES[code] ?? '', headers) // a head that failed has left its text
    this.#headFlushed = true
  }

  /** @returns true: the client has taken all of it */
  async endInPieces(body: Uint8Array): Promise<boolean> {
    const response = this.#response
    this.#sentBytes = body.length
    await this.#writePieces(body)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#resume = resolve
    response.once('finish', resolve)
    response.end()
    if (!response.writableFinished && !this.#isOver) await promise
    return response.writableFinished
  }

  /** Sends the head at the end of the turn in which the answer began. */
  flush(): void {
    if (this.#headFlushed || this.#isOver) return
    this.#headFlushed = true
    this.#response.flushHeaders()
  }
}

function flushHead(answer: Answer): void {
  answer.flush()
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function ignore(): void {}
