import type { AgentId } from '../../call/call.ts'
import { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'

/**
 * Bytes of one agent that wait at this replica: messages that are not whole, and those that no caller takes. A stopped
 * reader holds 64 KiB and a window: 1 MiB, 192 KiB beside eight others and 64 KiB beside 32. Some 60 readers of one
 * agent may stop, one after another; then the one that holds most ends.
 */
export const maxHeldBytesPerAgent = 20 * 1024 * 1024

/** What waits of an agent, and how many may add to it. */
class Account {
  readonly held: UnreadBytes
  readonly #forget: () => void
  #users = 0

  constructor(maxBytes: number, forget: () => void) {
    this.held = new UnreadBytes(maxBytes)
    this.#forget = forget
  }

  enter(): this {
    this.#users++
    this.held.onEmpty = undefined
    return this
  }

  /** To be called once for each `enter`, as a function too: nothing more is charged. What waits then still counts. */
  readonly leave = (): void => {
    if (--this.#users > 0) return
    if (this.held.bytes === 0) this.#forget()
    else this.held.onEmpty = this.#forget
  }
}

/** What waits of each agent, over all its streams and connections. */
export class UnreadByAgent {
  readonly #maxBytes: number
  readonly #agents = new Map<AgentId, Account>()

  constructor(options: { maxBytes?: number } = {}) {
    this.#maxBytes = options.maxBytes ?? maxHeldBytesPerAgent
  }

  /** @returns what to charge, and to `leave` */
  enter(agentId: AgentId): Account {
    let account = this.#agents.get(agentId)
    if (!account) {
      account = new Account(this.#maxBytes, () => this.#agents.delete(agentId))
      this.#agents.set(agentId, account)
    }
    return account.enter()
  }
}
