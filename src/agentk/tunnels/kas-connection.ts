import type { Metadata } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { pause } from '../../lib/pause.ts'
import { abortable } from '../../lib/signals.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import { type Hints, type Role, readHints } from '../../proto/placement.ts'
import type { KasAddress } from './kas-address.ts'
import type { KasSessions } from './kas-sessions.ts'
import { type PoolSize, stockPool, type TunnelPool, type TunnelSession } from './pool.ts'

/** The replica that a connection is to reach. Without an address, a header asks the front for it. */
export interface Target {
  readonly name: string
  readonly address?: KasAddress | undefined
}

/** Limit of the feature names that are kept of a session; kas sends a handful. */
const maxFeatures = 100

/** Parts that a connection is built with. */
export interface ConnectionParts {
  /** undefined: any replica that the front leads to */
  readonly target: Target | undefined
  /** read at each Connect */
  readonly role: () => Role
  readonly onMetadata: (session: TunnelSession, metadata: Metadata) => void
  /** kas reuses a tunnel after its call */
  readonly isReused: (session: TunnelSession) => boolean
  /** called at each failure; true: the connection ends; false: kas is dialled again */
  readonly endsWhenLost: () => boolean
  readonly onLost: () => void
}

export type BuildConnection = (parts: ConnectionParts) => { sessions: KasSessions; pool: TunnelPool }

export interface ConnectionEvents {
  /** the connection has a new session */
  readonly connected: (connection: KasConnection, session: ClientSession) => void
  /** kas has sent new hints */
  readonly hinted: (connection: KasConnection, hints: Hints) => void
  /** kas has sent a feature that is new on its session */
  readonly featured: () => void
  /** the replica is lost; not called for a home without a target, which is dialled again for ever */
  readonly lost: (connection: KasConnection, place: string | undefined) => void
}

/**
 * Sizes by role: upstream's (doc/reference/tunnel-protocol.md 2.7), and few where none is expected to be used. Each
 * call needs a connection to the API server: `maxConnections` there is more than both.
 */
const sizes: Record<Role, PoolSize> = { home: stockPool, standby: { minIdle: 1, max: 80 } }

/** One connection to kas with its tunnels, and the replica that it has reached. A lost connection is dialled again. */
export class KasConnection {
  readonly sessions: KasSessions
  readonly pool: TunnelPool
  readonly target: Target | undefined
  /** last hints of the present session */
  hints: Hints | undefined
  #role: Role
  /** sessions on which kas has announced that it reuses tunnels */
  readonly #reused = new WeakSet<TunnelSession>()
  /** features of kas' modules, as it has sent them on a session */
  readonly #features = new WeakMap<TunnelSession, Set<string>>()
  /** aborts when the connection has reached a replica, or never will */
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

  /** Name of the replica at the other end; undefined: kas has not sent it yet. */
  get place(): string | undefined {
    return this.hints?.replica
  }

  /** True if the connection is at a replica that has not announced that it leaves. */
  get stays(): boolean {
    return this.hints !== undefined && !this.hints.leaving
  }

  get role(): Role {
    return this.#role
  }

  /** Changes the role, and opens a tunnel by which kas learns of it. */
  set role(role: Role) {
    if (role === this.#role) return
    this.#role = role
    this.pool.resize(sizes[role])
    this.pool.openOne()
  }

  /** True if kas has sent the feature on this session. */
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
   * Leaves the replica so that no call is on its way to a tunnel that ends: GOAWAY makes kas end idle tunnels. Running
   * calls end by themselves. Tunnels that still wait after `drainMs` are cancelled.
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

  /** Does the same for the tunnels alone, and takes nothing new. Once `patience` aborts, running calls are cut. */
  async stopTunnels(drainMs: number, clock: Clock, patience?: AbortSignal): Promise<void> {
    const drained = this.#drain(drainMs, clock)
    this.sessions.goAway()
    if (patience) await abortable(drained, patience).catch(() => undefined)
    await this.pool.stop()
  }

  /** Opens no more tunnels, and resolves once all open ones have ended. */
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

  /** @returns true if a name is new */
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
