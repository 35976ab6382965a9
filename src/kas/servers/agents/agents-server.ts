import type { AddressInfo, ListenOptions } from 'node:net'
import type { Duplex } from 'node:stream'
import type { CertificateFiles } from '../../../lib/certificate-files.ts'
import { type Clock, monotonicClock, systemClock } from '../../../lib/clock.ts'
import { Drain } from '../../../lib/drain.ts'
import { remoteOf } from '../../../lib/host-port.ts'
import type { Logger } from '../../../lib/log.ts'
import type { GrpcType } from '../../../lib/metrics.ts'
import type { Service } from '../../../lib/service.ts'
import { spread } from '../../../lib/spread.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import type { SessionLimits } from '../../../proto/grpc/limits.ts'
import { type ServerSessionEvents, serveSession } from '../../../proto/grpc/server-session.ts'
import { unpackTurns } from '../../../proto/grpc/unpacker.ts'
import { connectMethod } from '../../../proto/reverse-tunnel.ts'
import type { AccessLog } from '../../access-log/access-log.ts'
import type { AgentMethod, MethodRate } from '../../agent-method.ts'
import type { Directory } from '../../directory/directory.ts'
import type { Gitlab } from '../../directory/gitlab.ts'
import { ReplicaMemory } from '../../memory/replica-memory.ts'
import { UnreadByAgent } from '../../memory/unread-by-agent.ts'
import { AgentConnection, defaultLiveness, type LivenessOptions } from '../../tunnels/agent-connection.ts'
import { Descriptions } from '../../tunnels/descriptions.ts'
import type { Placement } from '../../tunnels/home-placement.ts'
import type { PublishedConnections } from '../../tunnels/published-connections.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'
import { ClientAddresses, type ClientAddressesOptions, type Origin } from '../addresses/client-addresses.ts'
import { ProxyProtocol } from '../addresses/proxy-protocol.ts'
import { Arrivals } from '../arrivals.ts'
import { defaultUnauthenticated, type UnauthenticatedOptions } from '../unauthenticated-connections.ts'
import { Authenticator, type AuthenticatorOptions, defaultAuthenticatorOptions } from './authenticator.ts'
import { CallAdmission, connect } from './call-admission.ts'
import { ConnectionAge, type ConnectionAgeOptions } from './connection-age.ts'
import { Departure } from './departure.ts'
import { maxWaitingStreams } from './directory-polls.ts'
import { defaultHomeHints, HomeHints, type HomeHintsOptions } from './home-hints.ts'
import type { OverRate } from './limits/agent-rates.ts'
import { defaultOpenStreams, OpenStreams, type OpenStreamsOptions } from './limits/open-streams.ts'
import { enhanceYourCalm, PingPolicy } from './limits/ping-policy.ts'
import { TokenCallCounts } from './limits/token-call-counts.ts'
import { Listener } from './listener.ts'
import type { RefusalReason } from './refusals.ts'

export interface AgentsServerComponents {
  readonly directory: Pick<Directory, 'agentByToken' | 'onChange'>
  /** undefined: tokens need no repeated check */
  readonly gitlab: Pick<Gitlab, 'watchToken'> | undefined
  readonly tunnels: TunnelRegistry
  /** absent: plain, without TLS */
  readonly certificate?: CertificateFiles
  /** by `/package.Service/Method`; the server itself has Connect */
  readonly methods: Readonly<Record<string, AgentMethod>>
  /** absent: connections are not logged */
  readonly accessLog?: AccessLog
  readonly log: Logger
  readonly onRateExceeded: () => void
  /** publishes the methods that each connection serves; absent: this replica is alone */
  readonly published?: PublishedConnections
  /** decides to which replicas pods should connect; absent: this replica is alone */
  readonly placement?: Placement
  readonly onRefused?: (reason: RefusalReason) => void
  /** @param method - `Service/Method` */
  readonly onOverRate?: (method: string, outcome: OverRate) => void
  /** clock for the rates of methods; absent: the process's clock */
  readonly clock?: Clock
  readonly events?: ServerSessionEvents
  readonly tracer: Tracer
  /** absent: a budget of its own */
  readonly memory?: ReplicaMemory
  /** absent: counts of this replica alone */
  readonly counts?: TokenCallCounts
}

export interface AgentsServerOptions {
  readonly listen: ListenOptions
  readonly websocket: boolean
  /** absent: no front is trusted */
  readonly addresses?: ClientAddressesOptions
  /** value of the Server header: `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly listenGraceMs: number
  /** after the listen grace: how long running calls may still take; absent: until `stop` is cut short. ms */
  readonly shutdownGraceMs?: number
  /** at the end: watches of other replicas' callers end one by one over this time, and go on elsewhere. ms */
  readonly watchGraceMs?: number
  readonly age: ConnectionAgeOptions
  readonly authenticator?: Partial<AuthenticatorOptions>
  readonly liveness?: Partial<LivenessOptions>
  readonly limits?: Partial<SessionLimits>
  readonly openStreams?: Partial<OpenStreamsOptions>
  readonly unauthenticated?: Partial<UnauthenticatedOptions>
  readonly hints?: Partial<HomeHintsOptions>
}

/** Time for a connection's first bytes. ms */
const firstBytesTimeoutMs = 10_000
/** Time in which agents that are sent to another replica dial it, also a distant one. ms */
const dialMs = 1000
/** Time in which our agents dial the new replica and then leave by themselves. ms */
const moveMs = 2000
const checkIntervalMs = 250
/** Time at the end for sending OK to idle streams. ms */
const lingerMs = 1000
/**
 * Limits of one connection. An agentk pod opens 500 tunnels and a few other streams; a proxy that carries several
 * agents opens another connection. A head has room for many times the credentials and what proxies add.
 */
const sessionLimits = {
  maxConcurrentStreams: 1000,
  firstStreams: 16,
  maxHeaderBytes: 16 * 1024,
  strangerWindowBytes: 64 * 1024,
} as const satisfies Partial<SessionLimits>

/**
 * Bounds of connections: each costs about 90 KB after TLS and HTTP/2. A whole fleet may come at once from one address.
 */
const unauthenticatedOptions: UnauthenticatedOptions = {
  ...defaultUnauthenticated,
  maxIdle: 4000,
  maxChecked: 4000,
  maxCheckedAlone: maxWaitingStreams, // behind a front each stream is authenticated
}

/** Server `agents` (8150): agents dial in, and keep their tunnels open (doc/reference/tunnel-protocol.md 2). */
export class AgentsServer implements Service {
  readonly #components: AgentsServerComponents
  readonly #options: AgentsServerOptions
  #listener: Listener | undefined
  readonly #calls: CallAdmission
  readonly #addresses: ClientAddresses
  readonly #arrivals: Arrivals
  /** absent: no connection begins with a PROXY header */
  readonly #proxyProtocol: ProxyProtocol | undefined
  readonly #unpackTurns = unpackTurns()
  readonly #liveness: LivenessOptions
  readonly #hints: HomeHints
  readonly #connections = new Set<AgentConnection>()
  readonly #ages = new Set<ConnectionAge>()
  /** absent: this replica is alone */
  readonly #departure: Departure | undefined
  #checks: NodeJS.Timeout | undefined
  /** stops ending watches one by one */
  #stopLosing: (() => void) | undefined
  #unsubscribe: (() => void) | undefined
  #drain: Drain | undefined

  constructor(components: AgentsServerComponents, options: AgentsServerOptions) {
    this.#components = components
    this.#options = options
    this.#liveness = { ...defaultLiveness, ...options.liveness }
    const { placement, counts, memory = new ReplicaMemory(), onRateExceeded } = components
    this.#hints = new HomeHints(
      { clock: systemClock, ...(placement ? { placement } : {}) },
      { ...defaultHomeHints, ...options.hints },
    )
    if (placement) {
      this.#departure = new Departure(
        { connections: this.#connections, placement, clock: systemClock, random: Math.random },
        { spreadMs: Math.max(0, options.listenGraceMs - dialMs), dialMs, moveMs },
      )
    }
    const authenticator = new Authenticator(
      { directory: components.directory, counts: counts ?? new TokenCallCounts(systemClock), onRateExceeded },
      { ...defaultAuthenticatorOptions, ...options.authenticator },
    )
    const addresses = new ClientAddresses(options.addresses)
    const refused = this.#refused
    this.#addresses = addresses
    this.#arrivals = new Arrivals(
      { addresses, now: () => performance.now(), refused },
      { ...unauthenticatedOptions, ...options.unauthenticated },
    )
    if (addresses.usesProxyProtocol) {
      const { fronts } = this.#arrivals
      this.#proxyProtocol = new ProxyProtocol({ addresses, fronts, refused, log: components.log })
    }
    this.#calls = new CallAdmission({
      clock: monotonicClock,
      onOverRate: () => undefined,
      ...components,
      authenticator,
      addresses,
      arrivals: this.#arrivals,
      tenants: memory.tenants,
      unreadByAgent: new UnreadByAgent(memory),
      openStreams: new OpenStreams({ ...defaultOpenStreams, ...options.openStreams }),
      connect: {
        ...components,
        descriptions: new Descriptions(),
        hints: this.#hints,
        onCut: () => this.#refused('reply_cut'),
      },
      refused: this.#refused,
    })
  }

  /** Address on which the server listens, once started. */
  get address(): AddressInfo {
    return this.#listener?.server.address() as AddressInfo
  }

  get connections(): ReadonlySet<AgentConnection> {
    return this.#connections
  }

  async start(): Promise<void> {
    this.#listener = this.#createListener()
    this.#drain = this.#createDrain(this.#listener)
    this.#listener.server.on('connection', (socket) => this.#arrivals.arrived(socket))
    this.#proxyProtocol?.readFirst(this.#listener.server)
    await this.#drain.listen(this.#options.listen)
    await this.#hints.start()
    // a token may have been revoked: each renewed tunnel sends its token again
    this.#unsubscribe = this.#components.directory.onChange((agentIds) => {
      for (const connection of this.#connections) connection.renew(agentIds)
    })
    let expected = performance.now() + checkIntervalMs
    this.#checks = setInterval(() => {
      const now = performance.now()
      const lateMs = Math.max(0, now - expected)
      expected = now + checkIntervalMs
      for (const connection of this.#connections) connection.check(now, lateMs)
      for (const age of this.#ages) age.check(now)
      this.#arrivals.closeInactive()
    }, checkIntervalMs)
  }

  /**
   * Sends agents to peers, also new ones; after the grace none is accepted. Without peers a replica keeps its agents.
   */
  async leave(patience?: AbortSignal): Promise<void> {
    await this.#drain?.leave(patience)
    this.#loseStreams()
  }

  /** Stops: running calls may end by themselves within the shutdown grace; `patience` cuts them. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
    await Promise.all([...this.#connections].map(({ session }) => session.closed))
    clearInterval(this.#checks)
    this.#stopLosing?.()
    await this.#hints.stop()
    this.#unsubscribe?.()
  }

  /**
   * Ends watches that still run here one by one: their agents are elsewhere, so clients open them again there. Followed
   * logs end last, because their readers notice; this includes logs of callers at other replicas.
   */
  #loseStreams(): void {
    const { watchGraceMs } = this.#options
    const { tunnels } = this.#components
    if (watchGraceMs === undefined) return
    const rest = () => {
      for (const stream of [...tunnels.watches(), ...tunnels.logs()]) stream.lose()
    }
    const over = { ms: watchGraceMs, clock: systemClock, rest }
    this.#stopLosing = spread(tunnels.watches(), (watch) => watch.lose(), over)
  }

  #createDrain(listener: Listener): Drain {
    const { listenGraceMs, shutdownGraceMs } = this.#options
    return new Drain(
      {
        server: listener.server,
        log: this.#components.log,
        history: this.#arrivals.history,
        waits: (socket) => this.#arrivals.waitsForTls(socket),
        addressOf: (socket) => this.#addresses.of(remoteOf(socket)).address,
        announce: async () => {
          await this.#hints.leave()
          this.#departure?.begin()
        },
        close: () => {
          listener.closeUndecided()
          this.#proxyProtocol?.destroyWaiting()
        },
        drain: () => {
          this.#departure?.stop()
          for (const connection of this.#connections) connection.retire()
        },
        cut: () => {
          for (const { session } of this.#connections) session.destroy()
        },
      },
      { listenGraceMs, shutdownGraceMs, lingerMs, untilStop: 'drain' },
    )
  }

  #createListener(): Listener {
    const { certificate, log } = this.#components
    const { product, websocket } = this.#options
    return new Listener(
      { product, websocket, firstBytesTimeoutMs, certificate, addresses: this.#addresses },
      {
        connection: (duplex, remote, origin) => this.#serve(duplex, remote, origin),
        identified: (socket, address) => this.#arrivals.identified(socket, address),
        failed: (error) => log.debug({ error }, 'A connection failed before it was one'),
        refused: this.#refused,
      },
    )
  }

  #refused = (reason: RefusalReason): void => this.#components.onRefused?.(reason)

  #serve(duplex: Duplex, remoteAddress: string, origin: Origin): void {
    const { log, events } = this.#components
    const session = serveSession(duplex, (method) => this.#calls.handlerFor(method, { connection, origin }), {
      limits: { ...sessionLimits, ...this.#options.limits },
      unpackTurns: this.#unpackTurns,
      events: {
        ...events,
        handlerError: (method, error) => log.error({ error, grpc_method: method }, 'A call of an agent failed inside'),
        sessionError: (error) => log.debug({ error, net_address: remoteAddress }, 'A connection of an agent failed'),
      },
    })
    const now = performance.now()
    const connection = new AgentConnection(session, remoteAddress, now, this.#liveness)
    const age = new ConnectionAge(connection, now, this.#options.age)
    this.#connections.add(connection)
    this.#ages.add(age)
    const pings = new PingPolicy()
    session.onPing((active) => {
      if (pings.accept(performance.now(), active)) return
      this.#refused('too_many_pings')
      session.reject(enhanceYourCalm, 'too_many_pings')
    })
    session.onLeaving(() => {
      // idle streams end with OK, so no call is sent there; if kas asked the agent to leave, the agent dials first
      if (connection.wentAway) setTimeout(() => connection.retire(), dialMs).unref()
      else connection.retire()
    })
    void session.closed.then(() => {
      this.#connections.delete(connection)
      this.#ages.delete(age)
    })
    if (this.#drain?.phase === 'serving') return
    if (this.#departure) this.#departure.arrived(connection)
    else connection.retire()
  }
}

/** Returns the type of each method for metrics, Connect included. */
export function agentMethodTypes(methods: Readonly<Record<string, AgentMethod>>): Readonly<Record<string, GrpcType>> {
  const types = Object.entries(methods).map(([name, { type }]) => [name, type] as const)
  return { [connectMethod]: connect.type, ...Object.fromEntries(types) }
}

/** Returns the rate of each method, Connect included. */
export function agentMethodRates(methods: Readonly<Record<string, AgentMethod>>): Readonly<Record<string, MethodRate>> {
  const rates = Object.entries(methods).map(([name, { rate }]) => [name, rate] as const)
  return { [connectMethod]: connect.rate, ...Object.fromEntries(rates) }
}
