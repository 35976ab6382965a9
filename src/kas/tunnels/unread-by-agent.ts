import type { AgentId } from '../../call/call.ts'
import { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'
import { WindowBudget } from '../../proto/grpc/window-budget.ts'
import { ReplicaMemory } from '../memory/replica-memory.ts'

/**
 * Bytes of one agent that wait at this replica: messages that are not whole, and those that no caller takes. A stopped
 * reader holds up to 128 KiB and a window: 1 MiB, or 64 KiB beside 13 MiB of others. Some 60 readers of one agent may stop,
 * one after another; then the one that holds most ends.
 */
export const maxUnreadBytesPerAgent = 24 * 1024 * 1024

/** The same, beside it, of what comes because windows were wide: one stream's of 16 MiB, and room for another. */
export const maxWideBytesPerAgent = 30 * 1024 * 1024
/** The same of all agents, unless the replica's share for unread bytes is less: eight such streams at once, or more that are narrower. */
const maxWideBytes = 8 * maxWideBytesPerAgent

/** What waits of an agent, and how many may add to it. */
class Account {
  readonly unread: UnreadBytes
  readonly #forget: () => void
  #users = 0

  constructor(unread: UnreadBytes, forget: () => void) {
    this.unread = unread
    this.#forget = forget
  }

  enter(): this {
    this.#users++
    this.unread.onEmpty = undefined
    return this
  }

  /** To be called once for each `enter`, as a function too: nothing more is charged. What waits then still counts. */
  readonly leave = (): void => {
    if (--this.#users > 0) return
    if (this.unread.bytes === 0) this.#forget()
    else this.unread.onEmpty = this.#forget
  }
}

export interface UnreadByAgentOptions {
  readonly maxBytes?: number
  readonly maxWideBytes?: number
}

/**
 * Unread bytes of each agent, over all its streams and connections; and of all agents together, which is a total of the
 * replica.
 */
export class UnreadByAgent {
  /** of all agents */
  readonly windows: WindowBudget
  readonly #memory: Pick<ReplicaMemory, 'unread' | 'unreadOf'>
  readonly #maxBytes: number
  readonly #agents = new Map<AgentId, Account>()

  constructor(
    memory: Pick<ReplicaMemory, 'unread' | 'unreadOf'> = new ReplicaMemory(),
    options: UnreadByAgentOptions = {},
  ) {
    this.#memory = memory
    this.#maxBytes = options.maxBytes ?? maxUnreadBytesPerAgent
    this.windows = new WindowBudget(Math.min(options.maxWideBytes ?? maxWideBytes, memory.unread.maxBytes))
  }

  /** @returns what to charge, and to `leave` */
  enter(agentId: AgentId): Account {
    let account = this.#agents.get(agentId)
    if (!account) {
      const windows = new WindowBudget(maxWideBytesPerAgent, this.windows)
      const unread = new UnreadBytes(this.#maxBytes, windows, this.#memory.unreadOf(agentId))
      account = new Account(unread, () => this.#agents.delete(agentId))
      this.#agents.set(agentId, account)
    }
    return account.enter()
  }
}
