import type { KasError } from '../../../lib/errors.ts'
import { noMetadata, type Outcome } from '../../../proto/call.ts'
import { encodeHttpResponse, type HttpResponseHeader } from '../../../proto/http-over-grpc.ts'

/** Bytes that wait for their reader: from here on the API server's connection is not read. */
const maxWaitingBytes = 128 * 1024
/** Chunks that wait leave together, in messages of about this size. */
const maxDataBytes = 64 * 1024

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

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
export class ResponseMessages implements AsyncIterableIterator<Uint8Array> {
  readonly done: Promise<Outcome>
  readonly #done = Promise.withResolvers<Outcome>()
  readonly #source: ResponseSource
  readonly #ready: Uint8Array[] = []
  #chunks: Uint8Array[] = []
  #waitingBytes = 0
  #paused = false
  #upgraded = false
  #outcome: Outcome | undefined
  #reader: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined

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
      this.#take(Number.POSITIVE_INFINITY)
      this.#ready.push(encodeHttpResponse.trailer)
    }
    this.#settle({ trailers: noMetadata })
  }

  /** What came before is still read; no trailer follows, so that the truncation shows. */
  fail(error: KasError): void {
    if (!this.#outcome) this.#settle({ error, trailers: noMetadata })
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const message = this.#next()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#outcome) return Promise.resolve(end)
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  return(): Promise<IteratorResult<Uint8Array>> {
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

  #next(): Uint8Array | undefined {
    if (this.#ready.length === 0 && this.#chunks.length > 0) this.#take(maxDataBytes)
    return this.#ready.shift()
  }

  /** Encodes chunks that wait, about `bytes` of them, as one message. */
  #take(bytes: number): void {
    let size = 0
    let count = 0
    while (count < this.#chunks.length && size < bytes) size += (this.#chunks[count++] as Uint8Array).length
    if (count === 0) return
    const chunks = this.#chunks.splice(0, count)
    const chunk = count === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks, size)
    this.#ready.push(this.#upgraded ? encodeHttpResponse.upgradeData(chunk) : encodeHttpResponse.data(chunk))
    this.#waitingBytes -= size
    if (this.#paused && this.#waitingBytes < maxWaitingBytes / 2) {
      this.#paused = false
      this.#source.resume()
    }
  }
}
