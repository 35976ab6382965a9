import type { Socket } from 'node:net'
import { KasError } from '../../lib/errors.ts'
import { networkOf } from '../../lib/host-port.ts'
import { LoopTurns } from '../../lib/loop-turns.ts'
import { remoteOf } from '../../lib/remote-of.ts'

export interface NewcomersOptions {
  /**
   * connections of one address, or of one network of IPv6: many may share that of a front. Beyond it the one that has
   * been silent for longest makes room
   */
  readonly maxSilentPerAddress: number
  /** of all addresses */
  readonly maxSilent: number
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
const maxWaitingForTurn = 20_000

/** For callers that arrive in any number at once, and call at once. */
export const defaultNewcomers: NewcomersOptions = {
  maxSilentPerAddress: 1000,
  maxSilent: 2000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

export type NewcomerRefusal = 'too_slow' | 'too_many_connections'

export interface NewcomersComponents {
  /** ms, of a clock that is never set back: else nobody makes room for as long */
  readonly now: () => number
  readonly refused: (reason: NewcomerRefusal) => void
}

interface Newcomer {
  readonly remote: string
  readonly network: string
  readonly socket: Socket
  readonly cameAt: number
  /** calls whose token is being checked: while the directory is away that takes its time */
  checking: number
  silentSince: number
}

/**
 * Connections by which no call has been let in yet. Those that are silent, of which nothing is being checked, are
 * bounded.
 */
export class Newcomers {
  readonly #components: NewcomersComponents
  readonly #options: NewcomersOptions
  /** by their far end */
  readonly #newcomers = new Map<string, Newcomer>()
  /** the longest silent first */
  readonly #silent = new Set<Newcomer>()
  /** by their network */
  readonly #silentOf = new Map<string, Set<Newcomer>>()
  readonly #turns = new LoopTurns(checksPerTurn, maxWaitingForTurn)

  constructor(components: NewcomersComponents, options: NewcomersOptions = defaultNewcomers) {
    this.#components = components
    this.#options = options
  }

  /** @param socket - just accepted, before TLS */
  arrived(socket: Socket): void {
    const remote = remoteOf(socket)
    if (remote === undefined) return
    const network = networkOf(socket.remoteAddress as string)
    const cameAt = this.#components.now()
    const newcomer = { remote, network, socket, cameAt, checking: 0, silentSince: cameAt }
    this.#newcomers.set(remote, newcomer)
    socket.once('close', () => this.#forget(newcomer))
    this.#startSilence(newcomer)
  }

  /**
   * A call has come: if `check` resolves its connection is no newcomer any more. Meanwhile the connection is not silent;
   * if `check` rejects, its silence begins anew, if there is room. Of many that call at once some are checked in
   * each turn of the event loop, one network after another.
   *
   * @throws what `check` throws, KasError CREDENTIAL_NOT_CHECKED
   */
  admit<T>(remote: string | undefined, check: () => Promise<T>): Promise<T> {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    return newcomer ? this.#admit(newcomer, check) : check()
  }

  /** The connection is no newcomer any more, whatever calls come by it. */
  letIn(remote: string | undefined): void {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    if (newcomer) this.#forget(newcomer)
  }

  async #admit<T>(newcomer: Newcomer, check: () => Promise<T>): Promise<T> {
    newcomer.checking++
    this.#endSilence(newcomer)
    try {
      await this.#turn(newcomer)
      const answer = await check()
      this.#forget(newcomer)
      return answer
    } finally {
      newcomer.checking--
      if (this.#isNewcomer(newcomer) && newcomer.checking === 0) this.#startSilence(newcomer)
    }
  }

  #turn({ network }: Newcomer): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#turns.enter(network, resolve, () => reject(new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })))
    return promise
  }

  /** Closes those that have been silent for too long; to be called now and then. */
  closeSilent(): void {
    const oldest = this.#components.now() - this.#options.maxSilenceMs
    for (const newcomer of this.#silent) {
      if (newcomer.silentSince > oldest) return
      this.#components.refused('too_slow')
      this.#drop(newcomer)
    }
  }

  #isNewcomer(newcomer: Newcomer): boolean {
    return this.#newcomers.get(newcomer.remote) === newcomer
  }

  #forget(newcomer: Newcomer): void {
    if (this.#isNewcomer(newcomer)) this.#newcomers.delete(newcomer.remote)
    this.#endSilence(newcomer)
  }

  #startSilence(newcomer: Newcomer): void {
    if (!this.#makeRoom(newcomer.network)) {
      this.#drop(newcomer)
      return
    }
    newcomer.silentSince = this.#components.now()
    this.#silent.add(newcomer)
    const ofNetwork = this.#silentOf.get(newcomer.network)
    if (ofNetwork) ofNetwork.add(newcomer)
    else this.#silentOf.set(newcomer.network, new Set([newcomer]))
  }

  #endSilence(newcomer: Newcomer): void {
    if (!this.#silent.delete(newcomer)) return
    const ofNetwork = this.#silentOf.get(newcomer.network)
    ofNetwork?.delete(newcomer)
    if (ofNetwork?.size === 0) this.#silentOf.delete(newcomer.network)
  }

  /** Whether one more may be silent; another may be closed for it. */
  #makeRoom(network: string): boolean {
    const { maxSilent, maxSilentPerAddress, graceMs } = this.#options
    const ofNetwork = this.#silentOf.get(network)
    const isFull = ofNetwork !== undefined && ofNetwork.size >= maxSilentPerAddress
    if (!isFull && this.#silent.size < maxSilent) return true
    this.#components.refused('too_many_connections')
    const [longest] = isFull ? ofNetwork : this.#silent
    if (!longest || longest.cameAt > this.#components.now() - graceMs) return false
    this.#drop(longest)
    return true
  }

  #drop(newcomer: Newcomer): void {
    this.#forget(newcomer)
    newcomer.socket.destroy()
  }
}
