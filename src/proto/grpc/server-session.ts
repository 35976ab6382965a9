import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Duplex } from 'node:stream'
import { monotonicClock } from '../../lib/clock.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { RateLimit } from '../../lib/rate-limit.ts'
import { defaultLimits, http2Settings, maxSessionMemoryMb, type SessionLimits } from './limits.ts'
import { ping } from './ping.ts'
import { type Handler, ServerStream, type StreamSession } from './server-stream.ts'
import { StreamQuota } from './stream-quota.ts'
import { StreamWindow } from './stream-window.ts'
import { Unpacker, type UnpackTurns } from './unpacker.ts'
import type { UnreadBytes } from './unread-bytes.ts'
import { whenClosed } from './when-closed.ts'
import type { WindowBudget } from './window-budget.ts'

/** Events of a session for its owner. All optional. */
export interface ServerSessionEvents {
  /** a call came in */
  started?(stream: ServerStream): void
  /** the call's status is decided */
  finished?(stream: ServerStream, error: KasError | undefined): void
  /** a handler threw an error that is no KasError: a fault of this program */
  handlerError?(method: string, error: unknown): void
  /** the connection itself failed */
  sessionError?(error: unknown): void
}

export interface ServerSessionOptions {
  readonly limits?: Partial<SessionLimits>
  readonly events?: ServerSessionEvents
  /** budget of wide windows until the connection has an owner; absent: no window is wide */
  readonly windows?: WindowBudget | undefined
  /** turns for unpacking large messages, shared with other connections; absent: its own */
  readonly unpackTurns?: UnpackTurns
}

/**
 * Serves gRPC on one connection: TCP, TLS or the inside of a WebSocket. No authentication of the connection follows.
 *
 * @param handlerFor - returns the handler of a method; undefined answers UNIMPLEMENTED, on that call only
 */
export function serveSession(
  duplex: Duplex,
  handlerFor: (method: string) => Handler | undefined,
  options: ServerSessionOptions = {},
): ServerSession {
  return new ServerSession(duplex, handlerFor, options)
}

const ignore = () => undefined

/** size of a PING, and of its acknowledgement */
const pingFrameBytes = 17

/** One HTTP/2 connection, as its server uses it. */
export class ServerSession implements StreamSession {
  readonly limits: SessionLimits
  readonly window: StreamWindow
  readonly unpacker: Unpacker
  readonly quota: StreamQuota
  /** resolves once the connection has ended, for any reason */
  readonly closed: Promise<void>
  readonly #session: ServerHttp2Session
  readonly #duplex: Duplex & { bytesRead?: number; bytesWritten?: number }
  readonly #handlerFor: (method: string) => Handler | undefined
  readonly #events: ServerSessionEvents
  readonly #streams = new Set<ServerStream>()
  #loss: KasError | undefined

  constructor(duplex: Duplex, handlerFor: (method: string) => Handler | undefined, options: ServerSessionOptions) {
    this.limits = { ...defaultLimits, ...options.limits }
    this.#duplex = duplex
    this.#handlerFor = handlerFor
    this.#events = options.events ?? {}
    this.#session = performServerHandshake(duplex, {
      settings: http2Settings(this.limits),
      maxSessionMemory: maxSessionMemoryMb,
      maxSessionRejectedStreams: this.limits.maxRejectedStreams,
      maxSessionInvalidFrames: this.limits.maxInvalidFrames,
      streamResetBurst: this.limits.streamResetBurst,
      streamResetRate: this.limits.streamResetRate,
    } as object)
    const session = this.#session
    this.window = new StreamWindow(session, this.limits)
    if (options.windows) this.window.belongTo({ windows: options.windows })
    this.unpacker = new Unpacker(this.limits, options.unpackTurns)
    this.quota = new StreamQuota(session, this.limits)
    this.closed = whenClosed(session, duplex)
    session.on('error', (error) => this.#events.sessionError?.(error))
    watchSettings(session, () => this.reject(constants.NGHTTP2_ENHANCE_YOUR_CALM, 'too_many_settings'))
    session.on('stream', (stream, headers, _flags, rawHeaders) => this.#onStream(stream, headers, rawHeaders))
    if (!session.destroyed) session.setLocalWindowSize(this.limits.connectionWindowBytes)
  }

  /** Running calls. */
  get streams(): ReadonlySet<ServerStream> {
    return this.#streams
  }

  get destroyed(): boolean {
    return this.#session.destroyed
  }

  /** True once GOAWAY was sent. */
  get closing(): boolean {
    return this.#session.closed
  }

  /** Bytes read from the connection so far: grows while the other side lives. */
  get bytesRead(): number {
    return this.#duplex.bytesRead ?? 0
  }

  /**
   * Sets the owner of the connection. It unpacks in the turn of all connections of the owner. Its windows are narrow
   * while many readers of the owner have stopped, and wide as far as the owner's budget allows.
   */
  chargeTo(unread: UnreadBytes): void {
    this.window.belongTo(unread)
    this.unpacker.chargeTo(unread)
  }

  /** Measures the round trip in ms; rejects if the connection ends first. The caller must not call it twice at once. */
  ping(): Promise<number> {
    return ping(this.#session)
  }

  /**
   * Calls `listener` for each PING of the other side; `active` if anything but acknowledgements was written since the
   * last one. Written bytes count, because a message may leave in pieces, as windows open, long after it was sent.
   */
  onPing(listener: (active: boolean) => void): void {
    let accountedFor = 0
    this.#session.on('ping', () => {
      const written = this.#duplex.bytesWritten ?? 0
      listener(written > accountedFor)
      accountedFor = Math.max(written, accountedFor) + pingFrameBytes
    })
  }

  /** Calls `listener` once the other side has sent GOAWAY: it opens no more calls. */
  onLeaving(listener: () => void): void {
    this.#session.once('goaway', () => listener())
  }

  /**
   * Sends GOAWAY with the true last stream id. Later streams are refused at their sender, which may open them
   * elsewhere. Running calls go on; the connection ends with the last of them.
   */
  close(): void {
    if (!this.#session.closed && !this.#session.destroyed) this.#session.close()
  }

  /** Sends GOAWAY with an HTTP/2 error code, then ends the connection. */
  reject(http2Code: number, debugText: string): void {
    if (this.#session.destroyed) return
    this.#session.goaway(http2Code, 0, Buffer.from(debugText))
    this.#session.destroy()
  }

  /** Ends the connection and all its calls now. */
  destroy(): void {
    this.#session.destroy()
    this.#duplex.destroy()
  }

  /** Error of the calls that ended with the connection: one for all of them, because there may be thousands. */
  get loss(): KasError {
    this.#loss ??= new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
    return this.#loss
  }

  onFinished(stream: ServerStream, error: KasError | undefined): void {
    this.#events.finished?.(stream, error)
  }

  onHandlerError(method: string, error: unknown): void {
    this.#events.handlerError?.(method, error)
  }

  onClosed(stream: ServerStream): void {
    this.#streams.delete(stream)
  }

  #onStream(http2: ServerHttp2Stream, headers: IncomingHttpHeaders, rawHeaders: readonly string[]): void {
    const contentType = headers['content-type'] ?? ''
    http2.on('error', ignore) // 'close' has its code
    if (http2.destroyed || http2.closed) return // reset by a frame right after its head
    if (headers[':method'] !== 'POST' || !/^application\/grpc(\+|;|$)/.test(contentType)) {
      http2.respond({ ':status': 415, 'grpc-status': String(Code.INVALID_ARGUMENT) }, { endStream: true })
      return
    }
    const stream = new ServerStream(this, http2, headers, rawHeaders)
    this.#streams.add(stream)
    this.#events.started?.(stream)
    const encoding = headers['grpc-encoding']
    const handler = this.#handlerFor(stream.method)
    if (encoding !== undefined && encoding !== 'gzip' && encoding !== 'identity') {
      stream.run(() => {
        const message = `grpc: Decompressor is not installed for grpc-encoding "${String(encoding)}"`
        throw new KasError({ code: 'STATUS', grpc: Code.UNIMPLEMENTED, message })
      })
    } else if (!handler) {
      stream.run(() => {
        throw new KasError({ code: 'METHOD_UNKNOWN', method: stream.method })
      })
    } else stream.run(handler)
  }
}

/** Bound of SETTINGS. Peers whose windows follow the delay send a few a second. */
const settingsRate = { perSecond: 100, burst: 1000 }

/** Calls `onFlood` once a peer sends more SETTINGS than it needs: each one is read and acknowledged. */
function watchSettings(session: Http2Session, onFlood: () => void): void {
  const rateLimit = new RateLimit(monotonicClock, settingsRate)
  session.on('remoteSettings', () => {
    if (rateLimit.take(1) > 0) onFlood()
  })
}
