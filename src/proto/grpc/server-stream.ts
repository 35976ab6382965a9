import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { type Metadata, noMetadata } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import { bodyTrailersKey, bodyTrailersValue, encodeTrailers } from './body-trailers.ts'
import { Deframer } from './frames.ts'
import { readMetadata, readTimeout, writeMetadata, writeStatus } from './headers.ts'
import { Inbox } from './inbox.ts'
import type { SessionLimits } from './limits.ts'
import { Outbox } from './outbox.ts'
import type { StreamQuota } from './stream-quota.ts'
import type { StreamWindow } from './stream-window.ts'
import type { Unpacker } from './unpacker.ts'
import type { UnreadBytes } from './unread-bytes.ts'

const noError = 0
/** 102, Processing: the status of headers that come before the response's */
const interimStatus = 102

const noHeaders: readonly string[] = []

/**
 * Serves one call. Resolves with trailers: status OK. Throws: a KasError gives its status, anything else INTERNAL.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without trailers returns nothing
export type Handler = (stream: ServerStream) => Promise<Metadata | void>

/** The connection of a stream. */
export interface StreamSession {
  readonly limits: SessionLimits
  readonly window: StreamWindow
  readonly unpacker: Unpacker
  readonly quota: StreamQuota
  /** running calls */
  readonly streams: ReadonlySet<ServerStream>
  readonly destroyed: boolean
  /** why its calls ended with it */
  readonly loss: KasError
  /** it has ended, for whatever reason */
  readonly closed: Promise<void>
  chargeTo(unread: UnreadBytes): void
  /** GOAWAY: running calls go on */
  close(): void
  onFinished(stream: ServerStream, error: KasError | undefined): void
  onHandlerError(method: string, error: unknown): void
  onClosed(stream: ServerStream): void
}

/** One call, seen from its server. */
export class ServerStream {
  /** `/package.Service/Method` */
  readonly method: string
  readonly session: StreamSession
  /** ends at the caller's half-close, throws a KasError when the call ends before */
  readonly messages: Inbox
  readonly #http2: ServerHttp2Stream
  /** until they are read */
  #rawHeaders: readonly string[]
  readonly #outbox: Outbox
  readonly #trailersInBody: boolean
  #metadata: Metadata | undefined
  #controller: AbortController | undefined
  /** of `whileOpen` */
  #working: AbortController | undefined
  #failure: KasError | undefined
  #finished = false
  #deadline: NodeJS.Timeout | undefined
  #trailers: Metadata | undefined
  #isClosed = false
  #onClosed: (() => void) | undefined
  #onFault: ((error: KasError) => void) | undefined

  constructor(
    session: StreamSession,
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ) {
    this.session = session
    this.method = headers[':path'] as string
    this.#http2 = http2
    this.#rawHeaders = rawHeaders
    const maxBytes = session.limits.maxMessageBytes
    this.#outbox = new Outbox(http2, maxBytes, (bytes) => this.messages.countUnsent(bytes))
    this.#trailersInBody = headers[bodyTrailersKey] === bodyTrailersValue
    const encoding = headers['grpc-encoding'] as string | undefined // alone, for the headers would be kept
    const deframer = new Deframer(maxBytes, () => encoding)
    this.messages = new Inbox(
      { stream: http2, deframer, window: session.window, unpacker: session.unpacker },
      (error) => {
        this.#fail(error)
        this.#finish(error)
        this.#onFault?.(error)
      },
      () => undefined, // a server that reads no further ends the call by its status
    )
    if (session.limits.readAhead) this.messages.begin()
    http2.on('end', () => {
      // a lost connection ends its streams too
      if (!http2.aborted && !http2.destroyed) this.messages.end()
    })
    http2.on('close', () => this.#onClose())
    const timeoutMs = readTimeout(headers['grpc-timeout'])
    if (timeoutMs !== undefined) this.#deadline = setTimeout(() => this.#onDeadline(), Math.min(timeoutMs, 2 ** 31 - 1))
  }

  get metadata(): Metadata {
    if (!this.#metadata) {
      this.#metadata = readMetadata(this.#rawHeaders)
      this.#rawHeaders = noHeaders
    }
    return this.#metadata
  }

  /** What the caller said of itself has been read, and is not kept: it may be as long as the stream is. */
  forgetMetadata(): void {
    this.#metadata = noMetadata
    this.#rawHeaders = noHeaders
  }

  /** Messages so far. */
  get counts(): { received: number; sent: number } {
    return { received: this.messages.received, sent: this.#outbox.sent }
  }

  /** Aborts with a KasError when the caller cancels, its deadline passes or the connection is lost. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#failure) this.#controller.abort(this.#failure)
    }
    return this.#controller.signal
  }

  /** Runs `work` with a signal as `signal`, of which nothing stays: a stream that waits for long needs none. */
  async whileOpen<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController()
    if (this.#failure) controller.abort(this.#failure)
    this.#working = controller
    try {
      return await work(controller.signal)
    } finally {
      this.#working = undefined
    }
  }

  /** No longer message is taken or sent. To be called before the next one comes. */
  limit(maxMessageBytes: number): void {
    this.messages.limit(maxMessageBytes)
    this.#outbox.limit(maxMessageBytes)
  }

  /** What comes and is not read, and what is not taken, is counted there; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    this.messages.chargeTo(unread, callerKey)
    this.#outbox.chargeTo(unread)
  }

  /** As `Inbox.payBy`. */
  payBy(callerKey: string | undefined): void {
    this.messages.payBy(callerKey)
  }

  /** As `Inbox.receives`. */
  receives(isSo: boolean): void {
    this.messages.receives(isSo)
  }

  /** Calls `listener` when the stream ends by what it has received, whether anybody reads or not; undefined: no more. */
  onFault(listener: ((error: KasError) => void) | undefined): void {
    this.#onFault = listener
  }

  /** Calls `listener` once, when nothing that was sent waits for the connection. */
  onSent(listener: () => void): void {
    this.#outbox.onSent(listener)
  }

  /** Calls `listener` once nothing of the stream is left here, which may be long after its handler is done. */
  onClosed(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#onClosed = listener
  }

  /** Headers ahead of the response's own: HTTP/2's informational ones. Nothing after the response has begun. */
  sendInterim(metadata: Metadata): void {
    if (this.#http2.destroyed || this.#http2.closed || this.#http2.headersSent) return
    const headers: OutgoingHttpHeaders = { ':status': interimStatus }
    writeMetadata(headers, metadata)
    this.#http2.additionalHeaders(headers)
  }

  /** Trailers that go with the end of the call, whatever it is; those of the handler's own replace them by name. */
  addTrailers(metadata: Metadata): void {
    this.#trailers = this.#trailers ? { ...this.#trailers, ...metadata } : metadata
  }

  /** Response headers, at most once and before the first message; without it they go with that. */
  sendMetadata(metadata: Metadata): void {
    if (this.#http2.headersSent) throw new Error('sendMetadata after the first message')
    this.#respond(metadata)
  }

  /**
   * @param head - the beginning of the message, when its payload should not be copied behind it
   * @returns undefined to go on, or a promise of room; messages to a caller that left vanish
   * @throws KasError MESSAGE_TOO_LARGE
   */
  send(payload: Uint8Array, head?: Uint8Array): Promise<void> | undefined {
    if (this.#finished || this.#http2.destroyed) return undefined
    if (!this.#http2.headersSent) this.#respond()
    return this.#outbox.send(payload, head)
  }

  /** Runs the handler and ends the call with what it returns or throws. */
  run(handler: Handler): void {
    try {
      handler(this).then(
        (trailers) => this.#served(trailers ?? undefined),
        (error: unknown) => this.#failed(error),
      )
    } catch (error) {
      this.#failed(error)
    }
  }

  #served(trailers: Metadata | undefined): void {
    try {
      this.#finish(undefined, trailers)
      this.messages.leave()
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    const failure = KasError.from(error)
    if (failure.code === 'INTERNAL') this.session.onHandlerError(this.method, error)
    this.#finish(failure)
    this.messages.leave()
  }

  #respond(metadata?: Metadata): void {
    if (this.#http2.destroyed || this.#http2.closed) return
    const headers: OutgoingHttpHeaders = { ':status': 200, 'content-type': 'application/grpc+proto' }
    if (metadata) writeMetadata(headers, metadata)
    this.#http2.respond(headers, { waitForTrailers: !this.#trailersInBody })
  }

  #finish(error: KasError | undefined, trailers?: Metadata): void {
    if (this.#finished) return
    this.#finished = true
    clearTimeout(this.#deadline)
    this.session.onFinished(this, error)
    const http2 = this.#http2
    if (http2.destroyed || http2.closed) return
    const end: OutgoingHttpHeaders = {}
    writeStatus(end, error)
    if (this.#trailers) writeMetadata(end, this.#trailers)
    if (trailers) writeMetadata(end, trailers)
    if (!http2.headersSent) {
      http2.respond({ ':status': 200, 'content-type': 'application/grpc+proto', ...end }, { endStream: true })
      this.#hangUp()
      return
    }
    if (this.#trailersInBody) {
      this.#outbox.sendTrailers(encodeTrailers(end))
      http2.once('finish', () => this.#hangUp())
    } else {
      http2.once('wantTrailers', () => {
        http2.sendTrailers(end)
        this.#hangUp()
      })
    }
    http2.end()
  }

  /** A caller that still sends is stopped; what it sent is not wanted any more. */
  #hangUp(): void {
    if (this.#http2.readableEnded) return
    this.#http2.resume()
    setImmediate(() => {
      if (!this.#http2.destroyed && !this.#http2.readableEnded) this.#http2.close(noError)
    })
  }

  #onDeadline(): void {
    const error = new KasError({ code: 'DEADLINE_EXCEEDED' })
    this.#fail(error)
    this.#finish(error)
  }

  #onClose(): void {
    clearTimeout(this.#deadline)
    this.messages.close()
    this.#outbox.close()
    const isOver = this.#finished && this.#http2.readableEnded
    if (!isOver) this.#fail(this.#closeError())
    else if (!this.messages.ended) this.messages.fail(this.#closeError()) // somebody may still wait for one
    this.#isClosed = true
    this.session.onClosed(this)
    this.#onClosed?.()
  }

  #closeError(): KasError {
    if (this.session.destroyed) return this.session.loss
    return new KasError({ code: 'CANCELLED', detail: 'the caller cancelled' })
  }

  #fail(error: KasError): void {
    this.#failure ??= error
    this.messages.fail(error)
    this.#controller?.abort(error)
    this.#working?.abort(error)
  }
}
