import type { ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { addAbortSignal } from 'node:stream'
import { type Metadata, noMetadata, type Outcome } from '../../call/call.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { decodeTrailers, parsedTrailers } from './body-trailers.ts'
import { Deframer } from './frames.ts'
import { httpStatus, readMetadata, readStatus, resetStatus } from './headers.ts'
import { Inbox } from './inbox.ts'
import type { SessionLimits } from './limits.ts'
import { Outbox } from './outbox.ts'
import type { StreamWindow } from './stream-window.ts'
import type { Unpacker } from './unpacker.ts'
import type { UnreadBytes } from './unread-bytes.ts'

const refusedCode = 7

/** The part of a session that its streams use. */
interface Connection {
  readonly window: StreamWindow
  readonly unpacker: Unpacker
  /** trailers may come in the body */
  readonly bodyTrailers: boolean
  isLost(): boolean
  onClosed(): void
}

/** One call, as its client uses it. */
export class ClientStream {
  /** the server's headers; undefined: the call ended before they came. Never rejects. */
  readonly metadata: Promise<Metadata | undefined>
  /** outcome of the call. Never rejects. */
  readonly done: Promise<Outcome>
  /** received messages, which fail with the call; `messages` is for readers that do not need its end */
  readonly inbox: Inbox
  readonly #http2: ClientHttp2Stream
  readonly #connection: Connection
  readonly #outbox: Outbox
  readonly #metadata = Promise.withResolvers<Metadata | undefined>()
  readonly #done = Promise.withResolvers<Outcome>()
  #encoding: string | undefined
  #trailers: { parsed: IncomingHttpHeaders; raw: readonly string[] } | undefined
  #outcome: Outcome | undefined
  #unbind: (() => void) | undefined
  #isClosed = false
  #wasReset = false
  #closedListener: (() => void) | undefined

  constructor(http2: ClientHttp2Stream, limits: SessionLimits, connection: Connection) {
    this.#http2 = http2
    this.#connection = connection
    this.metadata = this.#metadata.promise
    this.done = this.#done.promise
    this.#outbox = new Outbox(http2, limits.maxMessageBytes, (bytes) => this.inbox.countUnsent(bytes))
    const deframer = new Deframer(
      limits.maxMessageBytes,
      () => this.#encoding,
      connection.bodyTrailers ? (bytes) => this.#onBodyTrailers(bytes) : undefined,
    )
    this.inbox = new Inbox(
      { stream: http2, deframer, window: connection.window, unpacker: connection.unpacker },
      (error) => this.cancel(error),
      () => this.cancel(new KasError({ code: 'CANCELLED', detail: 'the reader left' })),
    )
    this.inbox.begin() // also without a reader: the end of the call follows its messages
    http2.on('response', (headers, _flags, raw: readonly string[]) => this.#onResponse(headers, raw))
    http2.on('trailers', (parsed, _flags, raw: readonly string[]) => {
      this.#trailers = { parsed, raw }
    })
    http2.on('end', () => this.#onEnd())
    http2.on('error', () => undefined) // 'close' has its code
    http2.on('close', () => this.#onClose())
  }

  /** Ends with the reply, also with a failed one: only `done` has the outcome. */
  get messages(): AsyncIterable<Uint8Array> {
    return { [Symbol.asyncIterator]: () => untilFailed(this.inbox) }
  }

  /** True if the other side has ended the call without a status. */
  get wasReset(): boolean {
    return this.#wasReset
  }

  /** Bytes that wait for the connection. */
  get unsentBytes(): number {
    return this.#outbox.unsentBytes
  }

  /** Lowers the bound of messages, both ways. Must be called before the next message comes. */
  limit(maxMessageBytes: number): void {
    this.inbox.limit(maxMessageBytes)
    this.#outbox.limit(maxMessageBytes)
  }

  /** Counts unread and unsent bytes there from now on; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    this.inbox.chargeTo(unread, callerKey)
    this.#outbox.chargeTo(unread)
  }

  /** See `Inbox.receives`. */
  receives(isSo: boolean): void {
    this.inbox.receives(isSo)
  }

  /** Calls `listener` once nothing of the stream is kept here, which may be after `done`. */
  onClosed(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#closedListener = listener
  }

  /** Cancels the call if `signal` aborts or the time is over. */
  bind(signal: AbortSignal | undefined, timeoutMs: number | undefined): void {
    const onAbort = () => this.cancel(KasError.from(signal?.reason))
    signal?.addEventListener('abort', onAbort, { once: true })
    const onDeadline = () => this.cancel(new KasError({ code: 'DEADLINE_EXCEEDED' }))
    const timer = timeoutMs === undefined ? undefined : setTimeout(onDeadline, Math.min(timeoutMs, 2 ** 31 - 1))
    this.#unbind = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /**
   * @param head - beginning of the message, so that its payload need not be copied behind it
   * @param rest - pieces of the same message that follow `payload`
   * @returns undefined: the caller may go on; else a promise of room
   * @throws KasError MESSAGE_TOO_LARGE
   */
  send(payload: Uint8Array, head?: Uint8Array, rest?: readonly Uint8Array[]): Promise<void> | undefined {
    return this.#outbox.send(payload, head, rest)
  }

  /** Half-closes: no more messages from here. */
  end(): void {
    if (this.#http2.destroyed || this.#http2.writableEnded) return
    this.#outbox.cork()
    this.#http2.end()
  }

  cancel(reason: KasError = new KasError({ code: 'CANCELLED' })): void {
    this.#settle({ error: reason, trailers: noMetadata })
    this.inbox.discard()
    this.#reset()
  }

  #onResponse(headers: IncomingHttpHeaders, raw: readonly string[]): void {
    const status = Number(headers[':status'])
    this.#encoding = headers['grpc-encoding'] as string | undefined
    if (headers['grpc-status'] !== undefined)
      this.#trailers = { parsed: headers, raw } // a trailers-only answer
    else if (status !== 200 || !/^application\/grpc(\+|;|$)/.test(headers['content-type'] ?? '')) {
      this.cancel(status === 200 ? unknownContent(headers['content-type']) : httpStatus(status))
    } else this.#metadata.resolve(readMetadata(raw))
  }

  #onBodyTrailers(bytes: Uint8Array): void {
    const raw = decodeTrailers(bytes)
    this.#trailers = { parsed: parsedTrailers(raw), raw }
  }

  #onEnd(): void {
    if (!this.#trailers) return // a reset: see 'close'
    this.inbox.end()
    const error = this.inbox.failed
      ? new KasError({ code: 'INVALID_MESSAGE', detail: 'the stream ended inside a message' })
      : readStatus(this.#trailers.parsed)
    this.#settle({ error, trailers: readMetadata(this.#trailers.raw) })
    // the reply is complete: the server does not need messages that are still unsent
    if (!this.#http2.writableEnded) this.#reset()
  }

  #onClose(): void {
    this.inbox.close()
    this.#outbox.close()
    this.#connection.onClosed()
    this.#isClosed = true
    this.#closedListener?.()
    if (this.#outcome) return
    const code = this.#http2.rstCode
    const refused = code === refusedCode || this.#http2.id === undefined
    this.#wasReset = !refused && !this.#connection.isLost()
    const error = this.#wasReset
      ? resetStatus(code ?? 0)
      : new KasError({ code: 'TUNNEL_LOST', delivery: refused ? 'none' : 'maybe' })
    this.#settle({ error, trailers: noMetadata })
  }

  /** Sends CANCEL at once: `http2.close` would half-close the stream first, and a cut body would seem complete. */
  #reset(): void {
    if (!this.#http2.destroyed) addAbortSignal(aborted, this.#http2)
  }

  #settle(outcome: Outcome): void {
    if (this.#outcome) return
    this.#outcome = outcome
    this.#unbind?.()
    this.#metadata.resolve(undefined)
    if (outcome.error) this.inbox.fail(outcome.error)
    this.#done.resolve(outcome)
  }
}

const aborted = AbortSignal.abort()

function unknownContent(contentType: string | undefined): KasError {
  const message = `unexpected content-type "${contentType ?? ''}"`
  return new KasError({ code: 'STATUS', grpc: Code.UNKNOWN, message })
}

/** Returns an iterator that ends when the inbox fails. */
function untilFailed(inbox: Inbox): AsyncIterator<Uint8Array> {
  const end: IteratorResult<Uint8Array> = { value: undefined, done: true }
  return { next: () => inbox.next().catch(() => end), return: () => inbox.return() }
}
