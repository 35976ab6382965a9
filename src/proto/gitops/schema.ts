import * as z from 'zod'
import { parseFieldPath } from './field-path.ts'
import { maxDriftLength, maxIgnoreRules, maxNamespaces, maxPaths, maxSources } from './limits.ts'

/**
 * `gitops` of an agent's configuration (doc/guide/gitops.md): stock keys, and keys of this project from `name` on. The file
 * is checked by it in kas, and the sent configuration is read by it in agentk. It fills in no defaults. `error` says
 * what is allowed.
 */

/** `3600s`, as in JSON of protobuf */
export const durationForm = /^(\d{1,9}(?:\.\d{1,9})?)s$/
/** `50%` */
export const percentForm = /^(100|\d{1,2})%$/

/** Bound of lists of kinds, groups or environments. */
const maxNames = 100

const text = z.string({ error: 'a text' }).max(1024, { error: 'at most 1024 characters' })
const filled = text.min(1, { error: 'a text that is not empty' })
const name = z.string({ error: 'a text' }).max(253, { error: 'at most 253 characters' })
const filledName = name.min(1, { error: 'a text that is not empty' })
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.object(shape, { error: 'a block of keys' })
const listOf = <S extends z.ZodType>(element: S, max: number) =>
  z.array(element, { error: 'a list' }).max(max, { error: `a list of at most ${max}` })
const someOf = <S extends z.ZodType>(element: S, max: number) =>
  listOf(element, max).min(1, { error: 'at least one' }).readonly()
const form = (pattern: RegExp, error: string) => z.string({ error }).regex(pattern, { error })

const duration = form(durationForm, 'seconds such as "300s"')
const namespace = form(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 'the name of a namespace')
const namespaceOrNone = form(/^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)?$/, 'the name of a namespace')
const accountName = form(/^[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?$/, 'the name of a service account')
const sourceName = form(/^[a-z0-9-]{1,32}$/, '1 to 32 lower-case letters, digits and hyphens')
const releaseName = form(
  /^[a-z0-9](?:[-.a-z0-9]{0,51}[a-z0-9])?$/,
  'the name of a release: at most 53 lower-case letters, digits, hyphens and dots',
)
/** Path of a folder or a file of the repository, from its root. */
const inside = filled.refine((path) => !path.startsWith('/') && !path.split('/').includes('..'), {
  error: 'a path inside the repository',
})
const isLimit = (value: unknown) =>
  typeof value === 'number' ? Number.isSafeInteger(value) && value >= 0 : percentForm.test(String(value))
const pruneLimit = z.custom<string | number>(isLimit, { error: 'a share such as "50%", or a number of objects' })

/** Requires exactly one of these keys. */
function oneOf(...keys: readonly string[]) {
  return (value: object, context: z.RefinementCtx) => {
    if (Object.keys(value).length !== 1) context.addIssue({ code: 'custom', message: `one of ${keys.join(', ')}` })
  }
}

const path = block({ glob: filled.exactOptional(), file: filled.exactOptional() }).superRefine(oneOf('glob', 'file'))
const ref = block({
  tag: text.exactOptional(),
  branch: text.exactOptional(),
  commit: text.exactOptional(),
}).superRefine(oneOf('tag', 'branch', 'commit'))
/** `''` is the core group, `*` is any. */
const rule = block({ api_groups: someOf(name, maxNames), kinds: someOf(filledName, maxNames) })
const serviceAccount = block({ namespace, name: accountName })

/** Duration in seconds within bounds, both allowed. */
function durationWithin(min: number, max: number) {
  const error = `seconds such as "300s", from "${min}s" to "${max}s"`
  const isWithin = (value: string) => {
    const [, seconds = NaN] = durationForm.exec(value) ?? []
    return Number(seconds) >= min && Number(seconds) <= max
  }
  return z.string({ error }).refine(isWithin, { error })
}

const day = 24 * 60 * 60
/** Longest time until a drifted object is corrected, as long as the longest hold of one. s */
const maxAfterSeconds = 7 * day
/** Shortest time between two scans of an object: 10,000 objects in 300 s are 33 calls a second. s */
const minScanSeconds = 300
/** Longest time between two scans of an object. s */
const maxScanSeconds = 7 * day

/** Pattern of kinds: `Deployment`, `apps/Deployment`, `*.example.com/*`. A text before a slash is the group. */
const kindPattern = filledName.refine((value) => /^(?:[^/\s]*\/)?[^/\s]+$/.test(value), {
  error: 'a kind such as "Deployment" or "apps/Deployment", in which "*" is any text',
})
/** Pattern of field managers: `kubectl*`. */
const managerPattern = filled.max(128, { error: 'at most 128 characters' })
const fieldPath = text.superRefine((value, context) => {
  const parsed = parseFieldPath(value)
  if ('problem' in parsed) context.addIssue({ code: 'custom', message: parsed.problem })
})

/** Rule for fields that a source leaves to others. A field matches if it matches each key that is there. */
const ignoreRule = block({
  kinds: someOf(kindPattern, maxNames).exactOptional(),
  paths: someOf(fieldPath, maxPaths).exactOptional(),
  managers: someOf(managerPattern, maxNames).exactOptional(),
}).superRefine(({ paths, managers }, context) => {
  if (!paths && !managers) context.addIssue({ code: 'custom', message: 'paths, managers, or both' })
})

const driftSchema = block({
  mode: z.enum(['correct', 'report', 'none']).exactOptional(),
  after: durationWithin(0, maxAfterSeconds).exactOptional(),
  scan: durationWithin(minScanSeconds, maxScanSeconds).exactOptional(),
  ignore: listOf(ignoreRule, maxIgnoreRules).readonly().exactOptional(),
  added_by: listOf(managerPattern, maxNames).readonly().exactOptional(),
}).superRefine((value, context) => {
  if (JSON.stringify(value).length <= maxDriftLength) return
  context.addIssue({ code: 'custom', message: `at most ${maxDriftLength} characters as JSON: fewer rules` })
})

/** Projects that may preview changes of a source, beside its own. A union hides unknown keys: they are refused. */
const previewSchema = z.union([z.literal('none'), z.strictObject({ projects: someOf(z.int().positive(), maxNames) })], {
  error: 'none, or projects: a list of numbers of projects',
})

type PreviewBlock = z.output<typeof previewSchema>
export type DriftBlock = z.output<typeof driftSchema>
export type IgnoreBlock = z.output<typeof ignoreRule>

const sourceKeys = {
  /** full path of the project; absent: the agent's own */
  id: filled.exactOptional(),
  default_namespace: namespaceOrNone.exactOptional(),
  paths: listOf(path, maxPaths).readonly().exactOptional(),
  reconcile_timeout: duration.exactOptional(),
  dry_run_strategy: z.enum(['none', 'client', 'server']).exactOptional(),
  prune: z.boolean({ error: 'true or false' }).exactOptional(),
  prune_timeout: duration.exactOptional(),
  prune_propagation_policy: z.enum(['orphan', 'background', 'foreground']).exactOptional(),
  inventory_policy: z.enum(['must_match', 'adopt_if_no_inventory', 'adopt_all']).exactOptional(),
  /** absent or empty: the default branch */
  ref: ref.exactOptional(),
  resource_inclusions: someOf(rule, maxNames).exactOptional(),
  resource_exclusions: someOf(rule, maxNames).exactOptional(),
  name: sourceName.exactOptional(),
  adopt: someOf(filled.max(128, { error: 'at most 128 characters' }), maxNames).exactOptional(),
  namespaces: someOf(namespace, maxNamespaces).exactOptional(),
  access_as: block({ service_account: serviceAccount }).exactOptional(),
  kustomize: block({ path: inside }).exactOptional(),
  helm: block({
    chart: inside,
    values: someOf(inside, maxPaths).exactOptional(),
    release: releaseName,
    hooks: z.enum(['skip']).exactOptional(),
  }).exactOptional(),
  prune_confirm: listOf(filledName, maxNames).readonly().exactOptional(),
  prune_limit: pruneLimit.exactOptional(),
  on_removal: z.enum(['keep', 'prune']).exactOptional(),
  conflicts: z.enum(['force', 'fail']).exactOptional(),
  environments: someOf(filledName, maxNames).exactOptional(),
  /** absent: the one of `gitops`, if it has one */
  drift: driftSchema.exactOptional(),
}

function oneRenderer({ kustomize, helm }: { kustomize?: object; helm?: object }, context: z.RefinementCtx): void {
  if (kustomize && helm) context.addIssue({ code: 'custom', message: 'kustomize or helm, not both' })
}

/** A source as agents get it. */
export const sourceSchema = block(sourceKeys).superRefine(oneRenderer)

/** A source as the file has it. */
const configuredSourceSchema = block({
  ...sourceKeys,
  /** for kas, which sends it to no agent; absent: the one of `gitops`, if it has one */
  preview: previewSchema.exactOptional(),
}).superRefine(oneRenderer)

export type ConfiguredSource = z.output<typeof configuredSourceSchema>

export type SourceBlock = z.output<typeof sourceSchema>
export type ResourceRule = z.output<typeof rule>

/** Absent block: there is no file, and sources pause. No sources: the file was read completely, and has none. */
export const gitopsSchema = block({
  /** of all sources without a `drift` of their own */
  drift: driftSchema.exactOptional(),
  /** of all sources without a `preview` of their own */
  preview: previewSchema.exactOptional(),
  manifest_projects: listOf(configuredSourceSchema, maxSources).superRefine(differentNames).exactOptional(),
}).overwrite(shareCommon)

export type GitopsBlock = z.output<typeof gitopsSchema>

interface Sources {
  drift?: DriftBlock
  preview?: PreviewBlock
  manifest_projects?: ConfiguredSource[]
}

/**
 * Gives each source without a `drift` or a `preview` the one of the block. So agentk and its rows know drift by the source
 * alone.
 */
function shareCommon(value: Sources): Sources {
  const { drift, preview, manifest_projects: sources } = value
  if ((!drift && !preview) || !sources) return value
  const common = { ...(drift && { drift }), ...(preview && { preview }) }
  return { ...value, manifest_projects: sources.map((source) => ({ ...common, ...source })) }
}

/** As `gitopsSchema` without the sources: each is read by itself, so that an invalid one does not stop the others. */
export const sourceListSchema = block({
  manifest_projects: listOf(z.unknown(), maxSources).exactOptional(),
})

/** Objects of a source are known by its project and its name, so the pair must be unique. */
function differentNames(sources: readonly SourceBlock[], context: z.RefinementCtx): void {
  const seen = new Set<string>()
  for (const [i, { id = '', name = '' }] of sources.entries()) {
    const key = `${id.toLowerCase()} ${name}`
    if (seen.has(key)) {
      const message = `another name than the other source of ${id === '' ? "the agent's own project" : id}`
      context.addIssue({ code: 'custom', path: [i, 'name'], message })
    }
    seen.add(key)
  }
}
