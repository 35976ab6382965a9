import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import { askKas } from './ask-kas.ts'
import { readAnswer } from './bad-answer.ts'
import { type CliValues, textOption, UsageError } from './command.ts'
import { type Endpoint, kasUrl } from './endpoint.ts'

/** An agent that lets the user in, as kas says. */
const agentSchema = z.object({
  id: z.string().regex(/^[1-9]\d{0,18}$/),
  name: z.string().min(1),
  project: z.string().min(1),
  pods: z.int().nonnegative(),
  connected: z.array(z.object({ replica: z.string(), since: z.string().optional() })),
})
const answerSchema = z.object({ user: z.string(), agents: z.array(agentSchema), unread: z.int().nonnegative() })

export type AgentsOfUser = z.output<typeof answerSchema>

/** @throws BadAnswer, KasRefused, Error with what went wrong on the way */
export async function askAgentsOfUser(endpoint: Endpoint): Promise<AgentsOfUser> {
  return readAnswer(answerSchema, await askKas(endpoint, { method: 'GET', path: '/agents' }))
}

/** Of a command line that names the server. */
export async function endpointAt(server: string, token: string, values: CliValues): Promise<Endpoint> {
  const ca = textOption(values, 'ca')
  const tls = ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }
  return { url: kasUrl(server), agentId: '0', authorization: `Bearer pat:0:${token}`, tls }
}

/** @throws UsageError if there is not one token in it */
export async function tokenFrom(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8')).trim()
  if (token === '' || /\s/.test(token)) throw new UsageError(`${file}: allowed is one token`)
  return token
}
