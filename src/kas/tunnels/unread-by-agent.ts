import type { AgentId } from '../../call/call.ts'
import { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'

/**
 * Bytes of one agent that wait at this replica: messages that are not whole, and those that no caller takes. A stopped
 * reader holds 64 KiB and a window: 1 MiB, 192 KiB beside eight others and 64 KiB beside 32. Some 60 readers of one
 * agent may stop, one after another; then the one that holds most ends.
 */
export const maxHeldBytesPerAgent = 20 * 1024 * 1024

/** What waits of each agent, over all its streams and connections. */
export class UnreadByAgent {
  readonly #maxBytes: number
  readonly #agents = new Map<AgentId, { readonly held: UnreadBytes; users: number }>()

  constructor(options: { maxBytes?: number } = {}) {
    this.#maxBytes = options.maxBytes ?? maxHeldBytesPerAgent
  }

  /** @returns what to charge, and what to call once nothing more is charged to it; what waits then still counts */
  enter(agentId: AgentId): { readonly held: UnreadBytes; leave(): void } {
    const agent = this.#agents.get(agentId) ?? { held: new UnreadBytes(this.#maxBytes), users: 0 }
    this.#agents.set(agentId, agent)
    agent.users++
    agent.held.onEmpty = undefined
    const leave = () => {
      if (--agent.users > 0) return
      const forget = () => this.#agents.delete(agentId)
      if (agent.held.bytes === 0) forget()
      else agent.held.onEmpty = forget
    }
    return { held: agent.held, leave }
  }
}
