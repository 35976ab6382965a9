import type { AgentId } from '../../call/call.ts'
import { hasShare } from '../../call/caller.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { FairQueue } from '../../lib/fair-queue.ts'
import { type RunningWatch, Shares, type Wish } from './shares.ts'
import type { Tunnel } from './tunnel.ts'

export interface TunnelsOptions {
  /** calls that may wait for one agent at once */
  readonly maxWaitingPerAgent: number
  /** calls of a connection beyond which the rest of its tunnels is for callers that hold few */
  readonly plentyPerConnection: number
  /** so many */
  readonly few: number
}

/** A waiting call costs some 15 KB at the entry; a connection of agentk carries 500 at once. */
const defaultTunnelsOptions: TunnelsOptions = { maxWaitingPerAgent: 1000, plentyPerConnection: 450, few: 10 }

/** Tunnels are scarce once a call has waited for so many round trips of the agent, in which a new one would have come, */
const scarceRoundTrips = 3
/** and for so long. ms */
const scarceMs = 200
/** Whatever a PING says. ms */
const maxScarceMs = 2000
/** Between two looks at whether they are. ms */
const lookMs = 200
/** Who has waited for so long gets the tunnel of the oldest watch of the caller that holds most. ms */
const recallMs = 600

/** Of who holds twice his share, and more, it is more. s */
const retryAfterS = { least: 5, most: 30 }

export interface TunnelRegistryComponents {
  /** a monotonic one */
  readonly clock: Clock
  /** default `Math.random` */
  readonly random?: () => number
}

interface Waiter {
  /** the caller's key: callers take turns */
  readonly source: string
  readonly wish: Wish
  readonly since: number
  readonly resolve: (tunnel: Tunnel) => void
  readonly reject: (error: KasError) => void
}

/** What this replica has of one agent. */
interface AgentTunnels {
  /** oldest first, so that calls spread over the agent's pods */
  readonly idle: Set<Tunnel>
  /** by method, the one whose turn is next first; undefined: none */
  waiters: Map<string, FairQueue<Waiter>> | undefined
  waiting: number
  /** a call waits, and none came for too long */
  isScarce: boolean
  stopLooking: (() => void) | undefined
  /** by then the tunnels have come for which watches were recalled */
  recallsFrom: number
  /** of those that are taken; undefined: none is */
  shares: Shares | undefined
  /** all that live, idle or not */
  readonly living: Set<Tunnel>
  /** since there was none; `grewAt`: since when there are so many. While the agent opens more, none is scarce */
  mostLiving: number
  grewAt: number
}

/** The tunnels that end at this replica, and the calls that wait for one. */
export class TunnelRegistry {
  readonly #agents = new Map<AgentId, AgentTunnels>()
  readonly #options: TunnelsOptions
  readonly #clock: Clock
  readonly #random: () => number

  constructor({ clock, random = Math.random }: TunnelRegistryComponents, options: Partial<TunnelsOptions> = {}) {
    this.#clock = clock
    this.#random = random
    this.#options = { ...defaultTunnelsOptions, ...options }
  }

  /** Agents with at least one tunnel here. */
  get agentCount(): number {
    let count = 0
    for (const agent of this.#agents.values()) if (agent.living.size > 0) count++
    return count
  }

  /** The agent has a tunnel here, idle or busy. */
  holds(agentId: AgentId): boolean {
    return (this.#agents.get(agentId)?.living.size ?? 0) > 0
  }

  /** It has one here, idle or busy, that serves the method. */
  serves(agentId: AgentId, method: string): boolean {
    for (const { methods } of this.#agents.get(agentId)?.living ?? []) if (methods.has(method)) return true
    return false
  }

  /** Agents with at least one tunnel here, for reports. */
  agentIds(): AgentId[] {
    return [...this.#agents].flatMap(([agentId, { living }]) => (living.size > 0 ? [agentId] : []))
  }

  /** What a call of `method` would find here now, for reports. */
  counts(agentId: AgentId, method: string): { idle: number; waiting: number; living: number } {
    const agent = this.#agents.get(agentId)
    if (!agent) return { idle: 0, waiting: 0, living: 0 }
    let idle = 0
    for (const { state, methods } of agent.idle) if (state === 'idle' && methods.has(method)) idle++
    return { idle, waiting: agent.waiting, living: agent.living.size }
  }

  /** Watches that run here. */
  watches(): RunningWatch[] {
    return [...this.#agents.values()].flatMap(({ shares }) => shares?.watches ?? [])
  }

  /** A new tunnel: it goes to a waiter whose method it serves, by turns of callers, else it is idle. */
  add(agentId: AgentId, tunnel: Tunnel): void {
    const agent = this.#of(agentId)
    agent.living.add(tunnel)
    if (agent.living.size > agent.mostLiving) {
      agent.mostLiving = agent.living.size
      agent.grewAt = this.#clock.now()
    }
    this.#offer(agent, tunnel)
    const leave = () => {
      agent.living.delete(tunnel)
      if (agent.living.size === 0) agent.mostLiving = 0
      agent.idle.delete(tunnel)
      this.#left(agent, tunnel)
      this.#forget(agentId, agent)
    }
    tunnel.ended.then(leave, leave)
  }

  /**
   * An idle tunnel that serves the method: the caller owns it. Tunnels of connections that leave a PING unanswered
   * are the last choice. The last ones of a connection are for callers that hold few.
   */
  take(wish: Wish): Tunnel | undefined {
    const agent = this.#agents.get(wish.agentId)
    if (!agent) return undefined
    const now = this.#clock.now()
    let choice: Tunnel | undefined
    for (const tunnel of agent.idle) {
      if (tunnel.state !== 'idle' || !tunnel.methods.has(wish.method)) continue
      if (!this.#mayHave(agent, tunnel, wish.caller.key)) continue
      const isSuspect = tunnel.connection.isSuspect(now)
      if (!isSuspect || !choice) choice = tunnel
      if (!isSuspect) break
    }
    if (!choice) return undefined
    agent.idle.delete(choice)
    give(agent, choice, wish)
    return choice
  }

  /** Puts back a tunnel that was taken and not used. */
  giveBack(agentId: AgentId, tunnel: Tunnel): void {
    if (tunnel.state !== 'taken') return
    tunnel.giveBack()
    if (tunnel.connection.retired.aborted)
      tunnel.retire() // it would keep a connection that is to end
    else this.offer(agentId, tunnel)
  }

  /** One that was added, and has become idle again: as `add`. */
  offer(agentId: AgentId, tunnel: Tunnel): void {
    const agent = this.#of(agentId)
    this.#left(agent, tunnel)
    this.#offer(agent, tunnel)
  }

  /**
   * Waits for a tunnel: the caller owns it.
   *
   * @param signal - ends the wait; its reason is thrown
   * @throws KasError TOO_MANY_WAITING, CALLER_OVER_SHARE: at once, or later in favour of another
   */
  wait(wish: Wish, signal: AbortSignal): Promise<Tunnel> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const { agentId, method, caller } = wish
    const agent = this.#of(agentId)
    const refusal = agent.isScarce ? this.#refusalOf(agent, wish, callersOf(agent)) : undefined
    if (refusal) throw refusal
    const { promise, resolve, reject } = Promise.withResolvers<Tunnel>()
    const leave = () => {
      this.#remove(agent, waiter)
      this.#forget(agentId, agent)
      reject(signal.reason)
    }
    const waiter: Waiter = {
      source: caller.key,
      wish,
      since: this.#clock.now(),
      resolve: (tunnel) => {
        signal.removeEventListener('abort', leave)
        resolve(tunnel)
      },
      reject: (error) => {
        signal.removeEventListener('abort', leave)
        reject(error)
      },
    }
    this.#enter(agent, method, waiter)
    signal.addEventListener('abort', leave, { once: true })
    this.#look(agent)
    return promise
  }

  /** @throws KasError TOO_MANY_WAITING: who waits most makes room for others, else there is none */
  #enter(agent: AgentTunnels, method: string, waiter: Waiter): void {
    const limit = this.#options.maxWaitingPerAgent
    const tooMany = () => new KasError({ code: 'TOO_MANY_WAITING', limit })
    const queue = agent.waiters?.get(method) ?? new FairQueue<Waiter>(limit)
    if (agent.waiting >= limit && queue.size < limit) throw tooMany() // others wait for another method
    const loser = queue.add(waiter)
    if (loser === waiter) throw tooMany()
    agent.waiters ??= new Map()
    agent.waiters.set(method, queue)
    if (loser) loser.reject(tooMany())
    else agent.waiting++
  }

  #offer(agent: AgentTunnels, tunnel: Tunnel): void {
    const waiter = this.#next(agent, tunnel)
    if (!waiter) {
      agent.idle.add(tunnel)
      return
    }
    give(agent, tunnel, waiter.wish)
    waiter.resolve(tunnel)
  }

  /** Whose turn it is, of those whose method the tunnel serves and who may have it. It waits no more. */
  #next(agent: AgentTunnels, tunnel: Tunnel): Waiter | undefined {
    const may = (callerKey: string) => this.#mayHave(agent, tunnel, callerKey)
    for (const [method, queue] of agent.waiters ?? []) {
      const waiter = tunnel.methods.has(method) ? queue.take(may) : undefined
      if (!waiter) continue
      agent.waiters?.delete(method)
      if (queue.size > 0) agent.waiters?.set(method, queue) // behind the other methods
      this.#waitsNoMore(agent)
      return waiter
    }
    return undefined
  }

  /** The tunnel is nobody's any more: one that was not for everybody may be now. */
  #left(agent: AgentTunnels, tunnel: Tunnel): void {
    const { shares } = agent
    if (!shares) return
    shares.left(tunnel)
    if (shares.isEmpty) agent.shares = undefined
    if (agent.waiting === 0 || agent.idle.size === 0) return
    for (const idle of [...agent.idle]) {
      if (idle.state !== 'idle') continue
      agent.idle.delete(idle)
      this.#offer(agent, idle)
    }
  }

  #mayHave(agent: AgentTunnels, { connection }: Tunnel, callerKey: string): boolean {
    const { plentyPerConnection, few } = this.#options
    if ((agent.shares?.on(connection) ?? 0) < plentyPerConnection || !hasShare(callerKey)) return true
    return (agent.shares?.of(callerKey).tunnels ?? 0) < few
  }

  /** Sees to it that somebody looks whether tunnels are scarce, as long as calls wait. */
  #look(agent: AgentTunnels): void {
    if (agent.stopLooking) return
    const now = this.#clock.now()
    for (const { connection } of agent.living) connection.measure(now)
    agent.stopLooking = this.#clock.after(lookMs, () => {
      agent.stopLooking = undefined
      this.#relieve(agent)
      if (agent.waiting > 0) this.#look(agent)
    })
  }

  /** Where tunnels are scarce, who holds more than his share waits no more, and gives up watches for others. */
  #relieve(agent: AgentTunnels): void {
    const waiters = waitersOf(agent)
    const latest = this.#clock.now() - scarceAfterMs(agent)
    agent.isScarce = agent.grewAt <= latest && waiters.some(({ since }) => since <= latest)
    if (!agent.isScarce) return
    const callers = callersOf(agent)
    for (const waiter of waiters) {
      const refusal = this.#refusalOf(agent, waiter.wish, callers)
      if (!refusal) continue
      this.#remove(agent, waiter)
      waiter.reject(refusal)
    }
    this.#recall(agent, callers.size)
  }

  /** A watch for each call that has waited for long: what ends in order, and is opened again by its client. */
  #recall(agent: AgentTunnels, callers: number): void {
    const now = this.#clock.now()
    if (now < agent.recallsFrom) return
    agent.recallsFrom = now + scarceAfterMs(agent)
    const share = agent.living.size / callers
    for (const { since } of waitersOf(agent)) {
      if (since > now - recallMs) continue
      const most = agent.shares?.most()
      const tunnel = most && most.tunnels > share ? agent.shares?.oldestWatch(most.callerKey) : undefined
      if (!tunnel) return
      this.#left(agent, tunnel)
      tunnel.recall()
    }
  }

  /** @param callers - that hold tunnels or wait for one */
  #refusalOf({ shares, living }: AgentTunnels, wish: Wish, callers: ReadonlySet<string>): KasError | undefined {
    const { key } = wish.caller
    const { tunnels: held, watches } = shares?.of(key) ?? { tunnels: 0, watches: 0 }
    const share = living.size / (callers.has(key) ? callers.size : callers.size + 1)
    if (!hasShare(key) || held <= share) return undefined
    return new KasError({
      code: 'CALLER_OVER_SHARE',
      agentId: String(wish.agentId),
      held,
      living: living.size,
      watches,
      retryAfterS: this.#retryAfterS(held / share),
    })
  }

  /** So that those who are refused together do not come back together. */
  #retryAfterS(sharesHeld: number): number {
    const { least, most } = retryAfterS
    const seconds = least * sharesHeld * (0.75 + this.#random() / 2)
    return Math.round(Math.min(most, Math.max(least, seconds)))
  }

  #remove(agent: AgentTunnels, waiter: Waiter): void {
    const { method } = waiter.wish
    const queue = agent.waiters?.get(method)
    if (!queue?.delete(waiter)) return
    if (queue.size === 0) agent.waiters?.delete(method)
    this.#waitsNoMore(agent)
  }

  #waitsNoMore(agent: AgentTunnels): void {
    if (--agent.waiting > 0) return
    agent.waiters = undefined
    agent.isScarce = false
    agent.stopLooking?.()
    agent.stopLooking = undefined
  }

  #of(agentId: AgentId): AgentTunnels {
    let agent = this.#agents.get(agentId)
    if (!agent) {
      agent = {
        idle: new Set(),
        waiters: undefined,
        waiting: 0,
        isScarce: false,
        stopLooking: undefined,
        recallsFrom: 0,
        shares: undefined,
        living: new Set(),
        mostLiving: 0,
        grewAt: Number.NEGATIVE_INFINITY,
      }
      this.#agents.set(agentId, agent)
    }
    return agent
  }

  #forget(agentId: AgentId, agent: AgentTunnels): void {
    if (agent.living.size === 0 && agent.waiting === 0) this.#agents.delete(agentId)
  }
}

function give(agent: AgentTunnels, tunnel: Tunnel, wish: Wish): void {
  tunnel.take()
  agent.shares ??= new Shares()
  agent.shares.taken(tunnel, wish)
}

/** Those who wait for what some tunnel serves: for all others no tunnel will do. */
function waitersOf({ waiters, living }: AgentTunnels): Waiter[] {
  return [...(waiters ?? [])].flatMap(([method, queue]) => {
    for (const { methods } of living) if (methods.has(method)) return [...queue.items()]
    return []
  })
}

/** Callers that hold tunnels or wait for one, by their keys. */
function callersOf(agent: AgentTunnels): Set<string> {
  const callers = new Set(agent.shares?.callers)
  for (const { source } of waitersOf(agent)) callers.add(source)
  return callers
}

/** A connection whose PING is not answered yet is further away than a look takes. */
function scarceAfterMs({ living }: AgentTunnels): number {
  let longestMs = 0
  for (const { connection } of living) longestMs = Math.max(longestMs, connection.roundTripMs ?? lookMs)
  return Math.min(maxScarceMs, Math.max(scarceMs, scarceRoundTrips * longestMs))
}
