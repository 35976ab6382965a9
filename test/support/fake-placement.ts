import type { AgentId } from '../../src/call/call.ts'
import type { Placed, Placement } from '../../src/kas/tunnels/home-placement.ts'

/** A placement that a test sets. */
export class FakePlacement implements Placement {
  readonly here = 'kas-0'
  peersServe = true
  /** place of pod-a */
  placed: Placed | undefined = { home: { name: 'kas-0' } }
  others: Placed | undefined
  readonly #listeners = new Set<(agentIds: ReadonlySet<AgentId> | 'all') => void>()

  homeOf(_agentId: AgentId, pod: string): Placed | undefined {
    return pod === 'pod-a' ? this.placed : this.others
  }

  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  change(placed: Placed | undefined, agentIds: ReadonlySet<AgentId> | 'all' = 'all'): void {
    this.placed = placed
    for (const listener of this.#listeners) listener(agentIds)
  }
}
