import type { AgentId } from '../../../../call/call.ts'

/** connections */
const crowd = 32

/**
 * What one of a crowd is written at once: with its framing it fits into 16 KiB, which node keeps for each connection
 * over TLS as long as that lives. Of a longer write it keeps as much again, up to 80 KiB.
 */
export const pieceBytes = 15 * 1024

/** Connections of each agent's callers: to many answers go in pieces, so that each costs less. */
export class Callers {
  readonly #counts = new Map<AgentId, number>()

  add(agentId: AgentId): void {
    this.#counts.set(agentId, this.#countOf(agentId) + 1)
  }

  delete(agentId: AgentId): void {
    const left = this.#countOf(agentId) - 1
    if (left > 0) this.#counts.set(agentId, left)
    else this.#counts.delete(agentId)
  }

  isCrowd(agentId: AgentId): boolean {
    return this.#countOf(agentId) > crowd
  }

  #countOf(agentId: AgentId): number {
    return this.#counts.get(agentId) ?? 0
  }
}
