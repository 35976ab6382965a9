import type { AgentId } from '../../call/call.ts'

/** Bound of known agents. The oldest entry is dropped first, and its agent is then a tenant of its own. */
const maxKnown = 20_000

/** Tenants of agents: all agents of a configuration project are one tenant. */
export class Tenants {
  readonly #projects = new Map<AgentId, bigint>()

  /** Records the configuration project of an agent, from the directory, when the agent or a caller of it is let in. */
  learn(agentId: AgentId, projectId: bigint): void {
    if (this.#projects.get(agentId) === projectId) return
    const [first] = this.#projects.keys()
    if (first !== undefined && this.#projects.size >= maxKnown) this.#projects.delete(first)
    this.#projects.set(agentId, projectId)
  }

  /** @returns key of the tenant */
  of(agentId: AgentId): string {
    const projectId = this.#projects.get(agentId)
    return projectId === undefined ? `agent ${agentId}` : `project ${projectId}`
  }
}
