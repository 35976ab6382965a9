import type { AgentId } from '../../../call/call.ts'
import { payerOf } from '../../../call/caller.ts'
import { KasError } from '../../../lib/errors.ts'
import { Turns } from '../../../lib/turns.ts'
import type { OwnRequest } from '../../own-endpoint.ts'

/** Previews that a replica asks agents for at once. */
const maxRunning = 8
/** Previews that a replica asks one agent for at once. */
const maxRunningOfAgent = 2
/** Previews of a caller at once, over all agents; its others wait. */
const maxRunningOfCaller = 1
/** Previews that wait for a place (`waiting_previews`), with their files in memory. */
const maxWaiting = 64

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

  /** @throws KasError TOO_MANY_STREAMS; the signal's reason, or the error of `ask` */
  run<T>(
    { agentId, caller, signal }: Pick<OwnRequest, 'agentId' | 'caller' | 'signal'>,
    ask: () => Promise<T>,
  ): Promise<T> {
    const inTurn = () => this.#ofAgents.run(agentId, signal, ask)
    return this.#ofCallers.run(payerOf(caller), signal, inTurn)
  }
}
