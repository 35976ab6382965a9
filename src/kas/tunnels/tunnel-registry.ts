import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { Tunnel } from './tunnel.ts'

export interface TunnelsOptions {
  /** calls that may wait for one agent at once */
  readonly maxWaitingPerAgent: number
}

/** Each costs some 15 KB at the entry; a pod of agentk carries 500 at once. */
const defaultTunnelsOptions: TunnelsOptions = { maxWaitingPerAgent: 1000 }

interface Waiter {
  /** of all that have waited for the agent: the lowest came first */
  readonly place: number
  readonly resolve: (tunnel: Tunnel) => void
}

/** What this replica has of one agent. */
interface AgentTunnels {
  /** oldest first, so that calls spread over the agent's pods */
  readonly idle: Set<Tunnel>
  /** by method, first in, first out: a tunnel that serves none of them costs no more than their names; undefined: none */
  waiters: Map<string, Set<Waiter>> | undefined
  waiting: number
  lastPlace: number
  /** all that live, idle or not */
  readonly living: Set<Tunnel>
}

/** The tunnels that end at this replica, and the calls that wait for one. */
export class TunnelRegistry {
  readonly #agents = new Map<AgentId, AgentTunnels>()
  readonly #options: TunnelsOptions
  readonly #now: () => number

  constructor(components: { now: () => number }, options: TunnelsOptions = defaultTunnelsOptions) {
    this.#now = components.now
    this.#options = options
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

  /** A new tunnel: it goes to the oldest waiter whose method it serves, else it is idle. */
  add(agentId: AgentId, tunnel: Tunnel): void {
    const agent = this.#of(agentId)
    agent.living.add(tunnel)
    this.#offer(agent, tunnel)
    const leave = () => {
      agent.living.delete(tunnel)
      agent.idle.delete(tunnel)
      this.#forget(agentId, agent)
    }
    tunnel.ended.then(leave, leave)
  }

  /**
   * An idle tunnel that serves `method`: the caller owns it. Tunnels of connections that leave a PING unanswered
   * are the last choice.
   */
  take(agentId: AgentId, method: string): Tunnel | undefined {
    const idle = this.#agents.get(agentId)?.idle
    if (!idle) return undefined
    const now = this.#now()
    let choice: Tunnel | undefined
    for (const tunnel of idle) {
      if (tunnel.state !== 'idle' || !tunnel.methods.has(method)) continue
      const isSuspect = tunnel.connection.isSuspect(now)
      if (!isSuspect || !choice) choice = tunnel
      if (!isSuspect) break
    }
    if (!choice) return undefined
    idle.delete(choice)
    choice.take()
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
    this.#offer(this.#of(agentId), tunnel)
  }

  /**
   * Waits for a tunnel: the caller owns it.
   *
   * @param signal - ends the wait; its reason is thrown
   * @throws KasError TOO_MANY_WAITING
   */
  wait(agentId: AgentId, method: string, signal: AbortSignal): Promise<Tunnel> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const agent = this.#of(agentId)
    const limit = this.#options.maxWaitingPerAgent
    if (agent.waiting >= limit) throw new KasError({ code: 'TOO_MANY_WAITING', limit })
    return new Promise((resolve, reject) => {
      const leave = () => {
        remove(agent, method, waiter)
        this.#forget(agentId, agent)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        place: ++agent.lastPlace,
        resolve: (tunnel) => {
          signal.removeEventListener('abort', leave)
          resolve(tunnel)
        },
      }
      agent.waiters ??= new Map()
      const queue = agent.waiters.get(method)
      if (queue) queue.add(waiter)
      else agent.waiters.set(method, new Set([waiter]))
      agent.waiting++
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  #offer(agent: AgentTunnels, tunnel: Tunnel): void {
    const longest = longestWaiting(agent, tunnel)
    if (!longest) {
      agent.idle.add(tunnel)
      return
    }
    remove(agent, longest.method, longest.waiter)
    tunnel.take()
    longest.waiter.resolve(tunnel)
  }

  #of(agentId: AgentId): AgentTunnels {
    let agent = this.#agents.get(agentId)
    if (!agent) {
      agent = { idle: new Set(), waiters: undefined, waiting: 0, lastPlace: 0, living: new Set() }
      this.#agents.set(agentId, agent)
    }
    return agent
  }

  #forget(agentId: AgentId, agent: AgentTunnels): void {
    if (agent.living.size === 0 && agent.waiting === 0) this.#agents.delete(agentId)
  }
}

/** Of those whose method the tunnel serves. */
function longestWaiting(
  { waiters }: AgentTunnels,
  { methods }: Tunnel,
): { method: string; waiter: Waiter } | undefined {
  let longest: { method: string; waiter: Waiter } | undefined
  if (!waiters) return undefined
  for (const [method, queue] of waiters) {
    if (!methods.has(method)) continue
    const [waiter] = queue
    if (waiter && (!longest || waiter.place < longest.waiter.place)) longest = { method, waiter }
  }
  return longest
}

function remove(agent: AgentTunnels, method: string, waiter: Waiter): void {
  const queue = agent.waiters?.get(method)
  if (!queue?.delete(waiter)) return
  if (queue.size === 0) agent.waiters?.delete(method)
  if (--agent.waiting === 0) agent.waiters = undefined
}
