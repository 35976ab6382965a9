import type { Socket } from 'node:net'
import { KasError } from '../../lib/errors.ts'
import { networkOf } from '../../lib/host-port.ts'
import { LoopTurns } from '../../lib/loop-turns.ts'
import { remoteOf } from '../../lib/remote-of.ts'

export interface NewcomersOptions {
  /**
   * connections of one address, of IPv6 of one network: a front's may be that of many; beyond it the one that is silent
   * for longest makes room
   */
  readonly maxSilentPerAddress: number
  /** of all addresses */
  readonly maxSilent: number
  /**
   * One that came so short a time ago makes no room, the next one is refused: where a thousand come at once, who came
   * first is about to speak. TLS and a first call over a long way take so long. ms
   */
  readonly graceMs: number
  /** an agent calls as soon as it is connected, and again 20 s after a refusal at the latest. ms */
  readonly maxSilenceMs: number
}

/** To ask about a call takes the event loop about a quarter of a ms. */
const askedPerTurn = 4
const maxWaitingForTurn = 20_000

/** Where callers come at once in any number, and say at once what they want. */
export const defaultNewcomers: NewcomersOptions = {
  maxSilentPerAddress: 1000,
  maxSilent: 2000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

export type NewcomerRefusal = 'too_slow' | 'too_many_connections'

export interface NewcomersComponents {
  /** ms, of a clock that is never set back: else nobody would make room for as long */
  readonly now: () => number
  readonly refused: (reason: NewcomerRefusal) => void
}

interface Newcomer {
  readonly remote: string
  readonly network: string
  readonly socket: Socket
  readonly cameAt: number
  /** calls whose token is being asked about: while the directory is away that takes its time */
  asking: number
  silentSince: number
}

/**
 * Connections by which no call has come yet that was let in. Those that are silent are bounded: nothing of them is being
 * checked just now.
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
  readonly #turns = new LoopTurns(askedPerTurn, maxWaitingForTurn)

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
    const newcomer = { remote, network, socket, cameAt, asking: 0, silentSince: cameAt }
    this.#newcomers.set(remote, newcomer)
    socket.once('close', () => this.#forget(newcomer))
    this.#startSilence(newcomer)
  }

  /**
   * A call has come: it is somebody's, and its connection no newcomer any more, if `ask` resolves. Meanwhile the
   * connection is not silent; if `ask` rejects, its silence begins anew, if there is room. Of many that call at once some
   * are asked about at a time, one network after another, and most of the event loop is left to others.
   *
   * @throws what `ask` throws, KasError CREDENTIAL_NOT_CHECKED
   */
  admit<T>(remote: string | undefined, ask: () => Promise<T>): Promise<T> {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    return newcomer ? this.#admit(newcomer, ask) : ask()
  }

  /** It is somebody's, whatever comes by it. */
  letIn(remote: string | undefined): void {
    const newcomer = remote === undefined ? undefined : this.#newcomers.get(remote)
    if (newcomer) this.#forget(newcomer)
  }

  async #admit<T>(newcomer: Newcomer, ask: () => Promise<T>): Promise<T> {
    newcomer.asking++
    this.#endSilence(newcomer)
    try {
      await this.#turn(newcomer)
      const answer = await ask()
      this.#forget(newcomer)
      return answer
    } finally {
      newcomer.asking--
      if (this.#isNewcomer(newcomer) && newcomer.asking === 0) this.#startSilence(newcomer)
    }
  }

  #turn({ network }: Newcomer): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#turns.enter(network, resolve, () => reject(new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })))
    return promise
  }

  /** Ends those that have been silent for too long; to be called every now and then. */
  check(): void {
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

  /** Whether one more may be silent; another one may have ended for it. */
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
