import type { KasError } from '../../../lib/errors.ts'
import { noMetadata, type Outcome } from '../../../proto/call.ts'
import { encodeHttpResponse, type HttpResponseHeader } from '../../../proto/http-over-grpc.ts'
import { payloadHead } from '../../../proto/wire.ts'
import { SplitMessage } from '../../serve.ts'

/** Bytes that wait for their reader: from here on the API server's connection is not read. */
const maxWaitingBytes = 128 * 1024
/** Smaller chunks that wait leave together, up to this size: a copy costs less than a message. */
const copiedBytes = 4096

/**
 * Larger chunks are cut: with its heads (gRPC 5 bytes, ConnectRequest 6, HttpResponse 6) such a piece fills one DATA
 * frame of HTTP/2, of which Node makes 16 KiB whatever the setting, and its reader need not put it together.
 */
const maxPieceBytes = 16 * 1024 - 17

/** Field numbers in HttpResponse (wire-protocol 1.3). */
const dataField = 2
const upgradeDataField = 4

type Message = Uint8Array | SplitMessage

const end: IteratorResult<Message> = { value: undefined, done: true }

/** Where the bytes come from. */
export interface ResponseSource {
  pause(): void
  resume(): void
  /** the reader left */
  cancel(): void
}

/**
 * The messages of one answer, in the order of wire-protocol 1.3, written by the side that hears the API server and read
 * by the tunnel. They end where the answer ends or breaks; `done` says which.
 */
export class ResponseMessages implements AsyncIterableIterator<Message> {
  readonly done: Promise<Outcome>
  readonly #done = Promise.withResolvers<Outcome>()
  readonly #source: ResponseSource
  readonly #ready: Message[] = []
  #chunks: Uint8Array[] = []
  #waitingBytes = 0
  #paused = false
  #upgraded = false
  #outcome: Outcome | undefined
  #reader: PromiseWithResolvers<IteratorResult<Message>> | undefined

  constructor(source: ResponseSource) {
    this.#source = source
    this.done = this.#done.promise
  }

  header(header: HttpResponseHeader): void {
    if (this.#outcome) return
    this.#ready.push(encodeHttpResponse.header(header))
    if (header.statusCode === 101) {
      this.#upgraded = true
      this.#ready.push(encodeHttpResponse.trailer)
    }
    this.#wake()
  }

  /** A piece of the body, or of the upgraded connection. */
  data(chunk: Uint8Array): void {
    if (this.#outcome || chunk.length === 0) return
    this.#chunks.push(chunk)
    this.#waitingBytes += chunk.length
    if (this.#waitingBytes >= maxWaitingBytes && !this.#paused) {
      this.#paused = true
      this.#source.pause()
    }
    this.#wake()
  }

  end(): void {
    if (this.#outcome) return
    if (!this.#upgraded) {
      while (this.#chunks.length > 0) this.#take()
      this.#ready.push(encodeHttpResponse.trailer)
    }
    this.#settle({ trailers: noMetadata })
  }

  /** What came before is still read; no trailer follows, so that the truncation shows. */
  fail(error: KasError): void {
    if (!this.#outcome) this.#settle({ error, trailers: noMetadata })
  }

  next(): Promise<IteratorResult<Message>> {
    const message = this.#next()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#outcome) return Promise.resolve(end)
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  return(): Promise<IteratorResult<Message>> {
    this.#ready.length = 0
    this.#chunks = []
    if (!this.#outcome) this.#source.cancel()
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #settle(outcome: Outcome): void {
    this.#outcome = outcome
    this.#wake()
    this.#done.resolve(outcome)
  }

  #wake(): void {
    const reader = this.#reader
    if (!reader) return
    const message = this.#next()
    if (!message && !this.#outcome) return
    this.#reader = undefined
    reader.resolve(message ? { value: message, done: false } : end)
  }

  #next(): Message | undefined {
    if (this.#ready.length === 0 && this.#chunks.length > 0) this.#take()
    return this.#ready.shift()
  }

  /** Encodes the next chunk that waits, or the next small ones together. */
  #take(): void {
    let first = this.#chunks.shift() as Uint8Array
    if (first.length > maxPieceBytes) {
      this.#chunks.unshift(first.subarray(maxPieceBytes))
      first = first.subarray(0, maxPieceBytes)
    }
    let size = first.length
    if (size > copiedBytes) {
      this.#ready.push(new SplitMessage(payloadHead(this.#upgraded ? upgradeDataField : dataField, size), first))
    } else {
      const small = [first]
      for (let next = this.#chunks[0]; next && size + next.length <= copiedBytes; next = this.#chunks[0]) {
        small.push(next)
        size += next.length
        this.#chunks.shift()
      }
      const chunk = small.length === 1 ? first : Buffer.concat(small, size)
      this.#ready.push(this.#upgraded ? encodeHttpResponse.upgradeData(chunk) : encodeHttpResponse.data(chunk))
    }
    this.#waitingBytes -= size
    if (this.#paused && this.#waitingBytes < maxWaitingBytes / 2) {
      this.#paused = false
      this.#source.resume()
    }
  }
}
