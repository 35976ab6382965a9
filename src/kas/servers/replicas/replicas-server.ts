import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { remoteOf } from '../../../lib/remote-of.ts'
import type { Service } from '../../../lib/service.ts'
import { delay } from '../../../lib/signals.ts'
import { TlsHandshakes } from '../../../lib/tls-handshakes.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { replicaLimits } from '../../../proto/grpc/limits.ts'
import {
  type Handler,
  type ServerSession,
  type ServerSessionEvents,
  serveSession,
} from '../../../proto/grpc/server-session.ts'
import type { ListenOptions } from '../../config/listen-address.ts'
import { tunnelKey } from '../../replicas/hand-over.ts'
import { peerKeyHash, type ReplicaIdentity } from '../../replicas/replica-identity.ts'
import type { Tunnels } from '../../tunnels/tunnels.ts'
import { Newcomers, type NewcomersOptions } from '../newcomers.ts'
import { HandOvers } from './hand-overs.ts'

export interface ReplicasServerComponents {
  readonly identity: ReplicaIdentity
  readonly tunnels: Tunnels
  /** a replica of the table has this key */
  readonly isKnown: (publicKeyHash: string) => boolean
  /** calls between replicas themselves, by `/kas.replica.v1.Service/Method` */
  readonly methods: Readonly<Record<string, Handler>>
  readonly log: Logger
  readonly onStranger: () => void
  readonly events?: ServerSessionEvents
  /** absent: nothing is traced */
  readonly tracer: Tracer
}

export interface ReplicasServerOptions {
  readonly listen: ListenOptions
  /** after `leave`: how long new calls are taken at least. ms */
  readonly listenGraceMs: number
  /** for TLS, from the start of a connection; default `tlsHandshakeTimeoutMs` */
  readonly handshakeMs?: number
  /** default `strangerBounds` */
  readonly strangers?: Partial<NewcomersOptions>
}

/**
 * Connections that are no member's: TLS is not agreed yet, or their row has not arrived. Replicas have addresses of their
 * own, and TLS takes them some milliseconds.
 */
export const strangerBounds: NewcomersOptions = {
  maxSilentPerAddress: 16,
  maxSilent: 64,
  graceMs: 200,
  maxSilenceMs: 5000, // each of them has a time-out of its own before
}
/** for a stranger to become a member. ms */
const strangerTimeoutMs = 3000
const tlsHandshakeTimeoutMs = 2000

/**
 * 8155: other replicas hand calls over, and call this one itself (doc/routing.md "Another replica holds the agent").
 */
export class ReplicasServer implements Service {
  readonly #components: ReplicasServerComponents
  readonly #options: ReplicasServerOptions
  readonly #handOvers: HandOvers
  readonly #sessions = new Set<ServerSession>()
  readonly #strangers: Newcomers
  #server: Server | undefined
  #handshakes: TlsHandshakes | undefined
  #left: Promise<void> | undefined

  constructor(components: ReplicasServerComponents, options: ReplicasServerOptions) {
    this.#components = components
    this.#options = options
    this.#handOvers = new HandOvers(components)
    this.#strangers = new Newcomers(
      { now: () => performance.now(), refused: () => components.onStranger() },
      { ...strangerBounds, ...options.strangers },
    )
  }

  /** Where it listens; only after `start`. */
  get address(): AddressInfo {
    const address = this.#server?.address()
    if (!address || typeof address === 'string') throw new Error('the replicas server does not listen')
    return address
  }

  async start(): Promise<void> {
    const { identity, log, onStranger } = this.#components
    const server = createServer({
      cert: identity.certificatePem,
      key: identity.keyPem,
      requestCert: true,
      rejectUnauthorized: false, // keys are pinned by the table: no authority signs these certificates
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['h2'],
      handshakeTimeout: this.#options.handshakeMs ?? tlsHandshakeTimeoutMs,
      noDelay: true,
    })
    this.#handshakes = new TlsHandshakes(server)
    server.on('connection', (socket) => this.#strangers.arrived(socket))
    server.on('secureConnection', (socket) => this.#accept(socket))
    server.on('tlsClientError', (error: NodeJS.ErrnoException) => {
      log.debug({ error }, 'A connection failed before it was one')
      if (error.code !== 'ECONNRESET') onStranger() // that one only left, as health checks do
    })
    server.listen(this.#options.listen)
    await once(server, 'listening')
    server.on('error', (error) => log.warn({ error }, 'A connection could not be accepted'))
    this.#server = server
  }

  /** Waits for the grace. Calls are taken until `stop`: as long as agents are here, they are to be reached. */
  leave(patience: AbortSignal = AbortSignal.abort()): Promise<void> {
    this.#left ??= delay(this.#options.listenGraceMs, patience).catch(() => undefined) // cut short: go on leaving
    return this.#left
  }

  async stop(patience: AbortSignal = AbortSignal.abort()): Promise<void> {
    const server = this.#server
    if (!server) return
    await this.leave(patience)
    this.#handOvers.close()
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    this.#handshakes?.destroy() // none becomes a session that nobody would end
    for (const session of this.#sessions) session.close()
    const cut = () => {
      for (const session of this.#sessions) session.destroy()
    }
    patience.addEventListener('abort', cut, { once: true })
    if (patience.aborted) cut()
    await Promise.all([...this.#sessions].map(({ closed }) => closed))
    patience.removeEventListener('abort', cut)
    await closed
  }

  #accept(socket: TLSSocket): void {
    socket.on('error', () => undefined) // told by the session
    const key = peerKeyHash(socket)
    if (key === undefined || socket.alpnProtocol !== 'h2') {
      this.#refuse(socket)
      return
    }
    const { events } = this.#components
    const remote = remoteOf(socket)
    const isMember = () => {
      const isKnown = this.#components.isKnown(key)
      if (isKnown) this.#strangers.letIn(remote)
      return isKnown
    }
    const options = { limits: replicaLimits, ...(events ? { events } : {}) }
    const session = serveSession(socket, (method) => (isMember() ? this.#handlerFor(method) : refuseStranger), options)
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

  #handlerFor(method: string): Handler | undefined {
    if (!method.startsWith('/kas.')) return this.#handOvers.serve
    const { methods } = this.#components
    return Object.hasOwn(methods, method) ? methods[method] : undefined
  }
}

/** The caller makes its row known, and tries again. */
const refuseStranger: Handler = async (stream) => {
  stream.addTrailers({ [tunnelKey]: ['unknown'] })
  throw new KasError({ code: 'UNAUTHENTICATED', detail: 'no row has this key yet' })
}
