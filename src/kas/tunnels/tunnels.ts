import { KasError } from '../../lib/errors.ts'
import type { AgentId } from '../../proto/call.ts'
import type { Tunnel } from './tunnel.ts'

export interface TunnelsOptions {
  /** calls that may wait for one agent at once */
  readonly maxWaitingPerAgent: number
}

export const defaultTunnelsOptions: TunnelsOptions = { maxWaitingPerAgent: 10_000 }

interface Waiter {
  readonly method: string
  readonly resolve: (tunnel: Tunnel) => void
}

/** What this replica has of one agent. */
interface AgentTunnels {
  /** oldest first, so that calls spread over the agent's pods */
  readonly idle: Tunnel[]
  /** first in, first out */
  readonly waiters: Set<Waiter>
  /** all that live, idle or not */
  count: number
}

/** The tunnels that end at this replica, and the calls that wait for one. */
export class Tunnels {
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
    for (const agent of this.#agents.values()) if (agent.count > 0) count++
    return count
  }

  /** The agent has a tunnel here, idle or busy. */
  holds(agentId: AgentId): boolean {
    return (this.#agents.get(agentId)?.count ?? 0) > 0
  }

  /** Agents with at least one tunnel here, for people to look at. */
  agentIds(): AgentId[] {
    return [...this.#agents].flatMap(([agentId, { count }]) => (count > 0 ? [agentId] : []))
  }

  /** What a call of `method` would find here now, for people to look at. */
  look(agentId: AgentId, method: string): { idle: number; waiting: number; living: number } {
    const agent = this.#agents.get(agentId)
    const idle = agent?.idle.filter(({ state, methods }) => state === 'idle' && methods.has(method)).length ?? 0
    return { idle, waiting: agent?.waiters.size ?? 0, living: agent?.count ?? 0 }
  }

  /** A new tunnel: it goes to the oldest waiter whose method it serves, else it is idle. */
  add(agentId: AgentId, tunnel: Tunnel): void {
    const agent = this.#of(agentId)
    agent.count++
    this.#offer(agent, tunnel)
    const gone = () => {
      agent.count--
      const at = agent.idle.indexOf(tunnel)
      if (at >= 0) agent.idle.splice(at, 1)
      this.#forget(agentId, agent)
    }
    tunnel.ended.then(gone, gone)
  }

  /**
   * An idle tunnel that serves `method`: the caller owns it. Tunnels of connections that leave a PING unanswered
   * are the last choice.
   */
  take(agentId: AgentId, method: string): Tunnel | undefined {
    const idle = this.#agents.get(agentId)?.idle
    if (!idle) return undefined
    const now = this.#now()
    let choice = -1
    for (let i = 0; i < idle.length; i++) {
      const tunnel = idle[i] as Tunnel
      if (tunnel.state !== 'idle' || !tunnel.methods.has(method)) continue
      if (choice < 0) choice = i
      if (tunnel.connection.isSuspect(now)) continue
      choice = i
      break
    }
    if (choice < 0) return undefined
    const [tunnel] = idle.splice(choice, 1) as [Tunnel]
    tunnel.take()
    return tunnel
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
    if (agent.waiters.size >= limit) throw new KasError({ code: 'TOO_MANY_WAITING', limit })
    return new Promise((resolve, reject) => {
      const leave = () => {
        agent.waiters.delete(waiter)
        this.#forget(agentId, agent)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        method,
        resolve: (tunnel) => {
          signal.removeEventListener('abort', leave)
          resolve(tunnel)
        },
      }
      agent.waiters.add(waiter)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  #offer(agent: AgentTunnels, tunnel: Tunnel): void {
    for (const waiter of agent.waiters) {
      if (!tunnel.methods.has(waiter.method)) continue
      agent.waiters.delete(waiter)
      tunnel.take()
      waiter.resolve(tunnel)
      return
    }
    agent.idle.push(tunnel)
  }

  #of(agentId: AgentId): AgentTunnels {
    let agent = this.#agents.get(agentId)
    if (!agent) {
      agent = { idle: [], waiters: new Set(), count: 0 }
      this.#agents.set(agentId, agent)
    }
    return agent
  }

  #forget(agentId: AgentId, agent: AgentTunnels): void {
    if (agent.count === 0 && agent.waiters.size === 0) this.#agents.delete(agentId)
  }
}
