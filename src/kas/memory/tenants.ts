import type { AgentId } from '../../call/call.ts'

/** That are known; the ones that were learnt first are forgotten, and are tenants of their own then. */
const maxKnown = 20_000

/** Tenants of agents: all agents of a configuration project are one tenant. */
export class Tenants {
  readonly #projects = new Map<AgentId, bigint>()

  /** An agent is let in, or a caller of it: the directory has said which project it is configured in. */
  learn(agentId: AgentId, projectId: bigint): void {
    if (this.#projects.get(agentId) === projectId) return
    const [first] = this.#projects.keys()
    if (first !== undefined && this.#projects.size >= maxKnown) this.#projects.delete(first)
    this.#projects.set(agentId, projectId)
  }

  /** @returns a key */
  of(agentId: AgentId): string {
    const projectId = this.#projects.get(agentId)
    return projectId === undefined ? `agent ${agentId}` : `project ${projectId}`
  }
}
