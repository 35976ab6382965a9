import { hasShare } from '../../call/caller.ts'
import type { KasError } from '../../lib/errors.ts'
import type { Tunnel } from './tunnel.ts'
import { type RunningStream, Shares, type TunnelRequest } from './tunnel-shares.ts'
import { type Contended, Scarcity, type ScarcityComponents } from './waiting/scarcity.ts'
import { type Waiter, WaitingCalls } from './waiting/waiting-calls.ts'

export interface TunnelsOptions {
  /** calls that may wait for one agent at once */
  readonly maxWaitingPerAgent: number
  /** calls on a connection from which its remaining tunnels are reserved for callers with few tunnels */
  readonly plentyPerConnection: number
  /** number of tunnels below which a caller has few */
  readonly few: number
}

export interface AgentTunnelsEvents {
  /** Called when there is neither a tunnel nor a waiting call. */
  readonly onEmpty: () => void
  /** Called when the last tunnel has ended. */
  readonly onLast: () => void
}

/** Tunnels of one agent at this replica, and the calls that wait for one. */
export class AgentTunnels implements Contended {
  /** all tunnels that have not ended, idle or not */
  readonly living = new Set<Tunnel>()
  /** oldest first, so that calls spread over the agent's pods */
  readonly #idle = new Set<Tunnel>()
  readonly #components: ScarcityComponents
  readonly #options: TunnelsOptions
  readonly #events: AgentTunnelsEvents
  /** undefined: no tunnel is taken */
  #shares: Shares | undefined
  /** undefined: no call waits */
  #waiting: WaitingCalls | undefined
  #scarcity: Scarcity | undefined
  /** most tunnels since there was none, or since the first waiting call came */
  #mostLiving = 0
  #grewAt = Number.NEGATIVE_INFINITY

  constructor(components: ScarcityComponents, options: TunnelsOptions, events: AgentTunnelsEvents) {
    this.#components = components
    this.#options = options
    this.#events = events
  }

  get shares(): Shares {
    this.#shares ??= new Shares()
    return this.#shares
  }

  get grewAt(): number {
    return this.#grewAt
  }

  get waiting(): number {
    return this.#waiting?.size ?? 0
  }

  get watches(): RunningStream[] {
    return this.#shares?.watches ?? []
  }

  get logs(): RunningStream[] {
    return this.#shares?.logs ?? []
  }

  serves(method: string): boolean {
    for (const { methods } of this.living) if (methods.has(method)) return true
    return false
  }

  /** Counts idle tunnels that serve the method now. */
  idleFor(method: string): number {
    let idle = 0
    for (const { state, methods } of this.#idle) if (state === 'idle' && methods.has(method)) idle++
    return idle
  }

  waiters(): Waiter[] {
    return this.#waiting?.servedBy(this.living) ?? []
  }

  /** Adds a new tunnel: gives it to a waiting call, else it is idle. */
  add(tunnel: Tunnel): void {
    this.living.add(tunnel)
    if (this.living.size > this.#mostLiving) {
      this.#mostLiving = this.living.size
      this.#grewAt = this.#components.clock.now()
    }
    this.#give(tunnel)
    const leave = () => {
      this.living.delete(tunnel)
      const isLast = this.living.size === 0
      if (isLast) this.#mostLiving = 0
      this.#idle.delete(tunnel)
      this.free(tunnel)
      this.#checkEmpty()
      if (isLast) this.#events.onLast()
    }
    tunnel.ended.then(leave, leave)
  }

  /** Offers a tunnel that was taken and is idle again. */
  idleAgain(tunnel: Tunnel): void {
    this.free(tunnel)
    this.#give(tunnel)
  }

  take(request: TunnelRequest): Tunnel | undefined {
    const now = this.#components.clock.now()
    let choice: Tunnel | undefined
    for (const tunnel of this.#idle) {
      if (tunnel.state !== 'idle' || !tunnel.methods.has(request.method)) continue
      if (!this.#mayHave(tunnel, request)) continue
      const isSuspect = tunnel.connection.isSuspect(now)
      if (!isSuspect || !choice) choice = tunnel
      if (!isSuspect) break
    }
    if (!choice) return undefined
    this.#idle.delete(choice)
    choice.take()
    this.shares.taken(choice, request)
    return choice
  }

  /** @throws KasError TOO_MANY_WAITING, CALLER_OVER_SHARE: at once, or later when another call needs the place */
  wait(request: TunnelRequest, signal: AbortSignal): Promise<Tunnel> {
    const idle = this.take(request) // a tunnel may have become idle while other holders were asked
    if (idle) return Promise.resolve(idle)
    const refusal = this.#scarcity?.refusalOf(request)
    if (refusal) throw refusal
    const { promise, resolve, reject } = Promise.withResolvers<Tunnel>()
    const leave = () => {
      this.#leave(waiter)
      reject(signal.reason)
    }
    const ended = () => signal.removeEventListener('abort', leave)
    const waiter: Waiter = {
      source: request.caller.key,
      request,
      since: this.#components.clock.now(),
      resolve: (tunnel) => {
        ended()
        resolve(tunnel)
      },
      reject: (error) => {
        ended()
        reject(error)
      },
    }
    if (!this.#waiting) this.#mostLiving = this.living.size
    this.#waiting ??= new WaitingCalls(this.#options.maxWaitingPerAgent)
    this.#waiting.add(waiter)
    signal.addEventListener('abort', leave, { once: true })
    this.#scarcity ??= new Scarcity(this.#components, this)
    return promise
  }

  refuse(waiter: Waiter, error: KasError): void {
    this.#leave(waiter)
    waiter.reject(error)
  }

  /** Ends a caller's use of a tunnel. A reserved idle tunnel may now be given to a waiting call. */
  free(tunnel: Tunnel): void {
    this.#shares?.left(tunnel)
    if (this.#shares?.isEmpty) this.#shares = undefined
    if (this.waiting === 0) return
    for (const idle of [...this.#idle]) {
      if (idle.state !== 'idle') continue
      this.#idle.delete(idle)
      this.#give(idle)
    }
  }

  /** Gives the tunnel to the waiting call whose turn it is, else it is idle. */
  #give(tunnel: Tunnel): void {
    const waiter = this.#waiting?.take(tunnel.methods, (request) => this.#mayHave(tunnel, request))
    if (!waiter) {
      this.#idle.add(tunnel)
      return
    }
    this.#checkWaiting()
    tunnel.take()
    this.shares.taken(tunnel, waiter.request)
    waiter.resolve(tunnel)
  }

  #mayHave({ connection }: Tunnel, { caller }: TunnelRequest): boolean {
    const { plentyPerConnection, few } = this.#options
    if (!this.#shares || this.#shares.on(connection) < plentyPerConnection || !hasShare(caller.key)) return true
    return this.#shares.holdsFewer(caller, few)
  }

  #leave(waiter: Waiter): void {
    this.#waiting?.delete(waiter)
    this.#checkWaiting()
    this.#checkEmpty()
  }

  #checkWaiting(): void {
    if (this.waiting > 0) return
    this.#scarcity?.end()
    this.#scarcity = undefined
    this.#waiting = undefined
  }

  #checkEmpty(): void {
    if (this.living.size === 0 && this.waiting === 0) this.#events.onEmpty()
  }
}
