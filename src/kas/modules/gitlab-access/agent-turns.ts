import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { withDeadline } from '../../../lib/deadline.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import { Turns } from '../../../lib/turns.ts'

export interface AgentTurnsOptions {
  /** requests of one agent at once */
  readonly maxRunning?: number
  /** waiting requests of one agent; more are refused */
  readonly maxWaiting?: number
  /** the longest that a request waits for its turn, in ms */
  readonly maxWaitMs?: number
}

const defaults = { maxRunning: 5, maxWaiting: 100, maxWaitMs: 20_000 }

/**
 * Resolves with the function that ends the turn.
 *
 * @throws KasError STATUS ResourceExhausted if too many wait, or for too long; or the signal's reason
 */
export type TakeAgentTurn = (agentId: AgentId, signal: AbortSignal) => Promise<() => void>

/** Lets each agent make a few requests at once, so that none takes all turns at GitLab. */
export function agentTurns({ clock }: { clock: Clock }, options: AgentTurnsOptions = {}): TakeAgentTurn {
  const { maxRunning, maxWaiting, maxWaitMs } = { ...defaults, ...options }
  const turns = new Turns<AgentId>({
    maxRunningOfSource: maxRunning,
    maxWaitingOfSource: maxWaiting,
    tooMany: () => exhausted(`more than ${maxWaiting} requests of this agent wait`),
  })
  const reason = () => exhausted(`requests of this agent had no turn for ${maxWaitMs} ms`)
  return (agentId, signal) =>
    withDeadline({ ms: maxWaitMs, clock, signals: [signal], reason }, (inTime) => turns.take(agentId, inTime))
}

function exhausted(message: string): KasError {
  return new KasError({ code: 'STATUS', grpc: Code.RESOURCE_EXHAUSTED, message })
}
