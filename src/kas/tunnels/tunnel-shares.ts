import type { Call } from '../../call/call.ts'
import { type Caller, hasShare, payerOf } from '../../call/caller.ts'
import { Counter } from '../../lib/counter.ts'
import type { Tunnel } from './tunnel.ts'

/** Properties of the call that a tunnel should serve. */
export type TunnelRequest = Pick<Call, 'agentId' | 'method' | 'caller' | 'isWatch' | 'isLog'>

/** Tunnels of an agent that one caller has. */
export interface Holding {
  readonly tunnels: number
  /** tunnels that carry a watch */
  readonly watches: number
}

/** A stream that ran when the list was made. */
export interface RunningStream {
  /** Ends it as if its connection were lost; does nothing if it has ended. */
  lose(): void
}

interface Use {
  readonly key: string
  readonly userKey: string
  readonly isWatch: boolean
  readonly isLog: boolean
}

const nothing: Holding = { tunnels: 0, watches: 0 }

/** Counts the tunnels of an agent that each caller has. */
export class Shares {
  /** the oldest call first */
  readonly #uses = new Map<Tunnel, Use>()
  readonly #onConnection = new Counter<object>()
  /** by the caller's key */
  readonly #holdings = new Map<string, { tunnels: number; watches: number }>()
  /** tunnels by the user's key, including the user's jobs in all projects */
  readonly #ofUsers = new Counter<string>()

  /** Keys of the callers that have a tunnel. */
  get callers(): Iterable<string> {
    return this.#holdings.keys()
  }

  get isEmpty(): boolean {
    return this.#uses.size === 0
  }

  of(callerKey: string): Holding {
    return this.#holdings.get(callerKey) ?? nothing
  }

  /** True if the caller has fewer tunnels, and so has the user behind it with all their jobs. */
  holdsFewer(caller: Caller, than: number): boolean {
    return this.of(caller.key).tunnels < than && this.#ofUsers.of(payerOf(caller)) < than
  }

  /** Returns the caller with most tunnels, among callers with a share and a watch. */
  most(): { readonly callerKey: string; readonly tunnels: number } | undefined {
    let most: { callerKey: string; tunnels: number } | undefined
    for (const [callerKey, { tunnels, watches }] of this.#holdings)
      if (watches > 0 && hasShare(callerKey) && tunnels > (most?.tunnels ?? 0)) most = { callerKey, tunnels }
    return most
  }

  /** Watches of all callers, the oldest first. */
  get watches(): RunningStream[] {
    return this.#running(({ isWatch }) => isWatch)
  }

  /** Followed logs of all callers, the oldest first. */
  get logs(): RunningStream[] {
    return this.#running(({ isLog }) => isLog)
  }

  /** Counts the tunnels of the connection that a caller has. */
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

  /** Ends the use of a tunnel that is idle again or has ended; does nothing if no caller has it. */
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
