import type { Call } from '../../call/call.ts'
import { type Caller, hasShare, payerOf } from '../../call/caller.ts'
import { Counter } from '../../lib/counter.ts'
import type { Tunnel } from './tunnel.ts'

/** What a tunnel is to serve. */
export type TunnelRequest = Pick<Call, 'agentId' | 'method' | 'caller' | 'isWatch' | 'isLog'>

/** What one caller holds of an agent's tunnels. */
export interface Holding {
  readonly tunnels: number
  /** of them */
  readonly watches: number
}

/** One that ran when it was asked for. */
export interface RunningStream {
  /** as if its connection were lost; nothing, if it has ended */
  lose(): void
}

interface Use {
  readonly key: string
  readonly userKey: string
  readonly isWatch: boolean
  readonly isLog: boolean
}

const nothing: Holding = { tunnels: 0, watches: 0 }

/** Which callers hold how many of an agent's tunnels. */
export class Shares {
  /** the oldest call first */
  readonly #uses = new Map<Tunnel, Use>()
  readonly #onConnection = new Counter<object>()
  /** by the caller's key */
  readonly #holdings = new Map<string, { tunnels: number; watches: number }>()
  /** tunnels by the key of the user, with those of his jobs in all projects */
  readonly #ofUsers = new Counter<string>()

  /** Callers that hold any, by their keys. */
  get callers(): Iterable<string> {
    return this.#holdings.keys()
  }

  get isEmpty(): boolean {
    return this.#uses.size === 0
  }

  of(callerKey: string): Holding {
    return this.#holdings.get(callerKey) ?? nothing
  }

  /** The caller holds fewer than that, and so does the user behind it with all that are his. */
  holdsFewer(caller: Caller, than: number): boolean {
    return this.of(caller.key).tunnels < than && this.#ofUsers.of(payerOf(caller)) < than
  }

  /** Who holds most of all that have a share and watch anything. */
  most(): { readonly callerKey: string; readonly tunnels: number } | undefined {
    let most: { callerKey: string; tunnels: number } | undefined
    for (const [callerKey, { tunnels, watches }] of this.#holdings)
      if (watches > 0 && hasShare(callerKey) && tunnels > (most?.tunnels ?? 0)) most = { callerKey, tunnels }
    return most
  }

  /** All of them, the oldest first. */
  get watches(): RunningStream[] {
    return this.#running(({ isWatch }) => isWatch)
  }

  /** That are followed. */
  get logs(): RunningStream[] {
    return this.#running(({ isLog }) => isLog)
  }

  /** Tunnels of the connection that are somebody's. */
  on(connection: object): number {
    return this.#onConnection.of(connection)
  }

  oldestWatch(callerKey: string): Tunnel | undefined {
    for (const [tunnel, { key, isWatch }] of this.#uses)
      if (isWatch && key === callerKey && tunnel.state === 'forwarding') return tunnel
    return undefined
  }

  taken(tunnel: Tunnel, { caller, isWatch = false, isLog = false }: TunnelRequest): void {
    const { key } = caller
    const userKey = payerOf(caller)
    this.#uses.set(tunnel, { key, userKey, isWatch, isLog })
    this.#ofUsers.add(userKey)
    this.#onConnection.add(tunnel.connection)
    const holding = this.#holdings.get(key) ?? { ...nothing }
    holding.tunnels++
    if (isWatch) holding.watches++
    this.#holdings.set(key, holding)
  }

  /** It is idle again, or has ended: nobody's, if it was somebody's. */
  left(tunnel: Tunnel): void {
    const use = this.#uses.get(tunnel)
    const holding = use && this.#holdings.get(use.key)
    if (!use || !holding) return
    this.#uses.delete(tunnel)
    this.#onConnection.add(tunnel.connection, -1)
    this.#ofUsers.add(use.userKey, -1)
    holding.tunnels--
    if (use.isWatch) holding.watches--
    if (holding.tunnels === 0) this.#holdings.delete(use.key)
  }

  #running(isWanted: (use: Use) => boolean): RunningStream[] {
    return [...this.#uses].flatMap(([tunnel, use]) => {
      const lose = () => void (this.#uses.get(tunnel) === use && tunnel.lose())
      return isWanted(use) ? [{ lose }] : []
    })
  }
}
