import { createHash } from 'node:crypto'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../call/call.ts'
import type { Caller } from '../call/caller.ts'
import type { CallerSchema } from '../proto/gen/agentk_caller_pb.ts'
import type { Impersonation } from '../proto/http/http-message.ts'

/** Keys of a caller's shares. */
export type CallerKeys = Pick<Caller, 'key' | 'userKey'>

const keyChars = 22

/**
 * Returns keys of a caller, by which the agent shares its room. They are equal at all replicas and differ at each
 * agent. They reveal nothing of the caller: the original keys are hashed with the replicas' secret.
 */
export function keysAtAgent(agentId: AgentId, { key, userKey }: CallerKeys): CallerKeys {
  const keyAtAgent = (one: string) =>
    createHash('sha256').update(`kas-viewer ${agentId} ${one}`).digest('base64url').slice(0, keyChars)
  return { key: keyAtAgent(key), ...(userKey === undefined ? {} : { userKey: keyAtAgent(userKey) }) }
}

/**
 * Returns a caller in the form for agentk.
 *
 * @param keys - of `keysAtAgent`
 * @param as - whom the caller acts as in the cluster; undefined: the agent itself
 */
export function callerMessage(
  { key, userKey = '' }: CallerKeys,
  as: Impersonation | undefined,
): MessageInitShape<typeof CallerSchema> {
  if (!as) return { as: { case: 'agent', value: {} }, key, userKey }
  const extra = as.extra.map(({ key, val }) => ({ key, val: [...val] }))
  return { as: { case: 'user', value: { ...as, groups: [...as.groups], extra } }, key, userKey }
}
