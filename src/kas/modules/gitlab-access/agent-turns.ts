import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Code, KasError } from '../../../lib/errors.ts'

export interface AgentTurnsOptions {
  /** requests of one agent at once */
  readonly maxRunning?: number
  /** of one agent; more are refused */
  readonly maxWaiting?: number
  readonly maxWaitMs?: number
}

const defaults = { maxRunning: 5, maxWaiting: 100, maxWaitMs: 20_000 }

interface Turns {
  running: number
  /** first in, first out */
  readonly waiting: Set<() => void>
}

/** Lets each agent make a few requests at once, so that none takes up all turns at GitLab. */
export class AgentTurns {
  readonly #clock: Clock
  readonly #options: typeof defaults
  readonly #agents = new Map<AgentId, Turns>()

  constructor(components: { clock: Clock }, options: AgentTurnsOptions = {}) {
    this.#clock = components.clock
    this.#options = { ...defaults, ...options }
  }

  /**
   * Resolves with the function that gives the turn back.
   *
   * @throws KasError STATUS ResourceExhausted if too many wait, or for too long; or the signal's reason
   */
  async enter(agentId: AgentId, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const turns = this.#agents.get(agentId) ?? { running: 0, waiting: new Set() }
    this.#agents.set(agentId, turns)
    if (turns.running >= this.#options.maxRunning) await this.#wait(turns, signal)
    else turns.running += 1
    return this.#turn(agentId, turns)
  }

  /** A turn that is given back while others wait goes to the next: `running` stays as it is. */
  #turn(agentId: AgentId, turns: Turns): () => void {
    let isRunning = true
    return () => {
      if (!isRunning) return
      isRunning = false
      const next = turns.waiting.values().next().value
      if (next) next()
      else turns.running -= 1
      if (turns.running === 0) this.#agents.delete(agentId)
    }
  }

  async #wait(turns: Turns, signal: AbortSignal): Promise<void> {
    const { maxWaiting, maxWaitMs } = this.#options
    if (turns.waiting.size >= maxWaiting) throw exhausted(`more than ${maxWaiting} requests of this agent wait`)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const admit = () => {
      turns.waiting.delete(admit)
      resolve()
    }
    const drop = (reason: unknown) => {
      if (turns.waiting.delete(admit)) reject(reason)
    }
    const onAbort = () => drop(signal.reason)
    turns.waiting.add(admit)
    const cancel = this.#clock.after(maxWaitMs, () =>
      drop(exhausted(`requests of this agent had no turn for ${maxWaitMs} ms`)),
    )
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await promise
    } finally {
      cancel()
      signal.removeEventListener('abort', onAbort)
    }
  }
}

function exhausted(message: string): KasError {
  return new KasError({ code: 'STATUS', grpc: Code.RESOURCE_EXHAUSTED, message })
}
