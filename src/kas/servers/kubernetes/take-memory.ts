import { type Caller, payerOf } from '../../../call/caller.ts'
import type { Target } from '../../../kubernetes/request/target.ts'
import type { KasError } from '../../../lib/errors.ts'
import type { ReplicaMemory } from '../../memory/replica-memory.ts'
import type { Authorized } from './authorization/authorize.ts'
import type { Credentials } from './authorization/credentials.ts'
import { CallMemory, headBytes } from './http/call-memory.ts'
import type { Exchange } from './http/exchange.ts'

interface LetIn {
  readonly exchange: Exchange
  readonly credentials: Credentials
  readonly letInAs: Authorized
  readonly caller: Caller
  readonly target: Pick<Target, 'long'>
  /** Ends the call while it is handled. */
  readonly end: (reason: KasError) => void
}

/**
 * Counts a call, and the connection that it is the first on, as its caller's until both have ended.
 *
 * @throws KasError REPLICA_MEMORY_FULL: the caller, or the tenant, holds most
 */
export function takeMemory(
  memory: ReplicaMemory,
  { exchange, credentials: { agentId }, letInAs, caller, target, end }: LetIn,
): void {
  memory.tenants.learn(agentId, letInAs.configProjectId)
  const payer = payerOf(caller)
  const enterShare = () => memory.enter('callers', agentId, payer)
  exchange.connection.letIn(agentId, caller.key, enterShare)
  memory.expectAnswer(agentId, payer)
  const drop = (reason: KasError) => (exchange.isHandled ? exchange.cut() : end(reason))
  exchange.countBy(new CallMemory(enterShare(), headBytes(exchange.request, target.long?.parameters), drop))
}
