import type { Metadata } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { abortable } from '../../lib/signals.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import type { Hints, Place, Role } from '../../proto/placement.ts'
import { defaultFailedMoves, FailedMoves, type FailedMovesOptions, type Move } from './failed-moves.ts'
import type { KasAddress } from './kas-address.ts'
import { type BuildConnection, KasConnection, type Target } from './kas-connection.ts'

export interface KasConnectionsComponents {
  readonly build: BuildConnection
  /** metadata of a call to kas, with the present token of the agent */
  readonly metadata: () => Metadata
  /** returns the address that kas has named, if agentk may connect to it */
  readonly allowed: (address: string) => KasAddress | undefined
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface KasConnectionsOptions extends FailedMovesOptions {
  /** time in which a replica has to send its name, else it was not reached; in ms */
  readonly landMs: number
  /** time after which idle tunnels are cancelled that kas has not ended, in ms */
  readonly drainMs: number
}

export const defaultKasConnections: KasConnectionsOptions = {
  ...defaultFailedMoves,
  landMs: 10_000,
  drainMs: 5000,
}

/**
 * The connections to kas: home, and a standby if kas names one. Without hints from kas there is home alone, wherever
 * the front leads, as with a stock agent. A move opens the new connection before it leaves the old one
 * (doc/internals/agentk-placement.md).
 */
export class KasConnections implements Service {
  readonly metadata: () => Metadata
  readonly #components: KasConnectionsComponents
  readonly #options: KasConnectionsOptions
  /** connections that have not ended, including those that are being left */
  readonly #all = new Set<KasConnection>()
  readonly #onSession = new Listeners<ClientSession>()
  readonly #onFeature = new Listeners()
  readonly #stopping = new AbortController()
  readonly #failed: FailedMoves
  #home: KasConnection
  #standby: KasConnection | undefined
  #serving = false
  /** no connection takes anything new */
  #hasLeft = false
  #wanted: Hints | undefined
  #again = false
  #following: Promise<void> | undefined
  /** calls of connections that have ended */
  #servedBefore = 0

  /**
   * The tunnels of all connections, as a service of their own. The modules that serve their calls start after the
   * connections and before the tunnels.
   */
  readonly tunnels: Service = {
    start: async () => {
      this.#serving = true
      await Promise.all([...this.#all].map((connection) => connection.startTunnels()))
    },
    leave: async () => this.#stop(),
    // not in `leave`: home still reports to kas that this pod leaves
    stop: async (patience) => {
      this.#stop()
      this.#hasLeft = true
      const { clock } = this.#components
      const { drainMs } = this.#options
      await Promise.all([...this.#all].map((connection) => connection.stopTunnels(drainMs, clock, patience)))
    },
  }

  constructor(components: KasConnectionsComponents, options: KasConnectionsOptions = defaultKasConnections) {
    this.metadata = components.metadata
    this.#components = components
    this.#options = options
    const { clock, random } = components
    this.#failed = new FailedMoves({ clock, random, onExpired: () => this.#schedule() }, options)
    this.#home = this.#create('home')
  }

  get connected(): boolean {
    return this.#home.sessions.connected
  }

  /** Names of the replicas; undefined: not known, or no connection. */
  get places(): { home: string | undefined; standby: string | undefined } {
    return { home: this.#home.place, standby: this.#standby?.place }
  }

  get counts(): { idle: number; active: number; served: number } {
    const sum = { idle: 0, active: 0, served: this.#servedBefore }
    for (const { pool } of this.#all) {
      sum.idle += pool.counts.idle
      sum.active += pool.counts.active
      sum.served += pool.counts.served
    }
    return sum
  }

  /** Waits for the session of home; never resolves after the stop. @throws the reason of the signal, or of the stop */
  async session(signal: AbortSignal): Promise<ClientSession> {
    for (;;) {
      // a caller is stopped next; an error would make it ask again
      if (this.#hasLeft) await abortable(new Promise<never>(() => undefined), signal)
      const home = this.#home
      try {
        return await home.sessions.session(signal)
      } catch (error) {
        if (signal.aborted || home === this.#home) throw error
      }
    }
  }

  /** Calls `listener` with each session that home gets from now on. */
  onSession(listener: (session: ClientSession) => void): void {
    this.#onSession.add(listener)
  }

  /**
   * True if kas has a feature (`KasModule.features`), as it sends on a session of home, a moment after the first tunnel
   * has opened. A stock kas has none.
   */
  hasFeature(session: ClientSession, name: string): boolean {
    return this.#home.hasFeature(session, name)
  }

  /** Calls `listener` when kas sends new features on any session, until the returned function is called. */
  onFeature(listener: () => void): () => void {
    return this.#onFeature.add(listener)
  }

  pingEvery(session: ClientSession, intervalMs: number): void {
    for (const { sessions } of this.#all) sessions.pingEvery(session, intervalMs)
  }

  /** Announces to kas that the methods of this pod have changed. */
  announce(): void {
    for (const { pool } of this.#all) pool.announce()
  }

  async start(): Promise<void> {
    await this.#home.sessions.start()
  }

  async stop(patience?: AbortSignal): Promise<void> {
    this.#stop()
    await Promise.all([...this.#all].map(({ sessions }) => sessions.stop(patience)))
    await this.#following
  }

  #stop(): void {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    this.#failed.clear()
  }

  #create(role: Role, target?: Target): KasConnection {
    const events = {
      connected: (connection: KasConnection, session: ClientSession) => this.#connected(connection, session),
      hinted: (connection: KasConnection, hints: Hints) => this.#hinted(connection, hints),
      featured: () => this.#onFeature.notify(),
      lost: (connection: KasConnection, place: string | undefined) => this.#lost(connection, place),
    }
    const connection = new KasConnection({ build: this.#components.build, events }, { role, target })
    this.#all.add(connection)
    return connection
  }

  #connected(connection: KasConnection, session: ClientSession): void {
    if (connection !== this.#home) return
    this.#onSession.notify(session)
  }

  #hinted(connection: KasConnection, hints: Hints): void {
    if (connection !== this.#home && connection !== this.#standby) return
    // a replica that leaves knows it before the others do; if it names no home, the hints before stay in force
    const isNewest = connection === this.#home || !this.#home.sessions.connected || hints.leaving
    if (isNewest && (hints.home || !hints.leaving)) this.#wanted = hints
    this.#schedule()
  }

  #lost(connection: KasConnection, place: string | undefined): void {
    if (this.#stopping.signal.aborted || (connection !== this.#home && connection !== this.#standby)) return
    const name = connection.target?.name ?? place
    if (connection === this.#standby) this.#failed.again()
    if (name !== undefined) this.#failed.lost(name)
    if (connection === this.#home) {
      this.#home = this.#create('home')
      this.#begin(this.#home)
    } else {
      this.#standby = undefined
      this.#schedule()
    }
    this.#retire(connection)
  }

  #begin(connection: KasConnection): void {
    void connection.sessions.start()
    if (this.#serving) void connection.startTunnels()
  }

  #retire(connection: KasConnection): void {
    const { clock } = this.#components
    void connection.retire(this.#options.drainMs, clock).then(() => {
      this.#servedBefore += connection.pool.counts.served
      this.#all.delete(connection)
    })
  }

  /** Follows the hints of kas, one step after another. A call during a step causes one more step. */
  #schedule(): void {
    this.#again = true
    if (this.#stopping.signal.aborted) return
    this.#following ??= this.#follow().finally(() => {
      this.#following = undefined
      if (this.#again) this.#schedule()
    })
  }

  async #follow(): Promise<void> {
    while (this.#again && !this.#stopping.signal.aborted) {
      this.#again = false
      if (this.#wanted?.home) await this.#goHome(this.#wanted.home)
      if (!this.#stopping.signal.aborted) await this.#keepStandby(this.#secondPlace())
    }
  }

  /** Returns the wanted standby. If that replica is home meanwhile, it is the wanted home instead. */
  #secondPlace(): Place | undefined {
    const { home, standby } = this.#wanted ?? {}
    return standby && standby.name === this.#home.place ? home : standby
  }

  async #goHome(place: Place): Promise<void> {
    if (place.name === this.#home.place) return
    if (this.#standby?.place === place.name || !(await this.#moveHome(place))) this.#useStandby(place)
  }

  /** @returns true if home is there now */
  async #moveHome(place: Place): Promise<boolean> {
    if (this.#failed.has('home', place.name)) return false
    const connection = await this.#open('home', place)
    if (connection.place === place.name && connection.stays) {
      this.#settle(connection)
      return true
    }
    this.#avoid('home', place, connection)
    this.#retire(connection)
    return false
  }

  /** Makes the standby home, if it can stay and is where home should be, or if home leaves. */
  #useStandby({ name }: Place): void {
    const standby = this.#standby
    if (standby?.stays && (standby.place === name || this.#home.hints?.leaving)) this.#settle(standby)
  }

  /**
   * Makes `connection`, which has reached its replica, the home. The old home becomes the standby if kas wants it
   * there, or while there is no other: two replicas have tunnels at all times.
   */
  #settle(connection: KasConnection): void {
    const old = this.#home
    this.#components.log.info({ replica: connection.place, from: old.place }, 'Moved to another replica of kas')
    this.#home = connection
    connection.role = 'home'
    if (this.#standby === connection) this.#standby = undefined
    else this.#wanted = connection.hints // the newest hints; those of a standby may be old
    const isWanted = old.stays && old.place === this.#wanted?.standby?.name
    if (old.sessions.connected && old.place !== undefined && (isWanted || !this.#standby)) {
      if (this.#standby) this.#retire(this.#standby)
      this.#standby = old
      old.role = 'standby'
    } else this.#retire(old)
    connection.sessions.session(this.#stopping.signal).then(
      (session) => this.#connected(connection, session),
      () => undefined, // the session is lost again; listeners get the next one
    )
  }

  async #keepStandby(place: Place | undefined): Promise<void> {
    const current = this.#standby
    if (current && (!place || (current.place !== undefined && current.place === this.#home.place))) {
      this.#standby = undefined
      this.#failed.again()
      this.#retire(current)
    }
    if (!place || place.name === this.#home.place || this.#standby?.place === place.name) return
    if (this.#failed.has(this.#standbyMove, place.name)) return
    const connection = await this.#open('standby', place)
    const old = this.#standby
    const { place: landed, hints } = connection
    // any replica but home is better than none, and one that stays is better than one that leaves
    const isBetter = !old || (connection.stays && (landed === place.name || !old.stays))
    if (hints && landed !== this.#home.place && isBetter) {
      this.#standby = connection
      this.#hinted(connection, hints) // as its hints came, it was neither home nor standby
      if (old) this.#retire(old)
    } else this.#retire(connection)
    if (this.#standby?.stays) this.#failed.found()
    if (landed !== place.name || this.#standby !== connection) this.#avoid(this.#standbyMove, place, connection)
  }

  get #standbyMove(): Move {
    return this.#standby?.stays ? 'better standby' : 'standby'
  }

  #avoid(move: Move, { name }: Place, { place }: KasConnection): void {
    if (this.#stopping.signal.aborted) return
    if (place === name) this.#failed.leaves(move, name)
    else this.#failed.add(move, name, { answered: place !== undefined })
  }

  /** @returns a new connection that has reached a replica; its place is undefined if it has not */
  async #open(role: Role, place: Place): Promise<KasConnection> {
    const { clock, log } = this.#components
    const connection = this.#create(role, this.#target(place))
    this.#begin(connection)
    await connection.landing(this.#options.landMs, clock, this.#stopping.signal)
    const fields = { replica: place.name, reached: connection.place, role }
    if (connection.place !== place.name) log.info(fields, 'A replica that kas has named was not reached')
    return connection
  }

  #target({ name, address }: Place): Target {
    if (address === undefined) return { name }
    const allowed = this.#components.allowed(address)
    if (allowed) return { name, address: allowed }
    const advice = 'Its host must be below that of --kas-address, or named by --kas-allow-home, its scheme as strong'
    this.#components.log.warn(
      { replica: name, net_address: address },
      `The address of a replica is not used. ${advice}`,
    )
    return { name }
  }
}
