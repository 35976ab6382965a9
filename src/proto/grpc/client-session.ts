import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2'
import type { Duplex } from 'node:stream'
import type { Metadata } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import { bodyTrailersKey, bodyTrailersValue } from './body-trailers.ts'
import { ClientStream } from './client-stream.ts'
import { readMetadata, writeMetadata, writeTimeout } from './headers.ts'
import { defaultLimits, http2Settings, maxSessionMemoryMb, type SessionLimits } from './limits.ts'
import { ping } from './ping.ts'
import { maxRequestMetadataBytes } from './sendable.ts'
import { StreamWindow } from './stream-window.ts'
import { Unpacker } from './unpacker.ts'
import type { UnreadBytes } from './unread-bytes.ts'
import { whenClosed } from './when-closed.ts'
import type { WindowBudget } from './window-budget.ts'

export type { ClientStream } from './client-stream.ts'

export interface ClientSessionOptions {
  /** `host:port`, sent as `:authority` */
  readonly authority: string
  readonly scheme: 'http' | 'https'
  readonly userAgent?: string
  readonly limits?: Partial<SessionLimits>
  /** true: trailers come in the body; only if the other side is this project, which supports it */
  readonly bodyTrailers?: boolean
  /** budget of wide windows; absent: no window is wide */
  readonly windows?: WindowBudget | undefined
  /** the connection itself failed; its calls fail on their own */
  readonly onError?: (error: unknown) => void
}

export interface OpenOptions {
  /** path of the method: `/package.Service/Method` */
  readonly method: string
  readonly metadata?: Metadata
  /** cancels the call */
  readonly signal?: AbortSignal
  /** called for headers that come before the response's own */
  readonly onInterim?: (metadata: Metadata) => void
  /** counts unread bytes */
  readonly unread?: UnreadBytes | undefined
  /** caller of the call, in `unread`; absent: its owner */
  readonly callerKey?: string | undefined
  /** deadline, sent to the server and applied here */
  readonly timeoutMs?: number
}

/** One HTTP/2 connection, as its client uses it. */
export class ClientSession {
  readonly limits: SessionLimits
  /** resolves once the connection has ended, for any reason */
  readonly closed: Promise<void>
  readonly #session: ClientHttp2Session
  readonly #duplex: Duplex & { bytesRead?: number }
  readonly #base: OutgoingHttpHeaders
  readonly #bodyTrailers: boolean
  readonly #window: StreamWindow
  readonly #unpacker: Unpacker
  readonly #streams = new Set<ClientStream>()
  readonly #onDraining: (() => void)[] = []
  #draining = false

  /** Takes over a duplex, connected or about to be; the caller must not use it any more. */
  static over(duplex: Duplex, options: ClientSessionOptions): ClientSession {
    return new ClientSession(duplex, options)
  }

  constructor(duplex: Duplex, options: ClientSessionOptions) {
    this.limits = { ...defaultLimits, ...options.limits }
    this.#duplex = duplex
    this.#bodyTrailers = options.bodyTrailers ?? false
    this.#base = {
      ':method': 'POST',
      ':scheme': options.scheme,
      ':authority': options.authority,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      'grpc-accept-encoding': 'gzip',
      ...(options.bodyTrailers ? { [bodyTrailersKey]: bodyTrailersValue } : {}),
      ...(options.userAgent ? { 'user-agent': options.userAgent } : {}),
    }
    this.#session = connect(`${options.scheme}://${options.authority}`, {
      createConnection: () => duplex,
      settings: http2Settings(this.limits),
      maxSessionMemory: maxSessionMemoryMb,
      maxSessionRejectedStreams: this.limits.maxRejectedStreams,
      maxSessionInvalidFrames: this.limits.maxInvalidFrames,
      // the peer's own limit is in its SETTINGS
      peerMaxConcurrentStreams: this.limits.maxConcurrentStreams,
    } as object)
    const session = this.#session
    this.#window = new StreamWindow(session, this.limits)
    if (options.windows) this.#window.belongTo({ windows: options.windows })
    this.#unpacker = new Unpacker(this.limits)
    this.closed = whenClosed(session, duplex)
    session.on('error', (error) => options.onError?.(error))
    session.on('goaway', () => this.#drain())
    session.once('close', () => this.#drain())
    session.once('connect', () => {
      if (!session.destroyed) session.setLocalWindowSize(this.limits.connectionWindowBytes)
    })
  }

  /** True once GOAWAY came or the connection ended: new calls need another session. Running calls go on. */
  get draining(): boolean {
    return this.#draining || this.#session.closed || this.#session.destroyed
  }

  get destroyed(): boolean {
    return this.#session.destroyed
  }

  get streams(): ReadonlySet<ClientStream> {
    return this.#streams
  }

  /** Bytes read from the connection so far. */
  get bytesRead(): number {
    return this.#duplex.bytesRead ?? 0
  }

  /** Calls `listener` once, when the session begins to drain. */
  onDraining(listener: () => void): void {
    if (this.draining) listener()
    else this.#onDraining.push(listener)
  }

  /** @throws KasError TUNNEL_LOST (delivery none) if the session is draining */
  open(options: OpenOptions): ClientStream {
    if (this.draining) throw new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
    options.signal?.throwIfAborted()
    const headers: OutgoingHttpHeaders = { ...this.#base, ':path': options.method }
    if (options.timeoutMs !== undefined) headers['grpc-timeout'] = writeTimeout(options.timeoutMs)
    if (options.metadata) writeMetadata(headers, options.metadata, maxRequestMetadataBytes)
    const http2 = this.#session.request(headers, { endStream: false })
    const stream = new ClientStream(http2, this.limits, {
      window: this.#window,
      unpacker: this.#unpacker,
      bodyTrailers: this.#bodyTrailers,
      isLost: () => this.#session.destroyed,
      onClosed: () => this.#streams.delete(stream),
    })
    if (options.unread) stream.chargeTo(options.unread, options.callerKey)
    this.#streams.add(stream)
    const { onInterim } = options
    if (onInterim) http2.on('headers', (_headers, _flags, raw: readonly string[]) => onInterim(readMetadata(raw)))
    stream.bind(options.signal, options.timeoutMs)
    return stream
  }

  /** Measures the round trip in ms; rejects if the connection ends first. The caller must not call it twice at once. */
  ping(): Promise<number> {
    return ping(this.#session)
  }

  /** Lets running calls end, and opens no more. */
  close(): void {
    if (!this.#session.closed && !this.#session.destroyed) this.#session.close()
    this.#drain()
  }

  /** Ends the connection and all its calls now. */
  destroy(): void {
    this.#session.destroy()
    this.#duplex.destroy()
  }

  #drain(): void {
    this.#draining = true
    for (const listener of this.#onDraining.splice(0)) listener()
  }
}
