import type { AgentId } from '../../../call/call.ts'
import { payerOf } from '../../../call/caller.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import { clockDelay } from '../../../lib/pause.ts'
import { Turns } from '../../../lib/turns.ts'
import type { OwnRequest } from '../../own-endpoint.ts'

/** Previews that a replica asks agents for at once. */
const maxRunning = 8
/** Previews that a replica asks one agent for at once (`previews_of_agent`): an agent makes as many for all replicas. */
const maxRunningOfAgent = 2
/** Previews of a caller at once, over all agents; its others wait. */
const maxRunningOfCaller = 1
/** Previews that wait for a place (`waiting_previews`), with their files in memory. */
const maxWaiting = 64

/** Pause before an agent is asked again, whose places have previews of other replicas. ms */
const againMs = 2000
/** Attempts of a preview at such an agent. */
const maxAttempts = 20

/** Places of the previews that agents are asked for. A preview takes one once all of its files have come. */
export class PreviewPlaces {
  readonly #ofCallers = new Turns<string>({ maxRunningOfSource: maxRunningOfCaller })
  readonly #ofAgents = new Turns<AgentId>({
    maxRunning,
    maxRunningOfSource: maxRunningOfAgent,
    maxWaiting,
    tooMany: () =>
      new KasError({ code: 'TOO_MANY_STREAMS', name: 'waiting_previews', limit: maxWaiting, what: 'waiting previews' }),
  })

  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Asks in turn. An agent without a place for it is asked again.
   *
   * @throws KasError TOO_MANY_STREAMS; the signal's reason, or the error of `ask`
   */
  run<T>(
    { agentId, caller, signal }: Pick<OwnRequest, 'agentId' | 'caller' | 'signal'>,
    ask: () => Promise<T>,
  ): Promise<T> {
    const inTurn = () => this.#ofAgents.run(agentId, signal, () => this.#askUntilTaken(signal, ask))
    return this.#ofCallers.run(payerOf(caller), signal, inTurn)
  }

  async #askUntilTaken<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await ask()
      } catch (error) {
        if (!isFull(error)) throw error
        if (attempts === maxAttempts) throw tooMany(error)
      }
      await clockDelay(this.#clock, againMs, signal)
    }
  }
}

/** True if the agent has no place: its previews have a bound over all replicas. */
function isFull(error: unknown): error is KasError {
  return error instanceof KasError && error.code === 'STATUS' && error.grpcCode === Code.RESOURCE_EXHAUSTED
}

function tooMany(cause: KasError): KasError {
  const what = 'previews of this agent'
  return new KasError(
    { code: 'TOO_MANY_STREAMS', name: 'previews_of_agent', limit: maxRunningOfAgent, what },
    { cause },
  )
}
