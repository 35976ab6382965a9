import * as z from 'zod'
import { driftPolicy, type SourceOptions } from '../source-options.ts'

const texts = z.array(z.string())
const block = z.looseObject({})
const drift = z.looseObject({
  mode: z.enum(['correct', 'report', 'none']),
  afterMs: z.number(),
  scanMs: z.number(),
  ignore: z.array(z.looseObject({ kinds: texts.optional(), paths: texts.optional(), managers: texts.optional() })),
  addedBy: texts,
  removesAdded: z.boolean(),
})

/** Options as agentk writes them beside an inventory. An earlier agentk has kept none about drift. */
const keptOptions = z.looseObject({
  id: z.string(),
  manager: z.string(),
  project: z.string(),
  defaultNamespace: z.string(),
  paths: z.array(block),
  reconcileTimeoutMs: z.number(),
  dryRunStrategy: z.enum(['none', 'client', 'server']),
  prune: z.boolean(),
  pruneTimeoutMs: z.number(),
  prunePropagationPolicy: z.enum(['orphan', 'background', 'foreground']),
  inventoryPolicy: z.enum(['must_match', 'adopt_if_no_inventory', 'adopt_all']),
  ref: block.optional(),
  resourceInclusions: z.array(block).optional(),
  resourceExclusions: z.array(block),
  name: z.string().optional(),
  adopt: texts,
  namespaces: texts.optional(),
  accessAs: z.looseObject({ serviceAccount: z.looseObject({ namespace: z.string(), name: z.string() }) }).optional(),
  kustomize: block.optional(),
  helm: block.optional(),
  pruneConfirm: texts,
  pruneLimit: z.union([z.looseObject({ percent: z.number() }), z.looseObject({ objects: z.number() })]),
  onRemoval: z.enum(['keep', 'prune']),
  conflicts: z.enum(['force', 'fail']),
  environments: texts,
  drift: drift.prefault(() => driftPolicy(undefined) as z.input<typeof drift>),
  leftOut: texts.optional(),
  defaultBranch: z.string().optional(),
})

/**
 * Reads options that agentk has kept. They decide what is deleted, so nothing is done by options that somebody has
 * changed.
 *
 * @throws Error with the key that is missing or wrong, as the end of a sentence
 */
export function readKeptOptions(text: string): SourceOptions {
  return readKept(text, keptOptions) as unknown as SourceOptions
}

/** Reads ids that agentk has kept. @throws as `readKeptOptions` */
export function readKeptIds(text: string): readonly string[] {
  return readKept(text, texts)
}

function readKept<T>(text: string, schema: z.ZodType<T>): T {
  const { success, data, error } = schema.safeParse(parsed(text))
  if (success) return data
  const path = error.issues[0]?.path.map(String).join('.')
  throw new Error(path ? `${path} is missing or wrong` : 'it is not what agentk has written')
}

/** @returns undefined: it is no JSON */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the schema refuses it
  }
}
