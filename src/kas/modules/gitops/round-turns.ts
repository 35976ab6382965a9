import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'

export interface RoundTurnsOptions {
  /** rounds at once: each holds its files until the agent has taken them */
  readonly maxRounds: number
  /** of one agent */
  readonly maxRoundsOfAgent: number
  readonly maxWaiting: number
}

interface Waiting {
  readonly agentId: AgentId
  readonly begin: () => void
}

/** Who may read a round's files now: first come, first served, but for agents that have their share. */
export class RoundTurns {
  readonly #options: RoundTurnsOptions
  readonly #running = new Map<AgentId, number>()
  #count = 0
  #waiting: Waiting[] = []

  constructor(options: RoundTurnsOptions) {
    this.#options = options
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
    const { maxWaiting } = this.#options
    if (this.#waiting.length >= maxWaiting) {
      throw new KasError({ code: 'TOO_MANY_STREAMS', limit: maxWaiting, what: 'rounds of GitOps that wait' })
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting = { agentId, begin: resolve }
    this.#waiting.push(waiting)
    try {
      await abortable(promise, signal)
      return end
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else end() // its turn had come
      throw error
    }
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
    const next = this.#waiting.find((waiting) => this.#isFree(waiting.agentId))
    if (!next) return
    this.#waiting = this.#waiting.filter((other) => other !== next)
    this.#begin(next.agentId)
    next.begin()
  }
}
