import type { Metadata } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { pause } from '../../lib/pause.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import { type Hints, type Role, readHints } from '../../proto/placement.ts'
import type { KasAddress } from './kas-address.ts'
import type { KasLink } from './kas-session.ts'
import type { TunnelPool, TunnelSession } from './pool.ts'

/** The replica that a lane is to reach; without an address by the front, which is asked for it by header. */
export interface Target {
  readonly name: string
  readonly address?: KasAddress
}

/** What a lane's parts are built with. */
export interface LaneParts {
  /** absent: wherever the front leads */
  readonly target?: Target
  /** asked at each Connect */
  readonly role: () => Role
  readonly onMetadata: (session: TunnelSession, metadata: Metadata) => void
  /** kas goes on with a tunnel after its call */
  readonly isReused: (session: TunnelSession) => boolean
  /** absent: it is dialled again for ever */
  readonly onOver?: () => void
}

export type BuildLane = (parts: LaneParts) => { link: KasLink; pool: TunnelPool }

export interface LaneEvents {
  /** there is a new connection */
  readonly connected: (lane: Lane, session: ClientSession) => void
  /** kas has told something */
  readonly heard: (lane: Lane, hints: Hints) => void
  /** the replica is not reached any more; only with a target */
  readonly over: (lane: Lane) => void
}

/**
 * Idle tunnels by role: upstream's two (doc/reference/tunnel-protocol.md 2.7), and one where none is expected to be
 * used.
 */
const idleTunnels: Record<Role, number> = { home: 2, standby: 1 }

/** One connection to kas with its tunnels, and at which replica it has come out. */
export class Lane {
  readonly link: KasLink
  readonly pool: TunnelPool
  readonly target: Target | undefined
  /** the last that was heard on the present connection */
  hints: Hints | undefined
  #role: Role
  /** connections on which kas has said that tunnels carry one call after another */
  readonly #reused = new WeakSet<TunnelSession>()
  /** aborts when it has landed, or never will */
  readonly #landing = new AbortController()

  constructor(
    { build, events }: { build: BuildLane; events: LaneEvents },
    { role, target }: { role: Role; target?: Target },
  ) {
    this.#role = role
    this.target = target
    const { link, pool } = build({
      ...(target ? { target, onOver: () => this.#end(events) } : {}),
      role: () => this.#role,
      onMetadata: (session, metadata) => this.#read(events, session, metadata),
      isReused: (session) => this.#reused.has(session),
    })
    this.link = link
    this.pool = pool
    link.onSession((session) => {
      this.hints = undefined
      events.connected(this, session)
    })
  }

  /** Name of the replica at the other end; undefined until it has told. */
  get place(): string | undefined {
    return this.hints?.replica
  }

  get role(): Role {
    return this.#role
  }

  /** kas hears it with the next tunnel, which is opened for that. */
  set role(role: Role) {
    if (role === this.#role) return
    this.#role = role
    this.pool.keepIdle(idleTunnels[role])
    this.pool.openOne()
  }

  async startTunnels(): Promise<void> {
    this.pool.keepIdle(idleTunnels[this.#role])
    await this.pool.start()
  }

  /** Resolves when `place` is known, it is over, or `signal` aborts; after `ms` at the latest. */
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
    const tunnels = this.pool.retire()
    const left = this.link.stop(patience.signal)
    const cancel = clock.after(drainMs, () => void this.pool.leave())
    await tunnels
    cancel()
    const cut = clock.after(drainMs, () => patience.abort())
    await left
    cut()
  }

  #read(events: LaneEvents, session: TunnelSession, metadata: Metadata): void {
    if (session.draining) return
    const hints = readHints(metadata)
    if (hints.reuse) this.#reused.add(session)
    if (hints.pingIntervalMs !== undefined) this.link.pingEvery(session as ClientSession, hints.pingIntervalMs)
    if (hints.replica === undefined) return
    this.hints = hints
    this.#landing.abort()
    events.heard(this, hints)
  }

  #end(events: LaneEvents): void {
    this.hints = undefined
    this.#landing.abort()
    events.over(this)
  }
}
