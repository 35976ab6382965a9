import * as z from 'zod'
import { withDeadline } from '../../../lib/deadline.ts'
import { printable } from '../../../lib/printable.ts'
import type { Endpoint } from '../endpoint.ts'
import { exchange } from './exchange.ts'
import { Unreached } from './unreached.ts'

/** Bound of the question to kas about the caller. ms */
const answerMs = 2000
/** bound of listed agents */
const maxAgents = 5

const answer = z.object({
  user: z.string().max(253),
  agents: z.array(z.object({ id: z.string().max(20), name: z.string().max(64) })),
})

/**
 * Adds the caller's identity, and the agents that let the caller in, to a refusal of an agent. kas answers 401 to an
 * unknown token. It answers the same to a user whom the agent does not let in, and if there is no such agent.
 */
export async function callerText(endpoint: Endpoint, fault: Unreached): Promise<Unreached> {
  const { authorization, agentId, clock } = endpoint
  const [, token] = /^Bearer pat:\d+:(.*)$/.exec(authorization) ?? []
  const { kind, status } = fault
  if (kind !== 'caller' || (status !== 403 && status !== 401) || token === undefined) return fault
  const asUser = { ...endpoint, authorization: `Bearer pat:0:${token}` }
  try {
    const { body } = await withDeadline({ ms: answerMs, clock }, (signal) =>
      exchange(asUser, { method: 'GET', path: '/agents' }, { signal }),
    )
    const { user, agents } = answer.parse(JSON.parse(body))
    const names = agents.slice(0, maxAgents).map(({ id, name }) => `${id} (${name})`)
    const more = agents.length > names.length ? ` and ${agents.length - names.length} more` : ''
    const others = names.length === 0 ? 'no agent lets you in' : `these agents do: ${names.join(', ')}${more}`
    const [none, quoted] = status === 401 ? [', or there is none', 'kas answered 401'] : ['', fault.message]
    const text = `you are ${user}, and agent ${agentId} does not let you in${none}; ${others}. ${quoted}`
    return new Unreached('caller', printable(text), { cause: fault, status })
  } catch {
    return fault // a stock kas does not answer it
  }
}
