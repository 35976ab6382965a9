import * as z from 'zod'

/**
 * `views.yaml` of an agent: the content of its views (doc/guide/views.md). Only the form of health rules is checked here.
 * agentk compiles them, and checks the rest.
 */

const text = z.string({ error: 'a text' })
const filled = text.min(1, { error: 'a text that is not empty' }).max(512, { error: 'at most 512 characters' })
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.object(shape, { error: 'a block of keys' })
const anyBlock = z.record(text, z.unknown(), { error: 'a block of keys' })

/** namespaces that an agent follows */
const maxNamespaces = 2000
/** kinds that an agent follows, or leaves out */
const maxKinds = 300
/** kinds with rules of health */
const maxRules = 64
/** rules of one kind, and tests of them */
const maxCases = 64

const listOf = <S extends z.ZodType>(element: S, max: number) =>
  z.array(element, { error: 'a list' }).max(max, { error: `a list of at most ${max}` })

const kind = filled.regex(/^([a-z0-9.*_-]+\/)?[A-Za-z0-9*_]+$/, {
  error: 'group/Kind, or Kind of the core group; * is any',
})
const rule = block({ when: text, verdict: text, text: text.optional() })
const ruleTest = block({ object: anyBlock, verdict: text.optional() })
const kindHealth = block({
  kind,
  let: anyBlock.optional(),
  rules: listOf(rule, maxCases).min(1, { error: 'at least one rule' }),
  tests: listOf(ruleTest, maxCases).optional(),
})

export const viewsFileSchema = block({
  follow: block({
    namespaces: listOf(filled, maxNamespaces).optional(),
    kinds: listOf(kind, maxKinds).optional(),
    exclude: listOf(kind, maxKinds).optional(),
  }).optional(),
  health: listOf(kindHealth, maxRules).optional(),
  verdict: z.enum(['argo', 'kstatus', 'kas']).optional(),
})
