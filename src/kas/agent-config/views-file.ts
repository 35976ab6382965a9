import * as z from 'zod'
import { parseConfig } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import { configurationInvalid, maxNodes, textOf } from './agent-config-file.ts'

/**
 * `views.yaml` of an agent: what its views show (doc/views.md). Rules of health are checked by agentk, which compiles
 * them; here by their shape.
 */

const text = z.string({ error: 'a text' })
const filled = text.min(1, { error: 'a text that is not empty' }).max(512, { error: 'at most 512 characters' })
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.object(shape, { error: 'a block of keys' })
const anyBlock = z.record(text, z.unknown(), { error: 'a block of keys' })

const maxNamespaces = 2000
const maxKinds = 300
const maxRules = 64
/** of one kind */
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

const viewsFileSchema = block({
  follow: block({
    namespaces: listOf(filled, maxNamespaces).optional(),
    kinds: listOf(kind, maxKinds).optional(),
    exclude: listOf(kind, maxKinds).optional(),
  }).optional(),
  health: listOf(kindHealth, maxRules).optional(),
  verdict: z.enum(['argo', 'kstatus', 'kas']).optional(),
})

const refused = { services: 'this version shows no services' }

/** Of the file as JSON, which agentk gets. */
const maxJsonBytes = 256 * 1024

/**
 * Reads a `views.yaml`; an empty one is a block without keys.
 *
 * @param file - names it in errors
 * @returns JSON, as it stands there
 * @throws KasError CONFIGURATION_INVALID with every problem and its line; a key that is not known is one
 */
export function parseViewsFile(file: string, bytes: Uint8Array): string {
  const source = textOf(file, bytes)
  let raw: Readonly<Record<string, unknown>>
  try {
    raw = parseConfig(file, source, viewsFileSchema, { limits: { maxNodes }, refused }).raw
  } catch (error) {
    throw configurationInvalid(error)
  }
  const json = JSON.stringify(raw)
  if (Buffer.byteLength(json) > maxJsonBytes) {
    throw new KasError({ code: 'CONFIGURATION_INVALID', detail: `${file}: more than ${maxJsonBytes} bytes as JSON` })
  }
  return json
}
