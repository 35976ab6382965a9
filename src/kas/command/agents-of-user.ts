import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import { isPrintable } from '../../lib/printable.ts'
import { askKas } from './ask-kas.ts'
import { readAnswer } from './bad-answer.ts'
import { type CliValues, type CommandContext, textOption, UsageError } from './command.ts'
import { type Endpoint, placeOf } from './endpoint.ts'

/** Bounds of names, which appear in a terminal, in a kubeconfig, and in lines that people copy to a shell. */
const named = (pattern: RegExp, allowed: string) => z.string().refine((text) => pattern.test(text), { error: allowed })
const agentName = named(
  /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  'the name of an agent as doc/reference/directory.md has it',
)
/** as in a directory file, and not like a flag at its beginning */
const projectPath = named(/^(?=.{1,1024}$)\w[\w.-]*(\/\w[\w.-]*)*$/, 'a path such as platform/clusters')
/** characters of a text in kas' answer, such as a user's name or a replica's */
const maxText = 253
const text = z
  .string()
  .refine((each) => each.length <= maxText && isPrintable(each), { error: `at most ${maxText} printable characters` })

/** An agent that lets the user in, by kas' answer. */
const agentSchema = z.object({
  id: z.string().regex(/^[1-9]\d{0,18}$/),
  name: agentName,
  project: projectPath,
  pods: z.int().nonnegative(),
  connected: z.array(z.object({ replica: text, since: text.optional() })),
})
const answerSchema = z.object({ user: text, agents: z.array(agentSchema), unread: z.int().nonnegative() })

export type AgentsOfUser = z.output<typeof answerSchema>

/** @throws Unreached, BadAnswer, KasRefused */
export async function askAgentsOfUser(endpoint: Endpoint): Promise<AgentsOfUser> {
  return readAnswer(answerSchema, await askKas(endpoint, { method: 'GET', path: '/agents' }))
}

/** Returns the endpoint of a command line that names the server. */
export async function endpointAt(
  server: string,
  token: string,
  context: Pick<CommandContext, 'io' | 'clock'> & { readonly values: CliValues },
): Promise<Endpoint> {
  const ca = textOption(context.values, 'ca')
  const tls = ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }
  const place = placeOf(server, '--server', context)
  return { ...place, agentId: '0', authorization: `Bearer pat:0:${token}`, tls }
}

/** @throws UsageError if the file does not have exactly one token */
export async function tokenFrom(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8')).trim()
  if (token === '' || /\s/.test(token)) throw new UsageError(`${file}: allowed is one token`)
  return token
}
