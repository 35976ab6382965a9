import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { AgentId } from '../../../call/call.ts'
import type { CertificateFiles } from '../../../lib/certificate-files.ts'
import { monotonicClock, systemClock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { Drain } from '../../../lib/drain.ts'
import { KasError } from '../../../lib/errors.ts'
import { remoteOf } from '../../../lib/host-port.ts'
import { http } from '../../../lib/http.ts'
import type { Registry } from '../../../lib/metrics.ts'
import type { Service } from '../../../lib/service.ts'
import { spread } from '../../../lib/spread.ts'
import { createHttpsServer } from '../../../lib/tls-server.ts'
import type { ListenOptions } from '../../config/listen-address.ts'
import type { LocalDirectory } from '../../directory/local-directory.ts'
import { ReplicaMemory } from '../../memory/replica-memory.ts'
import { SessionTable } from '../../sessions/session-table.ts'
import { ClientAddresses, type ClientAddressesOptions } from '../addresses/client-addresses.ts'
import { ProxyProtocol } from '../addresses/proxy-protocol.ts'
import { Arrivals } from '../arrivals.ts'
import { AuthorizationRechecks } from './authorization/authorization-rechecks.ts'
import { CallerKeys } from './authorization/caller-keys.ts'
import { Sessions } from './authorization/sessions.ts'
import { coalesceChunks } from './http/coalesce-chunks.ts'
import { Connection, maxPipelinedRequests, type Running } from './http/connection.ts'
import { Exchange } from './http/exchange.ts'
import { HeadMeter, HeadRoom } from './http/head-room.ts'
import { IdleConnections } from './http/idle-connections.ts'
import { defaultKubernetesLimits, type KubernetesLimits } from './http/kubernetes-limits.ts'
import { malformed, type ParserError, refuseMalformed } from './http/malformed-request.ts'
import { createKubernetesMetrics, createSessionMetrics, type KubernetesMetrics } from './http/metrics.ts'
import { PiecewiseReads } from './http/piecewise-reads.ts'
import { ShortChunks } from './http/short-chunks.ts'
import { UpgradedSocket } from './http/upgraded-socket.ts'
import { KubernetesProxy, type KubernetesProxyComponents } from './kubernetes-proxy.ts'
import { maxHeaderLines, mayUpgrade } from './request/request-head.ts'
import { createOriginCheck } from './response/cors.ts'
import { type ResponseRuleOptions, responseRules } from './response/response-head.ts'

/** Components of the proxy that the server creates. */
type Made = 'arrivals' | 'callerKeys' | 'memory' | 'metrics' | 'sessions'

export interface KubernetesServerComponents extends Omit<KubernetesProxyComponents, Made> {
  /** reports changes of grants; undefined: changes are not reported */
  readonly localDirectory: Pick<LocalDirectory, 'onGrantsChange'> | undefined
  readonly register: Registry
  /** absent: this replica has no peers */
  readonly callerKeys?: Pick<CallerKeys, 'of'>
  /** absent: the server creates its own budget */
  readonly memory?: ReplicaMemory
  /** running sessions; absent: the server creates its own table */
  readonly sessionTable?: SessionTable
  /** absent: plain HTTP; its owner starts and stops it */
  readonly certificate?: CertificateFiles
}

export interface KubernetesServerOptions extends ResponseRuleOptions {
  readonly listen: ListenOptions
  /** `agent.kubernetes_api.url_path_prefix`; a missing `/` at its end is added */
  readonly urlPathPrefix: string
  /** `gitlab.external_url`: pages of this origin may call; absent: no page may */
  readonly externalUrl?: string
  /** time after `stop` in which new connections are accepted and idle ones stay open. ms */
  readonly listenGraceMs: number
  /** time for running requests after `listenGraceMs`. ms */
  readonly shutdownGraceMs: number
  /** time in which watches end one by one, followed logs after them; absent: both end with other requests. ms */
  readonly watchGraceMs?: number
  /** absent: no front is trusted */
  readonly addresses?: ClientAddressesOptions
  /** value of the Server and Via headers: `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly limits?: Partial<KubernetesLimits>
  /** period between two access checks for a long request. ms */
  readonly accessCheckMs?: number
  /** bound of these checks; with more requests the period grows. Absent: unbounded */
  readonly accessChecksPerSecond?: number
}

/** number of checks for late heads that node makes within the timeout of a head */
const headChecksPerTimeout = 10
const tcpKeepAliveMs = 15_000 // as Go's listener: a vanished client is noticed while its watch is idle
const tlsHandshakeTimeoutMs = 10_000
/** Time at the end for streams to send the reason, and for clients to read it, a second each. ms */
const lingerMs = 2000

/**
 * Server of the Kubernetes API proxy: kubectl, CI jobs and browsers call their clusters here
 * (doc/reference/tunnel-protocol.md 6).
 */
export class KubernetesServer implements Service {
  readonly #components: KubernetesServerComponents
  readonly #options: KubernetesServerOptions
  readonly #limits: KubernetesLimits
  readonly #proxy: KubernetesProxy
  readonly #metrics: KubernetesMetrics
  readonly #connections = new Map<Socket, Connection>()
  readonly #addresses: ClientAddresses
  readonly #arrivals: Arrivals
  /** absent: no connection begins with a PROXY header */
  readonly #proxyProtocol: ProxyProtocol | undefined
  readonly #idle: IdleConnections
  readonly #headRoom: HeadRoom
  readonly #callers = new Counter<AgentId>()
  readonly #shortChunks = new ShortChunks(monotonicClock)
  readonly #checks: AuthorizationRechecks
  #server: Server | undefined
  #drain: Drain | undefined
  /** stops the series that ends watches one by one */
  #stopEnding: (() => void) | undefined

  constructor(components: KubernetesServerComponents, options: KubernetesServerOptions) {
    const { urlPathPrefix, externalUrl, product, accessCheckMs: periodMs, accessChecksPerSecond: perSecond } = options
    const { directory, localDirectory, register, log, clock, sessionTable: table = new SessionTable() } = components
    this.#components = components
    this.#options = options
    this.#limits = { ...defaultKubernetesLimits, ...options.limits }
    this.#metrics = createKubernetesMetrics(register, () => this.#running())
    this.#checks = new AuthorizationRechecks(
      { directory, localDirectory, clock: clock ?? monotonicClock, log },
      { ...(periodMs === undefined ? {} : { periodMs }), perSecond },
    )
    createSessionMetrics(register, { sessions: () => table.size, checkMs: () => this.#checks.periodMs })
    const sessions = new Sessions({ table, checks: this.#checks, clock: clock ?? systemClock, log })
    const refused = () => this.#metrics.failed('HEAD_TOO_SLOW') // node's own timeout comes first
    this.#addresses = new ClientAddresses(options.addresses)
    const addresses = this.#addresses
    this.#arrivals = new Arrivals({ addresses, now: () => performance.now(), refused }, this.#limits.unauthenticated)
    if (addresses.usesProxyProtocol) this.#proxyProtocol = this.#createProxyProtocol()
    this.#headRoom = new HeadRoom(this.#limits.maxUnknownHeadBytes)
    this.#idle = new IdleConnections(this.#limits.maxKeptPerAgent, () => this.#metrics.failed('TOO_MANY_STREAMS'))
    this.#proxy = new KubernetesProxy(
      {
        callerKeys: new CallerKeys(),
        memory: new ReplicaMemory(),
        ...components,
        sessions,
        metrics: this.#metrics,
        arrivals: this.#arrivals,
      },
      {
        limits: this.#limits,
        responses: responseRules(options, log),
        urlPathPrefix: urlPathPrefix.endsWith('/') ? urlPathPrefix : `${urlPathPrefix}/`,
        product,
        allowsOrigin: createOriginCheck(externalUrl),
        gitlabHost: externalUrl === undefined ? undefined : new URL(externalUrl).hostname,
      },
    )
  }

  /** Address on which the server listens; only after `start`. */
  get address(): AddressInfo | string {
    const address = this.#server?.address()
    if (!address) throw new Error('the Kubernetes API server does not listen')
    return address
  }

  async start(): Promise<void> {
    const server = this.#createServer()
    this.#server = server
    this.#drain = this.#createDrain(server)
    server.maxHeadersCount = 0 // node would drop further headers; kas counts and refuses them
    server.on('connection', (socket: Socket) => this.#arrivals.arrived(socket))
    const ready = this.#components.certificate ? 'secureConnection' : 'connection'
    server.on(ready, (socket: Socket) => this.#connection(socket))
    server.on('request', (request, response) => this.#onRequest(request, response))
    server.on('checkContinue', (request, response) => this.#onRequest(request, response, { expectsContinue: true }))
    server.on('checkExpectation', (request, response) => {
      const exchange = this.#exchange(request, response)
      if (exchange) void this.#proxy.refuse(exchange, new KasError({ code: 'EXPECTATION_FAILED' }))
    })
    server.on('upgrade', (request, socket, head) => this.#onUpgrade(request, socket as Socket, head))
    server.on('connect', (request, socket, head) => this.#onUpgrade(request, socket as Socket, head))
    server.on('clientError', (error, socket) => this.#onClientError(error, socket as Socket))
    this.#checks.start()
    this.#proxyProtocol?.readFirst(server)
    await this.#drain.listen(this.#options.listen)
  }

  /** Accepts connections, but each answer is the last on its connection. Resolves when the server drains. */
  async leave(patience?: AbortSignal): Promise<void> {
    await this.#drain?.leave(patience)
  }

  /** Leaves, and resolves when all connections have ended. Without patience, or when it aborts, connections are cut. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
    this.#stopEnding?.()
    this.#checks.stop()
  }

  #createDrain(server: Server): Drain {
    const { listenGraceMs, shutdownGraceMs } = this.#options
    const { arrivalMs } = this.#limits
    return new Drain(
      {
        server,
        log: this.#components.log,
        history: this.#arrivals.history,
        waits: (socket) => this.#arrivals.waitsForTls(socket),
        addressOf: (socket) => this.#addresses.of(remoteOf(socket)).address,
        drain: () => {
          for (const connection of this.#connections.values()) {
            connection.closeWhenIdle = true
            connection.closeIfIdle()
          }
          this.#endEarly()
        },
        endArrivals: () => {
          this.#proxyProtocol?.destroyWaiting()
          for (const connection of this.#connections.values()) {
            connection.isNew = false
            connection.closeIfIdle()
          }
        },
        endStreams: () => {
          for (const exchange of this.#exchanges()) exchange.endStream()
        },
        cut: () => this.#proxyProtocol?.destroyWaiting(),
      },
      { listenGraceMs, shutdownGraceMs, lingerMs, arrivalMs },
    )
  }

  #createProxyProtocol(): ProxyProtocol {
    const refused = (reason: 'too_slow' | 'proxy_header') =>
      this.#metrics.failed(reason === 'too_slow' ? 'HEAD_TOO_SLOW' : 'BAD_REQUEST')
    const { log } = this.#components
    return new ProxyProtocol({ addresses: this.#addresses, fronts: this.#arrivals.fronts, refused, log })
  }

  /** Ends watches one by one: clients open them again elsewhere. Then cuts logs, and ends newer watches. */
  #endEarly(): void {
    const { watchGraceMs } = this.#options
    const { clock = systemClock } = this.#components
    if (watchGraceMs === undefined) return
    const watches = this.#exchanges().filter(({ leavesEarly }) => leavesEarly === 'watch')
    const rest = () => {
      for (const exchange of this.#exchanges()) {
        if (exchange.leavesEarly === 'watch') exchange.endStream()
        else if (exchange.leavesEarly === 'log') exchange.cut()
      }
    }
    this.#stopEnding = spread(watches, (watch) => watch.endStream(), { ms: watchGraceMs, clock, rest })
  }

  #exchanges(): Running[] {
    return [...this.#connections.values()].flatMap(({ exchanges }) => [...exchanges])
  }

  #createServer(): Server {
    const { maxHeadBytes, headTimeoutMs, keepAliveMs } = this.#limits
    const { certificate } = this.#components
    const options = {
      requestTimeout: 0,
      headersTimeout: headTimeoutMs,
      connectionsCheckingInterval: Math.ceil(headTimeoutMs / headChecksPerTimeout),
      keepAliveTimeout: keepAliveMs,
      maxHeaderSize: maxHeadBytes,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: tcpKeepAliveMs,
      requireHostHeader: false, // kas refuses such requests itself, and counts them
      insecureHTTPParser: false,
      shouldUpgradeCallback: mayUpgrade,
    }
    if (!certificate) return http.createServer(options)
    const tls = {
      ALPNProtocols: ['http/1.1'], // upgrades do not work over HTTP/2
      handshakeTimeout: tlsHandshakeTimeoutMs,
      allowHalfOpen: true,
    }
    return createHttpsServer({ ...options, ...tls }, certificate)
  }

  #onRequest(request: IncomingMessage, response: ServerResponse, options?: { expectsContinue: boolean }): void {
    const exchange = this.#exchange(request, response, options)
    exchange?.connection.serve(() => void this.#proxy.serve(exchange))
  }

  /** Creates the exchange; undefined: the connection has too many requests, and is cut. */
  #exchange(
    request: IncomingMessage,
    response: ServerResponse,
    options?: { expectsContinue?: boolean; upgrade?: UpgradedSocket },
  ): Exchange | undefined {
    const connection = this.#connection(request.socket)
    const { meter } = connection
    const giveHead = meter?.end()
    if (connection.exchanges.size >= maxPipelinedRequests || connection.broken) {
      giveHead?.()
      if (!connection.broken) request.socket.destroy()
      return undefined
    }
    if (request.headers['transfer-encoding'] !== undefined) {
      coalesceChunks(request, (isShort) => {
        meter?.onBody()
        if (isShort) connection.shortChunks += 1
      })
    }
    const leaving = () => this.#drain?.phase !== 'serving'
    return new Exchange(request, response, connection, { ...options, giveHead, leaving })
  }

  /** Handles upgrades and CONNECT (which is refused): node hands both over with the bare connection. */
  #onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    if (this.#connection(socket).exchanges.size > 0) return void socket.destroy() // answers would mix
    const response = new http.ServerResponse(request)
    response.shouldKeepAlive = false
    const upgrade = new UpgradedSocket(socket, head, {
      onEarlyEnd: () => exchange?.leave(new KasError({ code: 'CANCELLED' })),
    })
    response.assignSocket(socket)
    socket.on('drain', () => response.emit('drain'))
    response.on('finish', () => socket.destroySoon())
    const exchange = this.#exchange(request, response, { upgrade })
    exchange?.connection.meter?.stop()
    exchange?.connection.reads?.stop()
    if (exchange) void this.#proxy.serve(exchange)
  }

  #onClientError(error: ParserError, socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (!connection) return void socket.destroy() // a failed TLS handshake
    if (connection.broken) return
    const refusal = malformed(error)
    if (refusal) this.#refuse(connection, refusal)
    else socket.destroy()
  }

  #refuse(connection: Connection, refusal: KasError): void {
    this.#metrics.failed(refusal.code)
    const { address = '' } = connection.origin
    this.#components.accessLog?.stranger({ event: 'refused', reason: refusal.code, address }, () => ({
      status: refusal.httpStatus,
    }))
    if (refusal.code === 'HEAD_TOO_SLOW' && connection.meter?.bytes === 0 && connection.exchanges.size === 0)
      connection.drop() // a client opened it in advance: it would read an answer as the one to its first request
    else refuseMalformed(connection, refusal, this.#options.product)
  }

  #connection(socket: Socket): Connection {
    const known = this.#connections.get(socket)
    if (known) return known
    const connection = new Connection(socket, { idle: this.#idle, callers: this.#callers, addresses: this.#addresses })
    this.#connections.set(socket, connection)
    connection.meter = new HeadMeter(socket, {
      room: this.#headRoom,
      address: connection.origin.address,
      maxLines: maxHeaderLines,
      bodyNow: () => connection.bodyNow,
      refuse: () => {
        if (!connection.broken) this.#refuse(connection, new KasError({ code: 'HEAD_TOO_LARGE' }))
      },
    })
    connection.reads = new PiecewiseReads(socket, {
      clock: monotonicClock,
      nextBytes: () => connection.nextBytes,
      pauseMs: () => this.#shortChunks.pauseMs(connection),
    })
    socket.once('close', () => this.#connections.delete(socket))
    connection.closeWhenIdle = this.#drain?.phase === 'draining'
    connection.closeIfIdle()
    return connection
  }

  #running(): number {
    let running = 0
    for (const { exchanges } of this.#connections.values()) running += exchanges.size
    return running
  }
}
