import type { AgentId } from '../../call/call.ts'
import { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'
import { WindowBudget } from '../../proto/grpc/window-budget.ts'
import { ReplicaMemory } from './replica-memory.ts'

/**
 * Unread bytes of one agent at this replica: incomplete messages, and messages that no caller takes. A stopped reader
 * keeps up to 128 KiB and a window: 1 MiB, or 64 KiB beside 13 MiB of others. About 60 readers of one agent may stop,
 * one after another; then the largest one ends.
 */
export const maxUnreadBytesPerAgent = 24 * 1024 * 1024

/** Further unread bytes of one agent that wide windows allow: one stream of 16 MiB, and room for another. */
export const maxWideBytesPerAgent = 30 * 1024 * 1024
/** Wide bytes of all agents, also bounded by the replica's share: eight such streams, or more narrower ones. */
const maxWideBytes = 8 * maxWideBytesPerAgent

/** Unread bytes of one agent, with a count of streams that may add to them. */
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

  /** Ends an `enter`, also as a callback; called once for each. Nothing more is charged; unread bytes still count. */
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

/** Counts unread bytes of each agent, over all its streams and connections, and of all agents for the replica. */
export class UnreadByAgent {
  /** budget of wide windows of all agents */
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

  /** @returns the account to charge, and to `leave` */
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
