import type { AddressInfo, Socket } from 'node:net'
import type { Server, TLSSocket } from 'node:tls'
import { Counter } from 'prom-client'
import { Drain } from '../../../lib/drain.ts'
import { KasError } from '../../../lib/errors.ts'
import { remoteOf } from '../../../lib/host-port.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Registry } from '../../../lib/metrics.ts'
import type { Service } from '../../../lib/service.ts'
import { createTlsServer } from '../../../lib/tls-server.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { laneMethod } from '../../../proto/grpc/lane-frames.ts'
import { replicaLimits } from '../../../proto/grpc/limits.ts'
import type { CallHandler } from '../../../proto/grpc/server-lane.ts'
import { type ServerSession, type ServerSessionEvents, serveSession } from '../../../proto/grpc/server-session.ts'
import type { Handler } from '../../../proto/grpc/server-stream.ts'
import type { ListenOptions } from '../../config/listen-address.ts'
import type { ReplicaMemory } from '../../memory/replica-memory.ts'
import { tunnelKey } from '../../peers/hand-over-metadata.ts'
import { peerKeyHash, type ReplicaIdentity } from '../../peers/replica-identity.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'
import { UnauthenticatedConnections, type UnauthenticatedOptions } from '../unauthenticated-connections.ts'
import { HandedOverCalls } from './handed-over-calls.ts'

export interface ReplicasServerComponents {
  readonly identity: ReplicaIdentity
  readonly tunnels: TunnelRegistry
  /** absent: a budget of its own */
  readonly memory?: ReplicaMemory
  /** true if a row of the table has this key */
  readonly isKnown: (publicKeyHash: string) => boolean
  /** calls of peers to this replica itself, by `/kas.replica.v1.Service/Method` */
  readonly methods: Readonly<Record<string, Handler>>
  readonly log: Logger
  readonly onStranger: () => void
  readonly events?: ServerSessionEvents
  readonly tracer: Tracer
}

export interface ReplicasServerOptions {
  readonly listen: ListenOptions
  /** after `leave`: how long new calls are accepted at least. ms */
  readonly listenGraceMs: number
  /** time for TLS, from the start of a connection; default `tlsHandshakeTimeoutMs` */
  readonly handshakeMs?: number
  /** default `strangerBounds` */
  readonly strangers?: Partial<UnauthenticatedOptions>
}

/**
 * Bounds of connections that are no member's: TLS is not finished, or their row has not arrived. Replicas have
 * addresses of their own, and their TLS takes some milliseconds.
 */
export const strangerBounds: UnauthenticatedOptions = {
  maxIdlePerAddress: 16,
  maxIdle: 64,
  maxChecked: 64,
  graceMs: 200,
  maxSilenceMs: 5000, // both phases have shorter timeouts of their own
}
/**
 * Calls of a connection whose key no row has; one more ends it. A replica's row comes within milliseconds. So many
 * calls take about as much of the event loop as their TLS handshake.
 */
export const maxStrangerCalls = 32
/** Time for a stranger to become a member. ms */
const strangerTimeoutMs = 3000
const tlsHandshakeTimeoutMs = 2000

/** Server 8155: peers hand calls over, and call this replica (doc/internals/routing.md "Another replica holds the agent"). */
export class ReplicasServer implements Service {
  readonly #components: ReplicasServerComponents
  readonly #options: ReplicasServerOptions
  readonly #handOvers: HandedOverCalls
  readonly #sessions = new Set<ServerSession>()
  readonly #strangers: UnauthenticatedConnections
  #server: Server | undefined
  #drain: Drain | undefined

  constructor(components: ReplicasServerComponents, options: ReplicasServerOptions) {
    this.#components = components
    this.#options = options
    this.#handOvers = new HandedOverCalls(components)
    this.#strangers = new UnauthenticatedConnections(
      { now: () => performance.now(), refused: () => components.onStranger() },
      { ...strangerBounds, ...options.strangers },
    )
  }

  /** Address on which the server listens; only after `start`. */
  get address(): AddressInfo {
    const address = this.#server?.address()
    if (!address || typeof address === 'string') throw new Error('the replicas server does not listen')
    return address
  }

  async start(): Promise<void> {
    const { identity, log, onStranger } = this.#components
    const { listen, listenGraceMs, handshakeMs: firstBytesMs = tlsHandshakeTimeoutMs } = this.#options
    const tls = {
      requestCert: true,
      rejectUnauthorized: false, // keys are pinned by the table: these certificates have no issuer
      minVersion: 'TLSv1.3' as const,
      ALPNProtocols: ['h2'],
      handshakeTimeout: firstBytesMs,
      noDelay: true,
    }
    const server = createTlsServer(tls, { cert: identity.certificatePem, key: identity.keyPem })
    const drainable = {
      server,
      log,
      firstBytesMs,
      drain: () => {
        this.#handOvers.close()
        for (const session of this.#sessions) session.close()
      },
      cut: () => {
        for (const session of this.#sessions) session.destroy()
      },
    }
    this.#drain = new Drain(drainable, { listenGraceMs, untilStop: 'close' })
    server.on('connection', (socket) => this.#strangers.arrived(socket))
    server.on('secureConnection', (socket) => this.#accept(socket))
    server.on('tlsClientError', (error: NodeJS.ErrnoException) => {
      log.debug({ error }, 'A connection failed before it was one')
      if (error.code !== 'ECONNRESET') onStranger() // ECONNRESET: the client left, as health checks do
    })
    this.#server = server
    await this.#drain.listen(listen)
  }

  /**
   * Waits for the grace. Calls are accepted until `stop`, because they must reach the agents that are connected here.
   */
  async leave(patience?: AbortSignal): Promise<void> {
    await this.#drain?.leave(patience)
  }

  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
    await Promise.all([...this.#sessions].map(({ closed }) => closed))
  }

  #accept(socket: TLSSocket): void {
    socket.on('error', () => undefined) // the session ends with it
    const key = peerKeyHash(socket)
    if (key === undefined || socket.alpnProtocol !== 'h2') {
      this.#refuse(socket)
      return
    }
    const { events, onStranger } = this.#components
    const remote = remoteOf(socket)
    const isMember = () => {
      const isKnown = this.#components.isKnown(key)
      if (isKnown) this.#strangers.letIn(remote)
      return isKnown
    }
    const options = { limits: replicaLimits, windows: this.#handOvers.windows, ...(events ? { events } : {}) }
    /** Checks membership for each call: a lane may live longer than its peer is a member. */
    const handOver: CallHandler = (call) => (isMember() ? this.#handOvers.serve : refuseStranger)(call)
    const lane: Handler = (stream) => this.#handOvers.serveLane(stream, handOver)
    const handlerFor = (method: string) => (method === laneMethod ? lane : this.#methodFor(method))
    let strangerCalls = 0
    const admit = (method: string) => {
      if (isMember()) return handlerFor(method)
      strangerCalls++
      if (strangerCalls === maxStrangerCalls + 1) {
        onStranger()
        session.destroy() // at once: calls behind it do not even begin
      }
      return refuseStranger
    }
    const session = serveSession(socket, admit, options)
    this.#sessions.add(session)
    void session.closed.then(() => this.#sessions.delete(session))
    if (isMember()) return
    const patience = setTimeout(() => {
      if (!isMember()) this.#refuse(socket)
    }, strangerTimeoutMs)
    socket.once('close', () => clearTimeout(patience))
  }

  #refuse(socket: Socket): void {
    this.#components.onStranger()
    socket.destroy()
  }

  #methodFor(method: string): Handler | undefined {
    const { methods } = this.#components
    return Object.hasOwn(methods, method) ? methods[method] : undefined
  }
}

/** Refuses a call: its caller publishes its row again, and retries. */
const refuseStranger: CallHandler = async (call) => {
  call.addTrailers({ [tunnelKey]: ['unknown'] })
  throw new KasError({ code: 'UNAUTHENTICATED', detail: 'no row has this key yet' })
}

/** @returns callback that counts one */
export function createStrangersMetric(register: Registry): () => void {
  const counter = new Counter({
    name: 'kas_replica_strangers_total',
    help: 'Connections to the private API that have not shown the key of a replica',
    registers: [register],
  })
  return () => counter.inc()
}
