import { type Caller, payerOf } from '../../../call/caller.ts'
import type { Target } from '../../../kubernetes/request/target.ts'
import { systemClock } from '../../../lib/clock.ts'
import type { KasError } from '../../../lib/errors.ts'
import type { ReplicaMemory } from '../../memory/replica-memory.ts'
import type { Authorized } from './authorization/authorize.ts'
import type { Credentials } from './authorization/credentials.ts'
import { CallMemory, headBytes } from './http/call-memory.ts'
import type { RequestLife } from './request-life.ts'
import { tokenEndWarning } from './response/token-end-warning.ts'

interface KnownCaller {
  readonly credentials: Credentials
  readonly letInAs: Authorized
  readonly caller: Caller
  readonly target: Pick<Target, 'long'>
}

/**
 * Lets a caller in. Its call, and the connection that it is the first on, count as the caller's until both have ended.
 *
 * @throws KasError REPLICA_MEMORY_FULL: the caller, or the tenant, has most
 */
export function letIn(
  memory: ReplicaMemory,
  life: RequestLife,
  { credentials: { agentId }, letInAs, caller, target }: KnownCaller,
): void {
  const { exchange } = life
  const { access, impersonation, configProjectId, endsAt } = letInAs
  memory.tenants.learn(agentId, configProjectId)
  const payer = payerOf(caller)
  const enterShare = () => memory.enter('callers', agentId, payer)
  const warning = tokenEndWarning(endsAt, systemClock.now())
  life.letIn({ agentId, callerKey: caller.key, enterShare, access, as: impersonation?.username, warning })
  memory.expectAnswer(agentId, payer)
  const drop = (reason: KasError) => (exchange.isHandled ? exchange.cut() : life.end(reason))
  exchange.countBy(new CallMemory(enterShare(), headBytes(exchange.request, target.long?.parameters), drop))
}
