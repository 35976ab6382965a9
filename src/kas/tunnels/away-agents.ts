import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Away } from '../../lib/errors.ts'
import type { Service } from '../../lib/service.ts'
import type { Membership } from '../../membership/membership.ts'
import type { TunnelRegistry } from './tunnel-registry.ts'

export interface AwayAgentsComponents {
  readonly tunnels: Pick<TunnelRegistry, 'holds' | 'onLast'>
  /** undefined: this replica is alone */
  readonly membership: Pick<Membership, 'holders' | 'onChange' | 'unanswered'> | undefined
  /** a monotonic clock */
  readonly clock: Clock
  /** clock of the time of day */
  readonly wallClock: Pick<Clock, 'now'>
}

export interface AwayAgentsOptions {
  /** calls do not wait for an agent that no replica has had for this time. ms */
  readonly awayMs: number
  /** agents whose last connection is remembered; for all others only an upper bound is known */
  readonly maxKept: number
}

/** Calls wait this long for an agent that has just left, so an agent counts as away after the same time. */
export const defaultAwayAgents: AwayAgentsOptions = { awayMs: 20_000, maxKept: 10_000 }

/**
 * Dials without an answer after which a listed address counts as no replica. Until then a peer with the agent may be
 * behind it. 20 dials take 30 s or longer.
 */
const maxDials = 20

/** Records since when agents have been connected to no replica, as far as this replica has seen. */
export class AwayAgents implements Service {
  readonly #components: AwayAgentsComponents
  readonly #options: AwayAgentsOptions
  /** when each agent's last connection ended, the latest last; may include an agent that is connected again */
  readonly #leftAt = new Map<AgentId, number>()
  /** agents neither connected nor in `#leftAt` left before this time, if they ever connected; undefined: not serving */
  #watchedSince: number | undefined
  #unsubscribe: readonly (() => void)[] = []

  constructor(components: AwayAgentsComponents, options: AwayAgentsOptions = defaultAwayAgents) {
    this.#components = components
    this.#options = options
  }

  /** Begins to watch connections: this replica now serves and sees what its peers have. */
  async start(): Promise<void> {
    const { tunnels, membership, clock } = this.#components
    this.#watchedSince = clock.now()
    const check = (agentId: AgentId) => {
      if (!this.#isConnected(agentId)) this.#leave(agentId)
    }
    const ofPeers = membership?.onChange((change) => {
      if (change.kind === 'connections') for (const agentId of change.agentIds) check(agentId)
    })
    this.#unsubscribe = [tunnels.onLast(check), ...(ofPeers ? [ofPeers] : [])]
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#watchedSince = undefined
  }

  /** @returns undefined: a replica has the agent, had it until just now, or may have it */
  find(agentId: AgentId): Away | undefined {
    const { membership, clock, wallClock } = this.#components
    if (this.#watchedSince === undefined || this.#isConnected(agentId)) return undefined
    const leftAt = this.#leftAt.get(agentId)
    const awayMs = clock.now() - (leftAt ?? this.#watchedSince)
    if (awayMs < this.#options.awayMs) return undefined
    if (membership?.unanswered().some(({ dials }) => dials < maxDials)) return undefined
    const since = leftAt === undefined ? {} : { awaySince: wallClock.now() - awayMs }
    return { agentId: String(agentId), awayMs, ...since }
  }

  #isConnected(agentId: AgentId): boolean {
    const { tunnels, membership } = this.#components
    return tunnels.holds(agentId) || (membership?.holders(agentId).length ?? 0) > 0
  }

  #leave(agentId: AgentId): void {
    this.#leftAt.delete(agentId)
    this.#leftAt.set(agentId, this.#components.clock.now())
    if (this.#leftAt.size <= this.#options.maxKept) return
    for (const [oldest, at] of this.#leftAt) {
      this.#leftAt.delete(oldest)
      this.#watchedSince = at
      return
    }
  }
}
