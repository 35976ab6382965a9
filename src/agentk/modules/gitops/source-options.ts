import * as z from 'zod'
import { maxNamespaces, maxPaths, maxSources, type ResourceRule, type SourceBlock } from '../../../proto/gitops-json.ts'

/** A source as its block says it, with every default. JSON can carry it. */
export interface SourceOptions {
  /** `<agent>-<project's number>[-<name>]`: names all that the source leaves in the cluster */
  readonly id: string
  /** field manager of its applies */
  readonly manager: string
  /** full path */
  readonly project: string
  readonly defaultNamespace: string
  readonly paths: readonly { readonly glob?: string; readonly file?: string }[]
  readonly reconcileTimeoutMs: number
  readonly dryRunStrategy: 'none' | 'client' | 'server'
  readonly prune: boolean
  readonly pruneTimeoutMs: number
  readonly prunePropagationPolicy: 'orphan' | 'background' | 'foreground'
  readonly inventoryPolicy: 'must_match' | 'adopt_if_no_inventory' | 'adopt_all'
  /** absent: the default branch */
  readonly ref?: { readonly tag?: string; readonly branch?: string; readonly commit?: string }
  /** absent: all kinds */
  readonly resourceInclusions?: readonly ResourceRule[]
  readonly resourceExclusions: readonly ResourceRule[]
  readonly name?: string
  readonly adopt: readonly string[]
  /** absent: all, and cluster-wide objects */
  readonly namespaces?: readonly string[]
  /** absent: agentk's own account */
  readonly accessAs?: { readonly serviceAccount: { readonly namespace: string; readonly name: string } }
  /** neither this nor `helm`: the files are manifests */
  readonly kustomize?: { readonly path: string }
  readonly helm?: { readonly chart: string; readonly values: readonly string[]; readonly release: string }
  /** kinds whose objects are pruned with approval alone */
  readonly pruneConfirm: readonly string[]
  /** that many at once, of an inventory of more than `pruneLimitFrom` */
  readonly pruneLimit: { readonly percent: number } | { readonly objects: number }
  readonly onRemoval: 'keep' | 'prune'
  readonly conflicts: 'force' | 'fail'
  readonly environments: readonly string[]
}

export const pruneLimitFrom = 5
/** Of a source's id: it is a label's value. */
export const maxIdLength = 63
/** As the stock agent has it. */
const stockNamespace = 'default'
const stockTimeoutMs = 60 * 60 * 1000
const defaultPruneConfirm = ['CustomResourceDefinition', 'Namespace', 'PersistentVolume', 'PersistentVolumeClaim']

/**
 * The sources of a GitopsBlock that can be used, and what is wrong with each of the others. Keys that a newer kas adds
 * are left out.
 *
 * @throws Error: it is no such block
 */
export function readBlock(json: unknown): { sources: readonly SourceBlock[]; problems: readonly string[] } {
  const block = blockSchema.safeParse(json)
  if (!block.success) throw new Error(`gitops: ${z.prettifyError(block.error)}`)
  const sources: SourceBlock[] = []
  const problems: string[] = []
  for (const [index, source] of (block.data.manifest_projects ?? []).entries()) {
    const read = sourceSchema.safeParse(source)
    if (read.success) sources.push(read.data as SourceBlock)
    else problems.push(`gitops.manifest_projects[${index}]: ${z.prettifyError(read.error)}`)
  }
  return { sources, problems }
}

/** @param of.projectId - of the project that the block names. @throws Error what is wrong */
export function sourceOptions(
  block: SourceBlock,
  of: { readonly agentId: bigint; readonly projectId: bigint; readonly ownProject: string },
): SourceOptions {
  const { kustomize, helm, name } = block
  const id = `${of.agentId}-${of.projectId}${name === undefined ? '' : `-${name}`}`
  if (id.length > maxIdLength) throw new Error(`gitops: the name ${name} is too long for a label: ${id}`)
  const serviceAccount = block.access_as?.service_account
  return {
    id,
    manager: `agentk-${id}`,
    project: block.id ?? of.ownProject,
    defaultNamespace: block.default_namespace || stockNamespace,
    paths: block.paths?.length ? block.paths : [{ glob: kustomize || helm ? '**/*' : '**/*.{yaml,yml,json}' }],
    reconcileTimeoutMs: durationMs(block.reconcile_timeout),
    dryRunStrategy: block.dry_run_strategy ?? 'none',
    prune: block.prune ?? true,
    pruneTimeoutMs: durationMs(block.prune_timeout),
    prunePropagationPolicy: block.prune_propagation_policy ?? 'foreground',
    inventoryPolicy: block.inventory_policy ?? 'must_match',
    ...(block.ref && { ref: block.ref }),
    ...(block.resource_inclusions && { resourceInclusions: block.resource_inclusions }),
    resourceExclusions: block.resource_exclusions ?? [],
    ...(name !== undefined && { name }),
    adopt: block.adopt ?? [],
    ...(block.namespaces && { namespaces: block.namespaces }),
    ...(serviceAccount && { accessAs: { serviceAccount } }),
    ...(kustomize && { kustomize }),
    ...(helm && { helm: { values: [], ...helm } }),
    pruneConfirm: block.prune_confirm ?? defaultPruneConfirm,
    pruneLimit: pruneLimit(block.prune_limit ?? '50%'),
    onRemoval: block.on_removal ?? 'keep',
    conflicts: block.conflicts ?? 'force',
    environments: block.environments ?? [],
  }
}

/** `3600s`, as JSON of protobuf has it. */
const durationForm = /^(\d{1,9}(?:\.\d{1,9})?)s$/
const percentForm = /^(100|\d{1,2})%$/

function durationMs(text: string | undefined): number {
  if (text === undefined) return stockTimeoutMs
  const [, seconds] = durationForm.exec(text) ?? []
  return Math.round(Number(seconds) * 1000)
}

function pruneLimit(limit: string | number): SourceOptions['pruneLimit'] {
  if (typeof limit === 'number') return { objects: limit }
  const [, percent] = percentForm.exec(limit) ?? []
  return { percent: Number(percent) }
}

const text = z.string().min(1).max(1024)
/** Empty: as if it were absent, as the stock agent takes it. */
const textOrNone = z.string().max(1024)
/** Of Kubernetes: a DNS label. */
const label = z.string().regex(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 'is no name of a namespace')
const accountName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?$/, 'is no name of a service account')
const duration = z.string().regex(durationForm, 'is no duration such as 3600s')
/** Folders and files of the repository, from its root. */
const path = text.refine(
  (value) => !value.startsWith('/') && !value.split('/').includes('..'),
  'leads outside the repository',
)
const rules = z.array(z.object({ api_groups: z.array(z.string()).max(100), kinds: z.array(text).max(100) })).max(100)
const isOne = (value: object) => Object.values(value).filter((part) => part !== undefined).length === 1

const sourceSchema = z
  .object({
    id: text,
    default_namespace: label.or(z.literal('')),
    paths: z
      .array(z.object({ glob: text, file: text }).partial().refine(isOne, 'wants a glob or a file'))
      .max(maxPaths),
    reconcile_timeout: duration,
    dry_run_strategy: z.enum(['none', 'client', 'server']),
    prune: z.boolean(),
    prune_timeout: duration,
    prune_propagation_policy: z.enum(['orphan', 'background', 'foreground']),
    inventory_policy: z.enum(['must_match', 'adopt_if_no_inventory', 'adopt_all']),
    ref: z
      .object({ tag: textOrNone, branch: textOrNone, commit: textOrNone })
      .partial()
      .refine(isOne, 'wants a tag, a branch or a commit'),
    resource_inclusions: rules,
    resource_exclusions: rules,
    name: z.string().regex(/^[a-z0-9-]{1,32}$/, 'wants 1 to 32 of a-z, 0-9 and -'),
    adopt: z.array(z.string().min(1).max(128)).max(100),
    namespaces: z.array(label).min(1).max(maxNamespaces),
    access_as: z.object({ service_account: z.object({ namespace: label, name: accountName }) }),
    kustomize: z.object({ path }),
    helm: z.object({
      chart: path,
      values: z.array(path).max(maxPaths).optional(),
      release: z
        .string()
        .max(53)
        .regex(/^[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?$/, 'is no name of a release'),
    }),
    prune_confirm: z.array(text).max(100),
    prune_limit: z.union([
      z.string().regex(percentForm, 'wants a number of objects or a share such as 50%'),
      z.int().min(0),
    ]),
    on_removal: z.enum(['keep', 'prune']),
    conflicts: z.enum(['force', 'fail']),
    environments: z.array(text).max(100),
  })
  .partial()
  .refine(({ kustomize, helm }) => !(kustomize && helm), 'wants kustomize or helm, not both')

const blockSchema = z.object({ manifest_projects: z.array(z.unknown()).max(maxSources).optional() })
