import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'
import { abortable } from '../../../lib/signals.ts'

export interface RoundTurnsOptions {
  /** rounds at once: each holds its files until the agent has taken them */
  readonly maxRounds: number
  /** of one agent */
  readonly maxRoundsOfAgent: number
  /** agents share these places where they are scarce */
  readonly maxWaiting: number
}

interface Waiting {
  readonly source: AgentId
  begin(): void
  /** It has no place. */
  refuse(): void
}

/** Who may read a round's files now: agents take turns, but for those that have their share. */
export class RoundTurns {
  readonly #options: RoundTurnsOptions
  readonly #running = new Map<AgentId, number>()
  readonly #waiting: FairQueue<Waiting>
  #count = 0

  constructor(options: RoundTurnsOptions) {
    this.#options = options
    this.#waiting = new FairQueue(options.maxWaiting)
  }

  /**
   * @param signal - ends the wait
   * @returns what ends the turn
   * @throws KasError TOO_MANY_STREAMS; the signal's reason
   */
  async take(agentId: AgentId, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const end = () => this.#end(agentId)
    if (this.#isFree(agentId)) {
      this.#begin(agentId)
      return end
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let hasTurn = false
    const waiting: Waiting = {
      source: agentId,
      begin: () => {
        hasTurn = true
        resolve()
      },
      refuse: () => reject(this.#tooMany()),
    }
    this.#waiting.add(waiting)?.refuse()
    try {
      await abortable(promise, signal)
      return end
    } catch (error) {
      this.#waiting.delete(waiting)
      if (hasTurn) end()
      throw error
    }
  }

  #tooMany(): KasError {
    const { maxWaiting } = this.#options
    return new KasError({ code: 'TOO_MANY_STREAMS', limit: maxWaiting, what: 'rounds of GitOps that wait' })
  }

  #isFree(agentId: AgentId): boolean {
    const { maxRounds, maxRoundsOfAgent } = this.#options
    return this.#count < maxRounds && (this.#running.get(agentId) ?? 0) < maxRoundsOfAgent
  }

  #begin(agentId: AgentId): void {
    this.#count += 1
    this.#running.set(agentId, (this.#running.get(agentId) ?? 0) + 1)
  }

  #end(agentId: AgentId): void {
    this.#count -= 1
    const left = (this.#running.get(agentId) ?? 0) - 1
    if (left > 0) this.#running.set(agentId, left)
    else this.#running.delete(agentId)
    const next = this.#waiting.take((waiting) => this.#isFree(waiting))
    if (!next) return
    this.#begin(next.source)
    next.begin()
  }
}
