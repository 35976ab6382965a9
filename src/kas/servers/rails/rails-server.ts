import { randomBytes } from 'node:crypto'
import { type AddressInfo, createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import * as grpc from '@grpc/grpc-js'
import { type Forward, noMetadata, type Outcome } from '../../../call/call.ts'
import { RpcSpan } from '../../../call/rpc-span.ts'
import type { CertificateFiles } from '../../../lib/certificate-files.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Drain } from '../../../lib/drain.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import { LimitedLog } from '../../../lib/limited-log.ts'
import type { Logger } from '../../../lib/log.ts'
import type { GrpcType } from '../../../lib/metrics.ts'
import type { Service } from '../../../lib/service.ts'
import { createTlsServer } from '../../../lib/tls-server.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { defaultLimits } from '../../../proto/grpc/limits.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import { readOneMessage, type UnaryMethods } from '../../../proto/unary.ts'
import { readApiSecret } from '../../config/secret-file.ts'
import type { GrpcObserver } from '../../observability/grpc-observer.ts'
import {
  defaultUnauthenticated,
  UnauthenticatedConnections,
  type UnauthenticatedOptions,
  type UnauthenticatedRefusal,
} from '../unauthenticated-connections.ts'
import { everyMethodServer } from './every-method-server.ts'
import { ForwardedCalls } from './forwarded-calls.ts'
import { JwtVerifier } from './jwt-verifier.ts'
import type { RailsCall } from './rails-call.ts'

export interface RailsServerComponents {
  /** methods that kas itself serves, by `/package.Service/Method` */
  readonly methods: UnaryMethods
  /** forwards the calls for agents */
  readonly forward: Forward
  /** absent: plain, without TLS */
  readonly certificate?: CertificateFiles
  readonly clock: Clock
  readonly log: Logger
  /** called for each connection that was closed or refused, because no call of GitLab came on it */
  readonly onRefused?: (reason: UnauthenticatedRefusal) => void
  /** called for each call of GitLab for a service that does not exist here */
  readonly onUnserved?: (method: string) => void
  readonly events?: GrpcObserver
  readonly tracer: Tracer
}

export interface RailsServerOptions {
  readonly listen: ListenOptions
  /** `api.listen.authentication_secret_file`: base64 of 32 bytes */
  readonly secretFile: string
  readonly listenGraceMs: number
  /** `max_connection_age` */
  readonly maxAgeMs: number
  readonly unauthenticated?: Partial<UnauthenticatedOptions>
}

/**
 * Shares of the age: GOAWAY, give or take a tenth, then time for running calls (doc/reference/tunnel-protocol.md 2.4).
 */
const goAwayShare = 0.2
const graceShare = 0.65
/** The longest time of a timer, less the tenth that grpc-js may add. ms */
const maxTimerMs = Math.floor((2 ** 31 - 2) / 1.1)
/** ms (doc/reference/tunnel-protocol.md 2.4) */
const keepAliveMs = 50_000
const keepAliveTimeoutMs = 20_000
const handshakeTimeoutMs = 10_000
/** How long a client without calls may take to close its connection during a stop. ms */
const lingerMs = 1000
const strangerSentence =
  'A call was refused: if it is of GitLab, is api.listen.authentication_secret_file its secret, are both clocks right?'
const unservedSentence = 'GitLab asks for what kas does not serve: doc/guide/gitlab.md says what comes of it'
/** Connections at once. GitLab makes one for each of its jobs, and ends it soon. Strangers have at most a fifth. */
const maxConnections = 10_000

/**
 * Server `rails` (8153): GitLab queries and notifies kas, and calls services of agents
 * (doc/reference/tunnel-protocol.md 5.1, doc/reference/gitlab-contract.md 1).
 */
export class RailsServer implements Service {
  readonly #components: RailsServerComponents
  readonly #options: RailsServerOptions
  readonly #forwarded: ForwardedCalls
  readonly #strangers: LimitedLog
  readonly #unauthenticated: UnauthenticatedConnections
  #jwt: JwtVerifier | undefined
  #listener: Server | undefined
  #drain: Drain | undefined
  #running = 0
  /** resolves when the server drains and no call runs */
  readonly #idle = Promise.withResolvers<void>()

  constructor(components: RailsServerComponents, options: RailsServerOptions) {
    this.#components = components
    this.#options = options
    const unserved = new LimitedLog(components, unservedSentence)
    const onUnserved = (method: string) => {
      components.onUnserved?.(method)
      unserved.warn(method)
    }
    this.#forwarded = new ForwardedCalls({ forward: components.forward, onUnserved })
    this.#strangers = new LimitedLog(components, strangerSentence)
    this.#unauthenticated = new UnauthenticatedConnections(
      { now: () => performance.now(), refused: (reason) => components.onRefused?.(reason) },
      { ...defaultUnauthenticated, ...options.unauthenticated },
    )
  }

  /** Address on which the server listens, once started. */
  get address(): AddressInfo | string | null {
    return this.#listener?.address() ?? null
  }

  /** @throws KasError SETTINGS_INVALID if the secret is unusable, or the error of listening */
  async start(): Promise<void> {
    const { listen, listenGraceMs, secretFile } = this.#options
    const secret = await readApiSecret(secretFile, 'api.listen.authentication_secret_file')
    this.#jwt = new JwtVerifier(this.#components, { secret })
    grpc.setLogVerbosity(grpc.logVerbosity.NONE) // its errors quote metadata, including tokens
    const server = everyMethodServer(this.#grpcOptions(), (call) => void this.#run(call))
    const injector = server.createConnectionInjector(grpc.ServerCredentials.createInsecure())
    const listener = this.#createListener()
    const drainable = {
      server: listener,
      history: this.#unauthenticated.history,
      log: this.#components.log,
      idle: this.#idle.promise,
      drain: () => {
        server.tryShutdown(() => undefined) // sends GOAWAY, without waiting for calls
        if (this.#running === 0) this.#idle.resolve()
      },
    }
    this.#listener = listener
    this.#drain = new Drain(drainable, { listenGraceMs, lingerMs })
    this.#onConnections(listener, (socket) => injector.injectConnection(socket))
    await this.#drain.listen(listen)
  }

  /** Resolves when no new calls come; running calls go on. */
  async leave(patience?: AbortSignal): Promise<void> {
    await this.#drain?.leave(patience)
  }

  /** Waits for running calls; `patience` cuts them. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
  }

  /** Creates a listener with node's TLS: grpc-js gets its sockets, so that the certificate can change. */
  #createListener(): Server {
    const { certificate } = this.#components
    if (!certificate) return createServer({ noDelay: true })
    return createTlsServer({ ALPNProtocols: ['h2'], handshakeTimeout: handshakeTimeoutMs }, certificate)
  }

  #onConnections(listener: Server, accept: (socket: Socket) => void): void {
    const { certificate, log } = this.#components
    listener.maxConnections = maxConnections
    listener.on('connection', (socket) => {
      this.#unauthenticated.closeInactive() // idle connections are only closed when others arrive
      this.#unauthenticated.arrived(socket)
      socket.on('error', (error) => log.debug({ error }, 'A connection of GitLab failed'))
    })
    listener.on(certificate ? 'secureConnection' : 'connection', (socket: Socket) => {
      if (socket.destroyed) return // there was no room for it
      socket.on('error', () => undefined) // the listener below TLS logs the error
      accept(socket.setNoDelay(true))
    })
    listener.on('tlsClientError', (error) => log.debug({ error }, 'A connection of GitLab failed'))
  }

  #grpcOptions(): grpc.ServerOptions {
    const { maxMessageBytes, maxConcurrentStreams } = defaultLimits
    const { maxAgeMs } = this.#options
    return {
      'grpc.enable_channelz': 0,
      'grpc.max_receive_message_length': maxMessageBytes,
      'grpc.max_send_message_length': maxMessageBytes,
      'grpc.max_concurrent_streams': maxConcurrentStreams,
      'grpc.max_connection_age_ms': Math.min(maxTimerMs, Math.round(maxAgeMs * goAwayShare)),
      'grpc.max_connection_age_grace_ms': Math.min(maxTimerMs, Math.round(maxAgeMs * graceShare)),
      'grpc.keepalive_time_ms': keepAliveMs,
      'grpc.keepalive_timeout_ms': keepAliveTimeoutMs,
    }
  }

  async #run(call: RailsCall): Promise<void> {
    this.#running++
    const { events, tracer } = this.#components
    events?.started(call)
    const refusal = await this.#refusal(call)
    const span = this.#begin(call, refusal)
    const serve = () => refusal ?? this.#serve(call, span)
    const own = await tracer.within(span.span, serve)
    const outcome = this.#logFailure(call, own, span.traceId)
    call.finish(outcome)
    span.end(own.error)
    events?.finished(call, outcome.error)
    await call.closed
    this.#running--
    if (this.#drain?.phase === 'draining' && this.#running === 0) this.#idle.resolve()
  }

  /** Begins a span: GitLab's trace is continued; a stranger chooses neither the trace nor the span's name. */
  #begin({ method, metadata }: RailsCall, refusal: Outcome | undefined): RpcSpan {
    const { tracer, methods } = this.#components
    if (!refusal) return RpcSpan.begin(tracer, { kind: 'server', method, parent: metadata })
    const isKnown = methods.has(method)
    return RpcSpan.begin(tracer, { kind: 'server', method, isKnown, link: metadata })
  }

  /** Returns the outcome for a caller that is not GitLab; undefined: it is GitLab. Never rejects. */
  async #refusal(call: RailsCall): Promise<Outcome | undefined> {
    try {
      await this.#unauthenticated.admit(call.remote, async () => this.#jwt?.verify(call.metadata), call.signal)
      return undefined
    } catch (error) {
      return this.#failed(call, error)
    }
  }

  /** Serves a call of GitLab. Never rejects. */
  async #serve(call: RailsCall, span: RpcSpan): Promise<Outcome> {
    const method = this.#components.methods.get(call.method)
    try {
      if (!method) return await this.#forwarded.serve(call, span)
      await call.send(await method(await readOneMessage(call)))
      return { trailers: noMetadata }
    } catch (error) {
      return this.#failed(call, error)
    }
  }

  #failed({ method }: RailsCall, error: unknown): Outcome {
    const isOurs = this.#components.methods.has(method)
    return { error: KasError.from(error), trailers: isOurs ? noMetadata : { 'kas-delivery': ['none'] } }
  }

  /** @returns the outcome for the caller: an internal error has a trace id, and its cause stays in the log */
  #logFailure(call: RailsCall, outcome: Outcome, tracedAs: string | undefined): Outcome {
    const { log } = this.#components
    const { error } = outcome
    if (!error) return outcome
    if (error.code !== 'INTERNAL') {
      const reason = error.cause instanceof Error ? error.cause.message : undefined
      if (error.code === 'JWT_INVALID') this.#strangers.warn(reason ?? '')
      const traced = tracedAs === undefined ? {} : { trace_id: tracedAs }
      log.debug({ grpc_method: call.method, error_code: error.code, reason, ...traced }, 'A call of GitLab failed')
      return outcome
    }
    const traceId = tracedAs ?? randomBytes(16).toString('hex')
    log.error({ error, grpc_method: call.method, trace_id: traceId }, 'A call of GitLab failed inside')
    const message = `${error.message}. Trace ID: ${traceId}`
    return { ...outcome, error: new KasError({ code: 'STATUS', grpc: Code.INTERNAL, message }) }
  }
}

/** Returns the type of each method for metrics, including the one method of agents that kas knows by name. */
export function railsMethodTypes(methods: UnaryMethods): Readonly<Record<string, GrpcType>> {
  const types = [...methods.keys()].map((name) => [name, 'unary'] as const)
  return { [kubernetesApiMethod]: 'bidi_stream', ...Object.fromEntries(types) }
}
