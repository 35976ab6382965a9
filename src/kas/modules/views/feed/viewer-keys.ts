import { createHash } from 'node:crypto'
import type { AgentId } from '../../../../call/call.ts'
import type { WantedView } from './view.ts'

const keyChars = 22

/**
 * Returns keys of a caller, by which the agent shares its room. They are equal at all replicas and differ at each
 * agent. They reveal nothing of the caller: the original keys are hashed with the replicas' secret.
 */
export function viewerOf(agentId: AgentId, { key, userKey }: WantedView['caller']): WantedView['caller'] {
  const keyAtAgent = (one: string) =>
    createHash('sha256').update(`kas-viewer ${agentId} ${one}`).digest('base64url').slice(0, keyChars)
  return { key: keyAtAgent(key), ...(userKey === undefined ? {} : { userKey: keyAtAgent(userKey) }) }
}
