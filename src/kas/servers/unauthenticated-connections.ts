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
   * connections of one address, or of one network of IPv6, that are silent or wait for a turn: many may share that of a
   * front. Beyond it the one that has been silent for longest makes room
   */
  readonly maxIdlePerAddress: number
  /** of all addresses; where nobody can make room, the latest of the network with most does, or of the one that took most */
  readonly maxIdle: number
  /** connections of which a call is being checked, which takes its time while the directory is away */
  readonly maxChecked: number
  /** calls of fronts that are being checked, each of which holds less than a connection; absent: `maxChecked` */
  readonly maxCheckedAlone?: number
  /** calls of one connection that are being checked: one that waits holds less; absent: any number */
  readonly maxCheckedPerConnection?: number
  /**
   * One that arrived, or had its turn of TLS, less than this ago makes no room, and the next is refused: where a thousand arrive at once, the
   * first are about to call. TLS and a first call over a long distance take so long. ms
   */
  readonly graceMs: number
  /** an agent calls as soon as it is connected, and again 20 s after a refusal at the latest. ms */
  readonly maxSilenceMs: number
}

/** A check takes the event loop about a quarter of a ms. */
const checksPerTurn = 4
/** Connections: those that are not let in have a lower bound, and those that were let in meanwhile end their turns. */
const maxWaitingForTurn = 20_000
/** Calls that wait for a turn on one connection. Clients open a hundred at the most before they learn how many may be. */
export const maxWaitingPerConnection = 128

/** For callers that arrive in any number at once, and call at once. */
export const defaultUnauthenticated: UnauthenticatedOptions = {
  maxIdlePerAddress: 1000,
  maxIdle: 2000,
  maxChecked: 2000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

export type UnauthenticatedRefusal = 'too_slow' | 'too_many_connections'

export interface UnauthenticatedComponents {
  /** ms, of a clock that is never set back: else nobody makes room for as long */
  readonly now: () => number
  readonly refused: (reason: UnauthenticatedRefusal) => void
}

/** A call before it is checked. */
interface Waiting {
  begin(): void
  refuse(reason: unknown): void
}

interface UnauthenticatedConnection extends Source {
  /** undefined: a call by itself, which is never silent */
  readonly remote: string | undefined
  readonly cut: () => void
  isForgotten: boolean
  /** or had its turn of TLS */
  cameAt: number
  isWaitingForTls: boolean
  /** calls that wait for a turn, the first that came first */
  readonly waiting: Set<Waiting>
  leaveTurns: (() => void) | undefined
  /** calls whose token is being checked */
  checking: number
  /** what it counts as */
  state: 'inactive' | 'waiting' | 'checked' | 'none'
  inactiveSince: number
}

/**
 * Connections by which no call has been let in yet, which are bounded: those that are silent or wait for a turn
 * together, and those of which something is being checked.
 */
export class UnauthenticatedConnections {
  /** who was let in, and what strangers took */
  readonly history: SourceHistory
  readonly #components: UnauthenticatedComponents
  readonly #options: UnauthenticatedOptions
  /** by their far end */
  readonly #connections = new Map<string, UnauthenticatedConnection>()
  /** silent, or waiting */
  readonly #idle: NetworkQueue<UnauthenticatedConnection>
  readonly #checked: FairQueue<UnauthenticatedConnection>
  /** the same, of calls by themselves */
  readonly #checkedAlone: FairQueue<UnauthenticatedConnection>
  /** the longest silent first */
  readonly #inactive = new Set<UnauthenticatedConnection>()
  /** by their network */
  readonly #inactiveOf = new Map<string, Set<UnauthenticatedConnection>>()
  /** of connections that have calls waiting, also once they are let in: one call each */
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
   * @param socket - just accepted, before TLS
   * @param address - whose it counts as
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
   * A call has come: if `check` resolves its connection is let in. Until then it is not silent; if `check` rejects, its
   * silence begins anew, if there is room. Of many that call at once some are checked in each turn of the event loop, one
   * network after another, and in it one connection after another.
   *
   * @param signal - the call's: it waits for no turn once that aborts
   * @throws what `check` throws, KasError CREDENTIAL_NOT_CHECKED, CANCELLED, the signal's reason
   */
  admit<T>(remote: string | undefined, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const connection = remote === undefined ? undefined : this.#connections.get(remote)
    return connection ? this.#admit(connection, check, signal) : check(signal)
  }

  /**
   * As `admit`, of a call on a connection that carries those of others too: it counts as a connection of its own.
   *
   * @param address - whose it counts as
   * @param check - gets a signal that aborts, too, once there is no room for it
   */
  admitAlone<T>(address: string, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const lost = new AbortController()
    const connection = this.#create(address, { remote: undefined, cut: () => lost.abort(notChecked()) })
    const either = AbortSignal.any([signal, lost.signal])
    return this.#admit(connection, (checking) => abortable(check(checking), checking), either)
  }

  /** It has spoken and waits for its turn of TLS: it is not silent. @returns to be called once that has come */
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

  /** The connection is let in, whatever calls come by it. */
  letIn(remote: string | undefined): void {
    const connection = remote === undefined ? undefined : this.#connections.get(remote)
    if (connection) this.#letIn(connection)
  }

  /** Closes those that have been silent for too long; to be called now and then. */
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

  /** Once it resolves the call counts as being checked. */
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

  /** Unless it is there already, or has nothing that may begin. */
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
    if (leave) connection.leaveTurns = leave // else it has begun, and so may have those behind it
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
    if (!call || !waiting.delete(call)) return // there was no room for it
    call.begin()
    this.#enterTurns(connection)
  }

  #refuseWaiting({ waiting }: UnauthenticatedConnection, reason: KasError): void {
    for (const call of waiting) call.refuse(reason)
    waiting.clear()
  }

  /** A call by itself is of whom a front names, who has not connected. */
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

  /** The connection has ended. */
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

  /** Counts it as what it is now; where there is no room for one more, it or another is closed. */
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

  /** @returns whether there is room for it */
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
    if (loser.remote !== undefined) this.#components.refused('too_many_connections') // a call is refused by itself
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
