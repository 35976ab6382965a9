import { noMetadata, type Outcome } from '../../../call/call.ts'
import { Code, errorText, KasError } from '../../../lib/errors.ts'
import type { HttpResponseHeader } from '../../../proto/http/http-message.ts'
import { encodeHttpResponse } from '../../../proto/http/http-over-grpc.ts'
import { payloadHead } from '../../../proto/wire/wire.ts'
import { SplitMessage } from '../../tunnels/serve.ts'

/** Unread bytes from which agentk stops reading the API server's connection. */
const maxWaitingBytes = 64 * 1024
/** Bytes that each piece counts in addition, since a server may write one byte at a time. */
const pieceBytes = 128
/** Pieces are copied into one message if their average size is at most this. Bytes */
const copiedBytes = 4096
/** Unread bytes from which more is likely to follow: they are sent together, at the end of the event loop's turn. */
const gatheredBytes = 16 * 1024
/**
 * Limit of one message's payload. With its heads (gRPC 5 bytes, ConnectRequest 6, HttpResponse 6), the message fills
 * one DATA frame of HTTP/2, and its reader need not join frames. Node makes frames of 16 KiB whatever the setting.
 */
const maxPayloadBytes = 16 * 1024 - 17

/** Field numbers in HttpResponse (doc/reference/tunnel-protocol.md 1.3). */
const dataField = 2
const upgradeDataField = 4

type Message = Uint8Array | SplitMessage

const end: IteratorResult<Message> = { value: undefined, done: true }

/** Source of the bytes. */
export interface ResponseSource {
  pause(): void
  resume(): void
  /** called when the reader leaves */
  cancel(): void
}

/**
 * Messages of one answer, in the order of doc/reference/tunnel-protocol.md 1.3. The API server's answer writes them,
 * the tunnel reads them. They end when the answer ends or breaks; `done` says which.
 */
export class ResponseMessages implements AsyncIterableIterator<Message> {
  readonly done: Promise<Outcome>
  readonly #done = Promise.withResolvers<Outcome>()
  readonly #source: ResponseSource
  readonly #ready: Message[] = []
  #chunks: Uint8Array[] = []
  #waitingBytes = 0
  #paused = false
  #gathering = false
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

  /** Adds a piece of the body, or of the upgraded connection. */
  data(chunk: Uint8Array): void {
    if (this.#outcome || chunk.length === 0) return
    this.#chunks.push(chunk)
    this.#waitingBytes += chunk.length + pieceBytes
    if (this.#waitingBytes >= maxWaitingBytes && !this.#paused) {
      this.#paused = true
      this.#source.pause()
    }
    if (this.#waitingBytes < gatheredBytes) this.#wake()
    else if (!this.#gathering) {
      this.#gathering = true
      setImmediate(() => {
        this.#gathering = false
        this.#wake()
      })
    }
  }

  end(): void {
    if (this.#outcome) return
    if (!this.#upgraded) {
      while (this.#chunks.length > 0) this.#take()
      this.#ready.push(encodeHttpResponse.trailer)
    }
    this.#settle({ trailers: noMetadata })
  }

  /** Ends the messages with an error. Earlier ones are still read; no trailer follows, so that the truncation shows. */
  fail(error: unknown): void {
    if (!this.#outcome) this.#settle({ error: apiError(error), trailers: noMetadata })
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

  /** Encodes waiting bytes, up to `maxPayloadBytes`. */
  #take(): void {
    const pieces: Uint8Array[] = []
    let size = 0
    for (let next = this.#chunks[0]; next && size < maxPayloadBytes; next = this.#chunks[0]) {
      const room = maxPayloadBytes - size
      if (next.length > room) this.#chunks[0] = next.subarray(room)
      else {
        this.#chunks.shift()
        this.#waitingBytes -= pieceBytes
      }
      pieces.push(next.length > room ? next.subarray(0, room) : next)
      size += Math.min(next.length, room)
    }
    this.#ready.push(this.#encode(pieces, size))
    this.#waitingBytes -= size
    if (this.#paused && this.#waitingBytes < maxWaitingBytes / 2) {
      this.#paused = false
      this.#source.resume()
    }
  }

  #encode(pieces: readonly Uint8Array[], size: number): Message {
    const split = size / pieces.length > copiedBytes
    if (split) return new SplitMessage(payloadHead(this.#upgraded ? upgradeDataField : dataField, size), pieces, size)
    const chunk = pieces.length === 1 ? (pieces[0] as Uint8Array) : Buffer.concat(pieces, size)
    return this.#upgraded ? encodeHttpResponse.upgradeData(chunk) : encodeHttpResponse.data(chunk)
  }
}

/**
 * Converts a failure between agentk and the API server to upstream's status. The call's own errors keep their code.
 * All others are Unavailable, with a prefix that names the failed hop (doc/reference/tunnel-protocol.md 1.4).
 */
export function apiError(error: unknown): KasError {
  if (error instanceof KasError && error.code !== 'UNREACHABLE') return error
  const name = error instanceof Error ? error.name : ''
  const grpc =
    name === 'AbortError' ? Code.CANCELLED : name === 'TimeoutError' ? Code.DEADLINE_EXCEEDED : Code.UNAVAILABLE
  return new KasError({ code: 'STATUS', grpc, message: `gRPC -> HTTP: ${errorText(error)}` }, { cause: error })
}
