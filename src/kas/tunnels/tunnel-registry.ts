import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { Listeners } from '../../lib/listeners.ts'
import { AgentTunnels, type TunnelsOptions } from './agent-tunnels.ts'
import type { Tunnel } from './tunnel.ts'
import type { RunningStream, TunnelRequest } from './tunnel-shares.ts'
import type { ScarcityComponents } from './waiting/scarcity.ts'

/** Costs: a waiting call takes about 15 KB at the entry; one connection of agentk carries 500 calls at once. */
const defaultTunnelsOptions: TunnelsOptions = { maxWaitingPerAgent: 1000, plentyPerConnection: 450, few: 10 }

export interface TunnelRegistryComponents {
  /** a monotonic clock */
  readonly clock: Clock
  /** default `Math.random` */
  readonly random?: () => number
}

/** Tunnels that end at this replica, and the calls that wait for one. */
export class TunnelRegistry {
  readonly #agents = new Map<AgentId, AgentTunnels>()
  readonly #components: ScarcityComponents
  readonly #options: TunnelsOptions
  readonly #onLast = new Listeners<AgentId>()

  constructor({ clock, random = Math.random }: TunnelRegistryComponents, options: Partial<TunnelsOptions> = {}) {
    this.#components = { clock, random }
    this.#options = { ...defaultTunnelsOptions, ...options }
  }

  /** Agents with at least one tunnel here. */
  get agentCount(): number {
    let count = 0
    for (const agent of this.#agents.values()) if (agent.living.size > 0) count++
    return count
  }

  /** True if the agent has a tunnel here, idle or busy. */
  holds(agentId: AgentId): boolean {
    return (this.#agents.get(agentId)?.living.size ?? 0) > 0
  }

  /** Calls `listener` with each agent whose last tunnel here has ended, until the returned function is called. */
  onLast(listener: (agentId: AgentId) => void): () => void {
    return this.#onLast.add(listener)
  }

  /** True if the agent has a tunnel here, idle or busy, that serves the method. */
  serves(agentId: AgentId, method: string): boolean {
    return this.#agents.get(agentId)?.serves(method) ?? false
  }

  /** Agents with at least one tunnel here, for reports. */
  agentIds(): AgentId[] {
    return [...this.#agents].flatMap(([agentId, { living }]) => (living.size > 0 ? [agentId] : []))
  }

  /** Counts the agent's tunnels and waiting calls here, as a call of `method` would find them; for reports. */
  counts(agentId: AgentId, method: string): { idle: number; waiting: number; living: number } {
    const agent = this.#agents.get(agentId)
    return { idle: agent?.idleFor(method) ?? 0, waiting: agent?.waiting ?? 0, living: agent?.living.size ?? 0 }
  }

  /** Watches that run on tunnels of this replica. */
  watches(): RunningStream[] {
    return [...this.#agents.values()].flatMap(({ watches }) => watches)
  }

  /** Followed logs that run on tunnels of this replica. */
  logs(): RunningStream[] {
    return [...this.#agents.values()].flatMap(({ logs }) => logs)
  }

  /** Adds a new tunnel: gives it to a waiting call that it serves, by turns of callers; else it is idle. */
  add(agentId: AgentId, tunnel: Tunnel): void {
    this.#of(agentId).add(tunnel)
  }

  /**
   * Takes an idle tunnel that serves the method: the caller owns it. Tunnels of connections that leave a PING
   * unanswered are taken last. The last tunnels of a connection are reserved for callers with few tunnels.
   */
  take(request: TunnelRequest): Tunnel | undefined {
    return this.#agents.get(request.agentId)?.take(request)
  }

  /** Puts back a tunnel that was taken and not used. */
  giveBack(agentId: AgentId, tunnel: Tunnel): void {
    if (tunnel.state !== 'taken') return
    tunnel.giveBack()
    if (tunnel.connection.retired.aborted)
      tunnel.retire() // an idle tunnel would keep a connection that is to end
    else this.idleAgain(agentId, tunnel)
  }

  /** Offers a tunnel that was added before and is idle again, as `add` does. */
  idleAgain(agentId: AgentId, tunnel: Tunnel): void {
    this.#of(agentId).idleAgain(tunnel)
  }

  /**
   * Waits for a tunnel: the caller owns it.
   *
   * @param signal - ends the wait; its reason is thrown
   * @throws KasError TOO_MANY_WAITING, CALLER_OVER_SHARE: at once, or later when another call needs the place
   */
  wait(request: TunnelRequest, signal: AbortSignal): Promise<Tunnel> {
    if (signal.aborted) return Promise.reject(signal.reason)
    try {
      return this.#of(request.agentId).wait(request, signal)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #of(agentId: AgentId): AgentTunnels {
    let agent = this.#agents.get(agentId)
    if (!agent) {
      agent = new AgentTunnels(this.#components, this.#options, {
        onEmpty: () => this.#agents.delete(agentId),
        onLast: () => this.#onLast.notify(agentId),
      })
      this.#agents.set(agentId, agent)
    }
    return agent
  }
}
