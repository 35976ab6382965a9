import type { Socket } from 'node:net'
import { KasError } from '../../lib/errors.ts'
import { remoteOf } from '../../lib/host-port.ts'
import { LoopTurns } from '../../lib/loop-turns.ts'
import { NetworkQueue } from '../../lib/network-queue.ts'
import { abortable } from '../../lib/signals.ts'
import { type Source, SourceHistory, sourceOf } from '../../lib/source-history.ts'
import { FairQueue } from '../../lib/turns.ts'

export interface UnauthenticatedOptions {
  /**
   * Bound of connections without a call, or waiting for a turn, per address or IPv6 network: many clients may share a
   * front's. Beyond it the connection that has been inactive for longest is closed.
   */
  readonly maxIdlePerAddress: number
  /** bound over all addresses; if no inactive one can be closed, a connection of the busiest or costliest network is */
  readonly maxIdle: number
  /** connections with a call that is being authenticated, which takes long while the directory is unavailable */
  readonly maxChecked: number
  /** calls of fronts that are being authenticated: each costs less than a connection; absent: `maxChecked` */
  readonly maxCheckedAlone?: number
  /** calls of one connection that are being authenticated: a waiting call costs less; absent: unbounded */
  readonly maxCheckedPerConnection?: number
  /**
   * A connection younger than this, or with its turn of TLS less than this ago, is not closed: the next one is refused.
   * If a thousand arrive at once, the first ones are about to call. TLS and a first call over a long distance take this
   * long. ms
   */
  readonly graceMs: number
  /** bound of inactivity: an agent calls once it is connected, and at most 20 s after a refusal. ms */
  readonly maxSilenceMs: number
}

/** Calls that begin authentication in one turn of the event loop: each takes about a quarter of a ms. */
const checksPerTurn = 4
/** Bound of connections that wait for turns, high because those that were let in meanwhile end their turns too. */
const maxWaitingForTurn = 20_000
/** Calls that wait for a turn on one connection. Clients open at most a hundred before they learn the limit. */
export const maxWaitingPerConnection = 128

/** Bounds for servers whose callers arrive in any number at once, and call at once. */
export const defaultUnauthenticated: UnauthenticatedOptions = {
  maxIdlePerAddress: 1000,
  maxIdle: 2000,
  maxChecked: 2000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

export type UnauthenticatedRefusal = 'too_slow' | 'too_many_connections'

export interface UnauthenticatedComponents {
  /** clock in ms that is never set back: after a step back no connection would be closed to make room */
  readonly now: () => number
  readonly refused: (reason: UnauthenticatedRefusal) => void
}

/** A call whose authentication has not begun. */
interface Waiting {
  begin(): void
  refuse(reason: unknown): void
}

interface UnauthenticatedConnection extends Source {
  /** undefined: a single call on a front's connection, which is never inactive */
  readonly remote: string | undefined
  readonly cut: () => void
  isForgotten: boolean
  /** when it arrived or had its turn of TLS */
  cameAt: number
  isWaitingForTls: boolean
  /** calls that wait for a turn, the oldest first */
  readonly waiting: Set<Waiting>
  leaveTurns: (() => void) | undefined
  /** calls that are being authenticated */
  checking: number
  /** the bound that it counts against */
  state: 'inactive' | 'waiting' | 'checked' | 'none'
  inactiveSince: number
}

/**
 * Bounds connections on which no call has been let in yet. One bound covers connections that are inactive or wait for a
 * turn, another one those with a call that is being authenticated.
 */
export class UnauthenticatedConnections {
  /** addresses that were let in, and cost that networks caused */
  readonly history: SourceHistory
  readonly #components: UnauthenticatedComponents
  readonly #options: UnauthenticatedOptions
  /** by remote address and port */
  readonly #connections = new Map<string, UnauthenticatedConnection>()
  /** inactive or waiting connections */
  readonly #idle: NetworkQueue<UnauthenticatedConnection>
  readonly #checked: FairQueue<UnauthenticatedConnection>
  /** the same for single calls on fronts' connections */
  readonly #checkedAlone: FairQueue<UnauthenticatedConnection>
  /** the longest inactive first */
  readonly #inactive = new Set<UnauthenticatedConnection>()
  /** inactive connections by network */
  readonly #inactiveOf = new Map<string, Set<UnauthenticatedConnection>>()
  /** turns of connections with waiting calls, also after they are let in: one call in each turn */
  readonly #turns = new LoopTurns(checksPerTurn, maxWaitingForTurn)

  constructor(components: UnauthenticatedComponents, options: UnauthenticatedOptions = defaultUnauthenticated) {
    this.#components = components
    this.#options = options
    this.history = new SourceHistory(components.now)
    this.#idle = new NetworkQueue(options.maxIdle, this.history)
    this.#checked = new FairQueue(options.maxChecked)
    this.#checkedAlone = new FairQueue(options.maxCheckedAlone ?? options.maxChecked)
  }

  /**
   * @param socket - accepted just now, before TLS
   * @param address - address that it counts for
   */
  arrived(socket: Socket, address = socket.remoteAddress): void {
    this.#turns.giveWay()
    const remote = remoteOf(socket)
    if (remote === undefined) return
    const connection = this.#create(address as string, { remote, cut: () => socket.destroy() })
    this.#connections.set(remote, connection)
    this.history.ask(connection.network)
    socket.on('close', () => this.#leave(connection, new KasError({ code: 'CANCELLED' })))
    this.#place(connection)
  }

  /**
   * Authenticates a call: if `check` resolves, its connection is let in. A connection with a call is not inactive; if
   * `check` rejects, it becomes inactive, or is closed if there is no room. If many call at once, some begin in each
   * turn of the event loop. Networks take turns, and in each network its connections.
   *
   * @param signal - the call's signal: once it aborts, the call waits no more
   * @throws the error of `check`, KasError CREDENTIAL_NOT_CHECKED, CANCELLED, the signal's reason
   */
  admit<T>(remote: string | undefined, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const connection = remote === undefined ? undefined : this.#connections.get(remote)
    return connection ? this.#admit(connection, check, signal) : check(signal)
  }

  /**
   * Authenticates a call as `admit` does, on a connection that also carries other clients' calls: the call counts as a
   * connection of its own.
   *
   * @param address - address that the call counts for
   * @param check - its signal also aborts when there is no more room for the call
   */
  admitAlone<T>(address: string, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const lost = new AbortController()
    const connection = this.#create(address, { remote: undefined, cut: () => lost.abort(notChecked()) })
    const either = AbortSignal.any([signal, lost.signal])
    return this.#admit(connection, (checking) => abortable(check(checking), checking), either)
  }

  /**
   * Notes that the connection has sent bytes and waits for its turn of TLS: it is not inactive.
   *
   * @returns must be called when the turn comes
   */
  waitsForTls(remote: string | undefined): () => void {
    const connection = remote === undefined ? undefined : this.#connections.get(remote)
    if (!connection) return () => undefined
    connection.isWaitingForTls = true
    this.#place(connection)
    return () => {
      connection.isWaitingForTls = false
      connection.cameAt = this.#components.now()
      this.#place(connection)
    }
  }

  /** Lets the connection in, whatever calls come on it. */
  letIn(remote: string | undefined): void {
    const connection = remote === undefined ? undefined : this.#connections.get(remote)
    if (connection) this.#letIn(connection)
  }

  /** Closes connections that have been inactive for too long; must be called regularly. */
  closeInactive(): void {
    const oldest = this.#components.now() - this.#options.maxSilenceMs
    for (const connection of this.#inactive) {
      if (connection.inactiveSince > oldest) return
      this.#components.refused('too_slow')
      this.#drop(connection)
    }
  }

  #create(address: string, what: Pick<UnauthenticatedConnection, 'remote' | 'cut'>): UnauthenticatedConnection {
    return {
      ...sourceOf(address),
      ...what,
      isForgotten: false,
      cameAt: this.#components.now(),
      isWaitingForTls: false,
      waiting: new Set(),
      leaveTurns: undefined,
      checking: 0,
      state: 'none',
      inactiveSince: 0,
    }
  }

  async #admit<T>(
    connection: UnauthenticatedConnection,
    check: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    await this.#turn(connection, signal)
    try {
      const answer = await check(signal)
      this.#letIn(connection)
      return answer
    } finally {
      connection.checking--
      this.#enterTurns(connection)
      this.#place(connection)
    }
  }

  /** Waits for the call's turn; the call then counts as being authenticated. */
  async #turn(connection: UnauthenticatedConnection, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { waiting } = connection
    if (waiting.size >= maxWaitingPerConnection) throw notChecked()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const call = { begin: resolve, refuse: reject }
    waiting.add(call)
    this.#enterTurns(connection)
    this.#place(connection)
    if (!waiting.has(call)) return await promise
    const onAbort = () => {
      waiting.delete(call)
      if (waiting.size === 0) this.#leaveTurns(connection)
      this.#place(connection)
      reject(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Enters the turns, unless the connection is there already or has no call that may begin. */
  #enterTurns(connection: UnauthenticatedConnection): void {
    const { waiting, checking, leaveTurns } = connection
    const { maxCheckedPerConnection = Number.POSITIVE_INFINITY } = this.#options
    if (waiting.size === 0 || leaveTurns || checking >= maxCheckedPerConnection) return
    const lost = () => {
      connection.leaveTurns = undefined
      this.#refuseWaiting(connection, notChecked())
      this.#place(connection)
    }
    const leave = this.#turns.enter(connection.source, () => this.#begin(connection), lost)
    if (leave) connection.leaveTurns = leave // else its turn has come already
  }

  #leaveTurns(connection: UnauthenticatedConnection): void {
    connection.leaveTurns?.()
    connection.leaveTurns = undefined
  }

  #begin(connection: UnauthenticatedConnection): void {
    connection.leaveTurns = undefined
    const { waiting } = connection
    const [call] = waiting
    connection.checking++
    this.#place(connection)
    if (!call || !waiting.delete(call)) return // there was no room for the call
    call.begin()
    this.#enterTurns(connection)
  }

  #refuseWaiting({ waiting }: UnauthenticatedConnection, reason: KasError): void {
    for (const call of waiting) call.refuse(reason)
    waiting.clear()
  }

  /** Records the address, except for a single call: its client, which a front names, has not connected. */
  #letIn(connection: UnauthenticatedConnection): void {
    if (connection.remote !== undefined) this.history.letIn(connection)
    this.#forget(connection)
  }

  #forget(connection: UnauthenticatedConnection): void {
    const { remote } = connection
    if (remote !== undefined && this.#connections.get(remote) === connection) this.#connections.delete(remote)
    connection.isForgotten = true
    this.#place(connection)
  }

  /** Ends the connection: forgets it and refuses its waiting calls. */
  #leave(connection: UnauthenticatedConnection, reason: KasError): void {
    this.#forget(connection)
    this.#leaveTurns(connection)
    this.#refuseWaiting(connection, reason)
  }

  #drop(connection: UnauthenticatedConnection): void {
    this.#leave(connection, notChecked())
    connection.cut()
  }

  #stateOf(connection: UnauthenticatedConnection): UnauthenticatedConnection['state'] {
    const { remote, isForgotten, isWaitingForTls, checking, waiting } = connection
    if (isForgotten) return 'none'
    if (checking > 0) return 'checked'
    if (isWaitingForTls || waiting.size > 0) return 'waiting'
    return remote === undefined ? 'none' : 'inactive'
  }

  /** Counts the connection by its current state; if there is no room, it or another one is closed. */
  #place(connection: UnauthenticatedConnection): void {
    const { state: before } = connection
    const state = this.#stateOf(connection)
    if (state === before) return
    connection.state = state
    if (before === 'inactive') this.#endSilence(connection)
    if (isIdle(before) && !isIdle(state)) this.#idle.delete(connection)
    const checked = connection.remote === undefined ? this.#checkedAlone : this.#checked
    if (before === 'checked') checked.delete(connection)
    if (isIdle(state) && !isIdle(before) && !this.#beIdle(connection)) return
    if (state === 'inactive') this.#startSilence(connection)
    if (state === 'checked') this.#dropLoser(checked.add(connection))
  }

  /** @returns true: there is room for it */
  #beIdle(connection: UnauthenticatedConnection): boolean {
    const { maxIdle, maxIdlePerAddress, graceMs } = this.#options
    const { source } = connection
    const isFull = this.#idle.sizeOf(connection) >= maxIdlePerAddress
    if (!isFull && this.#idle.size < maxIdle) return this.#idle.add(connection) === undefined
    const [longest] = (isFull ? this.#inactiveOf.get(source) : this.#inactive) ?? []
    if (longest && longest.cameAt <= this.#components.now() - graceMs) this.#dropLoser(longest)
    else if (isFull) {
      this.#dropLoser(connection)
      return false
    }
    const loser = this.#idle.add(connection)
    this.#dropLoser(loser)
    return loser !== connection
  }

  #dropLoser(loser: UnauthenticatedConnection | undefined): void {
    if (!loser) return
    if (loser.remote !== undefined) this.#components.refused('too_many_connections') // not for single calls
    this.#drop(loser)
  }

  #startSilence(connection: UnauthenticatedConnection): void {
    connection.inactiveSince = this.#components.now()
    this.#inactive.add(connection)
    const ofNetwork = this.#inactiveOf.get(connection.source)
    if (ofNetwork) ofNetwork.add(connection)
    else this.#inactiveOf.set(connection.source, new Set([connection]))
  }

  #endSilence(connection: UnauthenticatedConnection): void {
    this.#inactive.delete(connection)
    const ofNetwork = this.#inactiveOf.get(connection.source)
    ofNetwork?.delete(connection)
    if (ofNetwork?.size === 0) this.#inactiveOf.delete(connection.source)
  }
}

function isIdle(state: UnauthenticatedConnection['state']): boolean {
  return state === 'inactive' || state === 'waiting'
}

function notChecked(): KasError {
  return new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })
}
