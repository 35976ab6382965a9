import * as z from 'zod'
import { withDeadline } from '../../../lib/deadline.ts'
import { printable } from '../../../lib/printable.ts'
import type { Endpoint } from '../endpoint.ts'
import { exchange } from './exchange.ts'
import { placeText } from './unreached.ts'

/** Bound of the question to kas about the agent; without an answer, kas itself is the reason. ms */
const answerMs = 700

const state = z.object({
  agent: z.enum(['connected', 'stock', 'absent']).optional(),
  away: z.object({ text: z.string().max(1000) }).optional(),
})

/**
 * Asks kas for the state of the agent.
 *
 * @param known - a reason from kas or the agent, which is better than a missing answer
 * @returns the reason for the wait, as a sentence
 */
export async function waitReason(endpoint: Endpoint, known?: string): Promise<string> {
  const { agentId, clock } = endpoint
  const path = '/gitops/state'
  const progress = { isConnected: false }
  try {
    const { status, body } = await withDeadline({ ms: answerMs, clock }, (signal) =>
      exchange(endpoint, { method: 'GET', path }, { signal, progress }),
    )
    const { agent, away } = status === 200 ? state.parse(JSON.parse(body)) : {}
    if (agent === 'absent') return absentText(agentId, away?.text)
    if (known !== undefined) return known
    if (agent !== undefined) return `kas at ${placeText(endpoint)} answers, and agent ${agentId} has not yet`
    return `kas at ${placeText(endpoint)} has no answer yet`
  } catch {
    return unansweredText(endpoint, progress.isConnected)
  }
}

function absentText(agentId: string, away: string | undefined): string {
  if (away !== undefined) return printable(away)
  return (
    `agent ${agentId} is not connected: it has been away for less than 20 s, or kas has just started. ` +
    'Its log says why: kubectl -n <namespace of the agent> logs deployment/agentk, in its cluster'
  )
}

/** Returns a sentence about an address without an answer, with or without a connection. */
export function unansweredText(endpoint: Endpoint, isConnected: boolean): string {
  const where = placeText(endpoint)
  return isConnected
    ? `no answer from ${where} yet: kas there may be starting or overloaded, or it is another program`
    : `no connection to ${where} yet: check the address, and firewalls on the way`
}
