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
  /** a monotonic one */
  readonly clock: Clock
  /** of the time of day */
  readonly wallClock: Pick<Clock, 'now'>
}

export interface AwayAgentsOptions {
  /** an agent that no replica has had for so long is not waited for. ms */
  readonly awayMs: number
  /** agents whose last connection is remembered; of others it is known that they had left before */
  readonly maxKept: number
}

/** As long as a call waits for an agent that has just gone. */
export const defaultAwayAgents: AwayAgentsOptions = { awayMs: 20_000, maxKept: 10_000 }

/**
 * A peer may be behind a listed address where nobody has answered yet. After so many dials (30 s, or longer) none of its
 * agents could be reached from here by waiting.
 */
const maxDials = 20

/** Since when agents have been connected to no replica, as far as this replica has seen. */
export class AwayAgents implements Service {
  readonly #components: AwayAgentsComponents
  readonly #options: AwayAgentsOptions
  /** when the last connection of an agent ended, the latest last; an agent that came back since then may be among them */
  readonly #leftAt = new Map<AgentId, number>()
  /** of an agent that is neither connected nor in `#leftAt`: it was connected before, if ever; undefined: not serving yet */
  #watchedSince: number | undefined
  #unsubscribe: readonly (() => void)[] = []

  constructor(components: AwayAgentsComponents, options: AwayAgentsOptions = defaultAwayAgents) {
    this.#components = components
    this.#options = options
  }

  /** From now on this replica sees what its peers have: it serves. */
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

  /** @returns undefined: some replica has the agent, has had it until just now, or may have it */
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
