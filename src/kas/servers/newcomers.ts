import type { Socket } from 'node:net'
import { KasError } from '../../lib/errors.ts'
import { networkOf, remoteOf } from '../../lib/host-port.ts'
import { LoopTurns } from '../../lib/loop-turns.ts'
import { abortable } from '../../lib/signals.ts'
import { FairQueue } from '../../lib/turns.ts'

export interface NewcomersOptions {
  /**
   * connections of one address, or of one network of IPv6, that are silent or wait for a turn: many may share that of a
   * front. Beyond it the one that has been silent for longest makes room
   */
  readonly maxIdlePerAddress: number
  /** of all addresses; where nobody can make room, those that have least come first */
  readonly maxIdle: number
  /** connections of which a call is being checked, which takes its time while the directory is away */
  readonly maxChecked: number
  /** calls of fronts that are being checked, each of which holds less than a connection; absent: `maxChecked` */
  readonly maxCheckedAlone?: number
  /** calls of one connection that are being checked: one that waits holds less; absent: any number */
  readonly maxCheckedPerConnection?: number
  /**
   * One that arrived less than this ago makes no room, and the next is refused: where a thousand arrive at once, the
   * first are about to call. TLS and a first call over a long distance take so long. ms
   */
  readonly graceMs: number
  /** an agent calls as soon as it is connected, and again 20 s after a refusal at the latest. ms */
  readonly maxSilenceMs: number
}

/** A check takes the event loop about a quarter of a ms. */
const checksPerTurn = 4
/** Connections: newcomers have a lower bound, and those that were let in meanwhile end their turns. */
const maxWaitingForTurn = 20_000
/** Calls that wait for a turn on one connection. Clients open a hundred at the most before they learn how many may be. */
export const maxWaitingPerConnection = 128

/** For callers that arrive in any number at once, and call at once. */
export const defaultNewcomers: NewcomersOptions = {
  maxIdlePerAddress: 1000,
  maxIdle: 2000,
  maxChecked: 2000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

export type NewcomerRefusal = 'too_slow' | 'too_many_connections'

export interface NewcomersComponents {
  /** ms, of a clock that is never set back: else nobody makes room for as long */
  readonly now: () => number
  readonly refused: (reason: NewcomerRefusal) => void
}

/** A call before it is checked. */
interface Waiting {
  begin(): void
  refuse(reason: unknown): void
}

interface Newcomer {
  /** undefined: a call by itself, which is never silent */
  readonly remote: string | undefined
  /** its network */
  readonly source: string
  readonly cut: () => void
  isForgotten: boolean
  readonly cameAt: number
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
export class Newcomers {
  readonly #components: NewcomersComponents
  readonly #options: NewcomersOptions
  /** by their far end */
  readonly #newcomers = new Map<string, Newcomer>()
  /** silent, or waiting */
  readonly #idle: FairQueue<Newcomer>
  readonly #checked: FairQueue<Newcomer>
  /** the same, of calls by themselves */
  readonly #checkedAlone: FairQueue<Newcomer>
  /** the longest silent first */
  readonly #inactive = new Set<Newcomer>()
  /** by their network */
  readonly #inactiveOf = new Map<string, Set<Newcomer>>()
  /** of connections that have calls waiting, also once they are let in: one call each */
  readonly #turns = new LoopTurns(checksPerTurn, maxWaitingForTurn)

  constructor(components: NewcomersComponents, options: NewcomersOptions = defaultNewcomers) {
    this.#components = components
    this.#options = options
    this.#idle = new FairQueue(options.maxIdle)
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
    const newcomer = this.#create(address as string, { remote, cut: () => socket.destroy() })
    this.#newcomers.set(remote, newcomer)
    socket.on('close', () => this.#leave(newcomer, new KasError({ code: 'CANCELLED' })))
    this.#place(newcomer)
  }

  /**
   * A call has come: if `check` resolves its connection is no newcomer any more. Until then the connection is not
   * silent; if `check` rejects, its silence begins anew, if there is room. Of many that call at once some are checked in
   * each turn of the event loop, one network after another, and in it one connection after another.
   *
   * @param signal - the call's: it waits for no turn once that aborts
   * @throws what `check` throws, KasError CREDENTIAL_NOT_CHECKED, CANCELLED, the signal's reason
   */
  admit<T>(remote: string | undefined, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    return newcomer ? this.#admit(newcomer, check, signal) : check(signal)
  }

  /**
   * As `admit`, of a call on a connection that carries those of others too: it counts as a newcomer by itself.
   *
   * @param address - whose it counts as
   * @param check - gets a signal that aborts, too, once there is no room for it
   */
  admitAlone<T>(address: string, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const lost = new AbortController()
    const newcomer = this.#create(address, { remote: undefined, cut: () => lost.abort(notChecked()) })
    const either = AbortSignal.any([signal, lost.signal])
    return this.#admit(newcomer, (checking) => abortable(check(checking), checking), either)
  }

  /** The connection is no newcomer any more, whatever calls come by it. */
  letIn(remote: string | undefined): void {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    if (newcomer) this.#forget(newcomer)
  }

  /** Closes those that have been silent for too long; to be called now and then. */
  closeInactive(): void {
    const oldest = this.#components.now() - this.#options.maxSilenceMs
    for (const newcomer of this.#inactive) {
      if (newcomer.inactiveSince > oldest) return
      this.#components.refused('too_slow')
      this.#drop(newcomer)
    }
  }

  #create(address: string, what: Pick<Newcomer, 'remote' | 'cut'>): Newcomer {
    return {
      source: networkOf(address),
      ...what,
      isForgotten: false,
      cameAt: this.#components.now(),
      waiting: new Set(),
      leaveTurns: undefined,
      checking: 0,
      state: 'none',
      inactiveSince: 0,
    }
  }

  async #admit<T>(newcomer: Newcomer, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(newcomer, signal)
    try {
      const answer = await check(signal)
      this.#forget(newcomer)
      return answer
    } finally {
      newcomer.checking--
      this.#enterTurns(newcomer)
      this.#place(newcomer)
    }
  }

  /** Once it resolves the call counts as being checked. */
  async #turn(newcomer: Newcomer, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { waiting } = newcomer
    if (waiting.size >= maxWaitingPerConnection) throw notChecked()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const call = { begin: resolve, refuse: reject }
    waiting.add(call)
    this.#enterTurns(newcomer)
    this.#place(newcomer)
    if (!waiting.has(call)) return await promise
    const onAbort = () => {
      waiting.delete(call)
      if (waiting.size === 0) this.#leaveTurns(newcomer)
      this.#place(newcomer)
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
  #enterTurns(newcomer: Newcomer): void {
    const { waiting, checking, leaveTurns } = newcomer
    const { maxCheckedPerConnection = Number.POSITIVE_INFINITY } = this.#options
    if (waiting.size === 0 || leaveTurns || checking >= maxCheckedPerConnection) return
    const lost = () => {
      newcomer.leaveTurns = undefined
      this.#refuseWaiting(newcomer, notChecked())
      this.#place(newcomer)
    }
    const leave = this.#turns.enter(newcomer.source, () => this.#begin(newcomer), lost)
    if (leave) newcomer.leaveTurns = leave // else it has begun, and so may have those behind it
  }

  #leaveTurns(newcomer: Newcomer): void {
    newcomer.leaveTurns?.()
    newcomer.leaveTurns = undefined
  }

  #begin(newcomer: Newcomer): void {
    newcomer.leaveTurns = undefined
    const { waiting } = newcomer
    const [call] = waiting
    newcomer.checking++
    this.#place(newcomer)
    if (!call || !waiting.delete(call)) return // there was no room for it
    call.begin()
    this.#enterTurns(newcomer)
  }

  #refuseWaiting({ waiting }: Newcomer, reason: KasError): void {
    for (const call of waiting) call.refuse(reason)
    waiting.clear()
  }

  #forget(newcomer: Newcomer): void {
    const { remote } = newcomer
    if (remote !== undefined && this.#newcomers.get(remote) === newcomer) this.#newcomers.delete(remote)
    newcomer.isForgotten = true
    this.#place(newcomer)
  }

  /** The connection has ended. */
  #leave(newcomer: Newcomer, reason: KasError): void {
    this.#forget(newcomer)
    this.#leaveTurns(newcomer)
    this.#refuseWaiting(newcomer, reason)
  }

  #drop(newcomer: Newcomer): void {
    this.#leave(newcomer, notChecked())
    newcomer.cut()
  }

  #stateOf({ remote, isForgotten, checking, waiting }: Newcomer): Newcomer['state'] {
    if (isForgotten) return 'none'
    if (checking > 0) return 'checked'
    if (waiting.size > 0) return 'waiting'
    return remote === undefined ? 'none' : 'inactive'
  }

  /** Counts it as what it is now; where there is no room for one more, it or another is closed. */
  #place(newcomer: Newcomer): void {
    const { state: before } = newcomer
    const state = this.#stateOf(newcomer)
    if (state === before) return
    newcomer.state = state
    if (before === 'inactive') this.#endSilence(newcomer)
    if (isIdle(before) && !isIdle(state)) this.#idle.delete(newcomer)
    const checked = newcomer.remote === undefined ? this.#checkedAlone : this.#checked
    if (before === 'checked') checked.delete(newcomer)
    if (isIdle(state) && !isIdle(before) && !this.#beIdle(newcomer)) return
    if (state === 'inactive') this.#startSilence(newcomer)
    if (state === 'checked') this.#dropLoser(checked.add(newcomer))
  }

  /** @returns whether there is room for it */
  #beIdle(newcomer: Newcomer): boolean {
    const { maxIdle, maxIdlePerAddress, graceMs } = this.#options
    const { source } = newcomer
    const isFull = this.#idle.sizeOf(source) >= maxIdlePerAddress
    if (!isFull && this.#idle.size < maxIdle) return this.#idle.add(newcomer) === undefined
    const [longest] = (isFull ? this.#inactiveOf.get(source) : this.#inactive) ?? []
    if (longest && longest.cameAt <= this.#components.now() - graceMs) this.#dropLoser(longest)
    else if (isFull) {
      this.#dropLoser(newcomer)
      return false
    }
    const loser = this.#idle.add(newcomer)
    this.#dropLoser(loser)
    return loser !== newcomer
  }

  #dropLoser(loser: Newcomer | undefined): void {
    if (!loser) return
    if (loser.remote !== undefined) this.#components.refused('too_many_connections') // a call is refused by itself
    this.#drop(loser)
  }

  #startSilence(newcomer: Newcomer): void {
    newcomer.inactiveSince = this.#components.now()
    this.#inactive.add(newcomer)
    const ofNetwork = this.#inactiveOf.get(newcomer.source)
    if (ofNetwork) ofNetwork.add(newcomer)
    else this.#inactiveOf.set(newcomer.source, new Set([newcomer]))
  }

  #endSilence(newcomer: Newcomer): void {
    this.#inactive.delete(newcomer)
    const ofNetwork = this.#inactiveOf.get(newcomer.source)
    ofNetwork?.delete(newcomer)
    if (ofNetwork?.size === 0) this.#inactiveOf.delete(newcomer.source)
  }
}

function isIdle(state: Newcomer['state']): boolean {
  return state === 'inactive' || state === 'waiting'
}

function notChecked(): KasError {
  return new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })
}
