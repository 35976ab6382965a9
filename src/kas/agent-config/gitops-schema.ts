import * as z from 'zod'
import { maxNamespaces, maxPaths, maxSources } from '../../proto/gitops-json.ts'

/** `gitops` of an agent's configuration (doc/gitops.md): stock keys, and ours from `name` on. No default is filled in. */

const text = z.string({ error: 'a text' })
const filled = text.min(1, { error: 'a text that is not empty' }).max(1024, { error: 'at most 1024 characters' })
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.object(shape, { error: 'a block of keys' })
const listOf = <S extends z.ZodType>(element: S, max: number) =>
  z
    .array(element, { error: 'a list' })
    .min(1, { error: 'at least one' })
    .max(max, { error: `a list of at most ${max}` })

const durationText = 'seconds such as "300s"'
const duration = z.string({ error: durationText }).regex(/^\d{1,9}(\.\d{1,9})?s$/, { error: durationText })
const nameText = '1 to 32 lower-case letters, digits and hyphens'
const sourceName = z.string({ error: nameText }).regex(/^[a-z0-9-]{1,32}$/, { error: nameText })
const objectText = 'the name of an object: lower-case letters, digits, hyphens and dots'
const objectName = z
  .string({ error: objectText })
  .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, { error: objectText })
const releaseText = 'the name of a release: at most 53 lower-case letters, digits, hyphens and dots'
const releaseName = z
  .string({ error: releaseText })
  .regex(/^[a-z0-9]([a-z0-9.-]{0,51}[a-z0-9])?$/, { error: releaseText })
/** A folder or a file of the repository, from its root. */
const inside = filled.refine((value) => !value.startsWith('/') && !value.split('/').includes('..'), {
  error: 'a path inside the repository',
})
const limitText = 'a share such as "50%", or a number of objects'
const isLimit = (value: unknown) =>
  typeof value === 'number' ? Number.isSafeInteger(value) && value >= 0 : /^(100|\d{1,2})%$/.test(String(value))
const pruneLimit = z.custom<string | number>(isLimit, { error: limitText })

/** Names of namespaces, groups, kinds or environments. */
const maxNames = 100
const names = listOf(text.max(253, { error: 'at most 253 characters' }), maxNames)
const rules = listOf(block({ api_groups: names, kinds: names }), maxNames).optional()

/** Exactly one of these keys. */
function oneOf(...keys: readonly string[]) {
  return (value: object, context: z.RefinementCtx) => {
    if (Object.keys(value).length === 1) return
    context.addIssue({ code: 'custom', message: `one of ${keys.join(', ')}` })
  }
}

const path = block({ glob: filled.optional(), file: filled.optional() }).superRefine(oneOf('glob', 'file'))
const ref = block({ tag: text.optional(), branch: text.optional(), commit: text.optional() })

const source = block({
  id: filled.optional(),
  default_namespace: text.optional(),
  paths: z
    .array(path, { error: 'a list' })
    .max(maxPaths, { error: `a list of at most ${maxPaths}` })
    .optional(),
  reconcile_timeout: duration.optional(),
  dry_run_strategy: z.enum(['none', 'client', 'server']).optional(),
  prune: z.boolean({ error: 'true or false' }).optional(),
  prune_timeout: duration.optional(),
  prune_propagation_policy: z.enum(['orphan', 'background', 'foreground']).optional(),
  inventory_policy: z.enum(['must_match', 'adopt_if_no_inventory', 'adopt_all']).optional(),
  ref: ref.superRefine(oneOf('tag', 'branch', 'commit')).optional(),
  resource_inclusions: rules,
  resource_exclusions: rules,
  name: sourceName.optional(),
  adopt: listOf(filled, maxNames).optional(),
  namespaces: listOf(objectName, maxNamespaces).optional(),
  access_as: block({ service_account: block({ namespace: objectName, name: objectName }) }).optional(),
  kustomize: block({ path: inside }).optional(),
  helm: block({ chart: inside, values: listOf(inside, maxNames).optional(), release: releaseName }).optional(),
  prune_confirm: z
    .array(filled, { error: 'a list' })
    .max(maxNames, { error: `a list of at most ${maxNames}` })
    .optional(),
  prune_limit: pruneLimit.optional(),
  on_removal: z.enum(['keep', 'prune']).optional(),
  conflicts: z.enum(['force', 'fail']).optional(),
  environments: names.optional(),
}).superRefine((value, context) => {
  if (value.kustomize && value.helm) context.addIssue({ code: 'custom', message: 'kustomize or helm, not both' })
})

export type SourceTree = z.output<typeof source>

export const gitopsSchema = block({
  manifest_projects: z
    .array(source, { error: 'a list' })
    .max(maxSources, { error: `a list of at most ${maxSources}` })
    .superRefine(differentNames)
    .optional(),
})

export type GitopsTree = z.output<typeof gitopsSchema>

/** What a source has made is known by its project and its name. */
function differentNames(sources: readonly SourceTree[], context: z.RefinementCtx): void {
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

/**
 * What stock agents are sent: they know neither all keys nor all kinds of paths. A source that they would take for
 * something else, as it is rendered or kept to namespaces or to an account, is left out.
 */
export function stockGitops({ manifest_projects: sources = [] }: GitopsTree): object {
  const known = sources.flatMap((each) => {
    if (each.kustomize || each.helm || each.namespaces || each.access_as) return []
    const { name: _, resource_inclusions: inclusions, resource_exclusions: exclusions, paths, ...rest } = each
    if (inclusions || exclusions) return []
    const globs = paths?.filter(({ glob }) => glob !== undefined)
    if (paths && globs?.length !== paths.length) return []
    return [{ ...rest, ...(globs ? { paths: globs } : {}) }]
  })
  return { manifest_projects: known }
}
