import { isAbsolute } from 'node:path'
import * as z from 'zod'
import { blockSchema } from '../../lib/config.ts'

/** `observability.access_log`: target and rules of the access log (doc/reference/access-log.md). */

const list = <T extends z.ZodType>(item: T) => z.array(item, { error: 'a list' }).optional()
const word = z.string({ error: 'a text' }).min(1, { error: 'a text that is not empty' })
const asText = (value: unknown) => (typeof value === 'number' ? String(value) : value)
const nameOrId = z.preprocess(asText, word)
const agentForm = 'ids of agents: whole numbers above zero'
const agentId = z.preprocess(asText, z.string({ error: agentForm }).regex(/^[1-9]\d{0,18}$/, { error: agentForm }))
const outputForm = 'stdout, none, or the absolute path of a file'

/** Classes of lines, each with a queue of its own: lines of the first three are never lost for later ones. */
export const lineClasses = ['write', 'exec', 'secret', 'watch', 'session', 'refusal', 'read'] as const
export type LineClass = (typeof lineClasses)[number]

const lineRuleSchema = z.object(
  {
    level: z.enum(['none', 'metadata']),
    classes: list(z.enum(lineClasses)),
    verbs: list(word),
    resources: list(word),
    namespaces: list(word),
    agents: list(agentId),
    users: list(nameOrId),
  },
  { error: 'a block of keys' },
)
/** A rule without a condition matches every call; with several, all of them must hold. */
export type LineRule = z.output<typeof lineRuleSchema>

/** Lines for all calls but reads of objects that are no Secrets. */
export const defaultLineRules: readonly LineRule[] = [
  { level: 'metadata', classes: ['write', 'exec', 'secret', 'watch', 'session', 'refusal'] },
]

export const accessLogSchema = blockSchema({
  output: z
    .string({ error: outputForm })
    .refine((text) => text === 'stdout' || text === 'none' || isAbsolute(text), { error: outputForm })
    .prefault('stdout'),
  exec_command: z.enum(['program', 'full']).prefault('program'),
  rules: z.array(lineRuleSchema, { error: 'a list' }).optional(),
})
