import type { Metadata } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { pause } from '../../lib/pause.ts'
import { abortable } from '../../lib/signals.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import { type Hints, type Role, readHints } from '../../proto/placement.ts'
import type { KasAddress } from './kas-address.ts'
import type { KasSessions } from './kas-sessions.ts'
import { type PoolSize, stockPool, type TunnelPool, type TunnelSession } from './pool.ts'

/** The replica that a connection is to reach; without an address by the front, which is asked for it by header. */
export interface Target {
  readonly name: string
  readonly address?: KasAddress | undefined
}

/** Names of features that are kept of a session: kas says a handful. */
const maxFeatures = 100

/** What a connection's parts are built with. */
export interface ConnectionParts {
  /** undefined: wherever the front leads */
  readonly target: Target | undefined
  /** asked at each Connect */
  readonly role: () => Role
  readonly onMetadata: (session: TunnelSession, metadata: Metadata) => void
  /** kas goes on with a tunnel after its call */
  readonly isReused: (session: TunnelSession) => boolean
  /** asked at each failure, which is the end of it, or else kas is dialled again */
  readonly endsWhenLost: () => boolean
  readonly onLost: () => void
}

export type BuildConnection = (parts: ConnectionParts) => { sessions: KasSessions; pool: TunnelPool }

export interface ConnectionEvents {
  /** it has a new session */
  readonly connected: (connection: KasConnection, session: ClientSession) => void
  /** kas has said something new */
  readonly hinted: (connection: KasConnection, hints: Hints) => void
  /** kas has said on a session that it has a feature of which it had not said so */
  readonly featured: () => void
  /** the replica is not reached any more; not of a home without a target, which is dialled again for ever */
  readonly lost: (connection: KasConnection, place: string | undefined) => void
}

/**
 * By role: upstream's (doc/reference/tunnel-protocol.md 2.7), and few where none is expected to be used. Each call needs a
 * connection to the API server: `maxConnections` there is more than both.
 */
const sizes: Record<Role, PoolSize> = { home: stockPool, standby: { minIdle: 1, max: 80 } }

/** One connection to kas with its tunnels, dialled again when it is lost, and the replica at which it has come out. */
export class KasConnection {
  readonly sessions: KasSessions
  readonly pool: TunnelPool
  readonly target: Target | undefined
  /** the last of the present session */
  hints: Hints | undefined
  #role: Role
  /** sessions on which kas has said that tunnels carry one call after another */
  readonly #reused = new WeakSet<TunnelSession>()
  /** of modules of kas, as it has said on a session */
  readonly #features = new WeakMap<TunnelSession, Set<string>>()
  /** aborts when it has landed, or never will */
  readonly #landing = new AbortController()

  constructor(
    { build, events }: { build: BuildConnection; events: ConnectionEvents },
    { role, target }: { role: Role; target?: Target | undefined },
  ) {
    this.#role = role
    this.target = target
    const { sessions, pool } = build({
      target,
      endsWhenLost: () => target !== undefined || this.#role !== 'home',
      onLost: () => this.#end(events),
      role: () => this.#role,
      onMetadata: (session, metadata) => this.#read(events, session, metadata),
      isReused: (session) => this.#reused.has(session),
    })
    this.sessions = sessions
    this.pool = pool
    sessions.onSession((session) => {
      this.hints = undefined
      events.connected(this, session)
    })
  }

  /** Name of the replica at the other end; undefined until it has said it. */
  get place(): string | undefined {
    return this.hints?.replica
  }

  /** It is at a replica that has not said that it leaves. */
  get stays(): boolean {
    return this.hints !== undefined && !this.hints.leaving
  }

  get role(): Role {
    return this.#role
  }

  /** kas learns of it with the next tunnel, which is opened for that. */
  set role(role: Role) {
    if (role === this.#role) return
    this.#role = role
    this.pool.resize(sizes[role])
    this.pool.openOne()
  }

  /** kas has said on it that it has the feature. */
  hasFeature(session: TunnelSession, name: string): boolean {
    return this.#features.get(session)?.has(name) ?? false
  }

  async startTunnels(): Promise<void> {
    this.pool.resize(sizes[this.#role])
    await this.pool.start()
  }

  /** Resolves when `place` is known, the replica is lost, or `signal` aborts; after `ms` at the latest. */
  async landing(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
    await pause(ms, clock, AbortSignal.any([signal, this.#landing.signal]))
  }

  /**
   * Leaves the replica without a call being on its way to a tunnel that goes: GOAWAY makes our kas end idle tunnels.
   * Running calls end by themselves. What still waits after `drainMs` is cancelled.
   */
  async retire(drainMs: number, clock: Clock): Promise<void> {
    this.#landing.abort()
    const patience = new AbortController()
    const drained = this.#drain(drainMs, clock)
    const left = this.sessions.stop(patience.signal)
    await drained
    const cut = clock.after(drainMs, () => patience.abort())
    await left
    cut()
  }

  /** The same for its tunnels alone, until `patience` aborts: what runs then is cut. Nothing new is opened on it any more. */
  async stopTunnels(drainMs: number, clock: Clock, patience?: AbortSignal): Promise<void> {
    const drained = this.#drain(drainMs, clock)
    this.sessions.goAway()
    if (patience) await abortable(drained, patience).catch(() => undefined)
    await this.pool.stop()
  }

  /** Opens no more tunnels, and resolves once those that there are have ended. */
  async #drain(drainMs: number, clock: Clock): Promise<void> {
    const tunnels = this.pool.retire()
    const cancel = clock.after(drainMs, () => void this.pool.leave())
    await tunnels
    cancel()
  }

  #read(events: ConnectionEvents, session: TunnelSession, metadata: Metadata): void {
    if (session.draining) return
    const hints = readHints(metadata)
    if (hints.reuse) this.#reused.add(session)
    if (this.#addFeatures(session, hints.features ?? [])) events.featured()
    if (hints.pingIntervalMs !== undefined) this.sessions.pingEvery(session as ClientSession, hints.pingIntervalMs)
    if (hints.replica === undefined) return
    this.hints = hints
    this.#landing.abort()
    events.hinted(this, hints)
  }

  /** @returns whether one of them is new */
  #addFeatures(session: TunnelSession, names: readonly string[]): boolean {
    const known = this.#features.get(session) ?? new Set()
    const before = known.size
    for (const name of names) if (known.size < maxFeatures) known.add(name)
    this.#features.set(session, known)
    return known.size > before
  }

  #end(events: ConnectionEvents): void {
    const { place } = this
    this.hints = undefined
    this.#landing.abort()
    events.lost(this, place)
  }
}
