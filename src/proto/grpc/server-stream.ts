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
/** 102, Processing: status of headers that come before the response's */
const interimStatus = 102

const noHeaders: readonly string[] = []

/**
 * Serves one call. Resolves with trailers: status OK. Throws: a KasError gives its status, any other error INTERNAL.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without trailers returns nothing
export type Handler = (stream: ServerStream) => Promise<Metadata | void>

/** Connection of a stream. */
export interface StreamSession {
  readonly limits: SessionLimits
  readonly window: StreamWindow
  readonly unpacker: Unpacker
  readonly quota: StreamQuota
  /** running calls */
  readonly streams: ReadonlySet<ServerStream>
  readonly destroyed: boolean
  /** error of its calls once the connection has ended */
  readonly loss: KasError
  /** resolves once the connection has ended, for any reason */
  readonly closed: Promise<void>
  chargeTo(unread: UnreadBytes): void
  /** sends GOAWAY: running calls go on */
  close(): void
  onFinished(stream: ServerStream, error: KasError | undefined): void
  onHandlerError(method: string, error: unknown): void
  onClosed(stream: ServerStream): void
}

/** One call, as its server uses it. */
export class ServerStream {
  /** `/package.Service/Method` */
  readonly method: string
  readonly session: StreamSession
  /** ends at the caller's half-close; throws a KasError if the call ends before */
  readonly messages: Inbox
  readonly #http2: ServerHttp2Stream
  /** raw headers until `metadata` is read */
  #rawHeaders: readonly string[]
  readonly #outbox: Outbox
  readonly #trailersInBody: boolean
  #metadata: Metadata | undefined
  #controller: AbortController | undefined
  /** controller of `whileOpen` */
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
    const encoding = headers['grpc-encoding'] as string | undefined // a reference to the headers would keep all of them
    const deframer = new Deframer(maxBytes, () => encoding)
    this.messages = new Inbox(
      { stream: http2, deframer, window: session.window, unpacker: session.unpacker },
      (error) => {
        this.#fail(error)
        this.#finish(error)
        this.#onFault?.(error)
      },
      () => undefined, // a server that stops reading ends the call by its status
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

  /** Drops the caller's metadata, once it is read: it could be kept as long as the stream. */
  forgetMetadata(): void {
    this.#metadata = noMetadata
    this.#rawHeaders = noHeaders
  }

  /** Number of messages so far. */
  get counts(): { received: number; sent: number } {
    return { received: this.messages.received, sent: this.#outbox.sent }
  }

  /** Aborts with a KasError if the caller cancels, its deadline passes or the connection is lost. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#failure) this.#controller.abort(this.#failure)
    }
    return this.#controller.signal
  }

  /** Runs `work` with a signal like `signal`, which is dropped afterwards: a stream that waits for long needs none. */
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

  /** Lowers the bound of messages, both ways. Must be called before the next message comes. */
  limit(maxMessageBytes: number): void {
    this.messages.limit(maxMessageBytes)
    this.#outbox.limit(maxMessageBytes)
  }

  /** Counts unread and unsent bytes there from now on; undefined: nowhere. */
  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    this.messages.chargeTo(unread, callerKey)
    this.#outbox.chargeTo(unread)
  }

  /** See `Inbox.payBy`. */
  payBy(callerKey: string | undefined): void {
    this.messages.payBy(callerKey)
  }

  /** See `Inbox.receives`. */
  receives(isSo: boolean): void {
    this.messages.receives(isSo)
  }

  /**
   * Calls `listener` when the stream ends by a fault in its received data, also while it is not read; undefined: no
   * listener.
   */
  onFault(listener: ((error: KasError) => void) | undefined): void {
    this.#onFault = listener
  }

  /** Calls `listener` once, when all sent bytes have left for the connection. */
  onSent(listener: () => void): void {
    this.#outbox.onSent(listener)
  }

  /** Calls `listener` once nothing of the stream is kept here, which may be long after its handler is done. */
  onClosed(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#onClosed = listener
  }

  /**
   * Sends headers ahead of the response's own: HTTP/2's informational ones. Once the response has begun it does
   * nothing.
   */
  sendInterim(metadata: Metadata): void {
    if (this.#http2.destroyed || this.#http2.closed || this.#http2.headersSent) return
    const headers: OutgoingHttpHeaders = { ':status': interimStatus }
    writeMetadata(headers, metadata)
    this.#http2.additionalHeaders(headers)
  }

  /** Adds trailers to the end of the call, for any outcome. Trailers of the handler replace them by name. */
  addTrailers(metadata: Metadata): void {
    this.#trailers = this.#trailers ? { ...this.#trailers, ...metadata } : metadata
  }

  /**
   * Sends response headers, at most once and before the first message. Without this call they go with the first
   * message.
   */
  sendMetadata(metadata: Metadata): void {
    if (this.#http2.headersSent) throw new Error('sendMetadata after the first message')
    this.#respond(metadata)
  }

  /**
   * @param head - beginning of the message, so that its payload need not be copied behind it
   * @returns undefined: the caller may go on; else a promise of room. Messages to a caller that left are dropped
   * @throws KasError MESSAGE_TOO_LARGE
   */
  send(payload: Uint8Array, head?: Uint8Array): Promise<void> | undefined {
    if (this.#finished || this.#http2.destroyed) return undefined
    if (!this.#http2.headersSent) this.#respond()
    return this.#outbox.send(payload, head)
  }

  /** Runs the handler and ends the call with its result or error. */
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

  /** Stops a caller that still sends, because its messages are not needed any more. */
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
    else if (!this.messages.ended) this.messages.fail(this.#closeError()) // a reader may still wait for a message
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
