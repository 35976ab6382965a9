import { createHash } from 'node:crypto'
import type { AgentId } from '../../../../call/call.ts'
import type { WantedView } from './view.ts'

const keyChars = 22

/**
 * Keys of viewers, by which the agent shares its room: the same at all replicas, and other keys at each
 * agent. They say nothing of the caller, since those that they are made of are hashed with the replicas' secret.
 */
export function viewerOf(agentId: AgentId, { key, userKey }: WantedView['caller']): WantedView['caller'] {
  const keyAtAgent = (one: string) =>
    createHash('sha256').update(`kas-viewer ${agentId} ${one}`).digest('base64url').slice(0, keyChars)
  return { key: keyAtAgent(key), ...(userKey === undefined ? {} : { userKey: keyAtAgent(userKey) }) }
}
