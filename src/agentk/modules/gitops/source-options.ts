import { hash } from 'node:crypto'
import type * as z from 'zod'
import { checkTree } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import {
  type DriftBlock,
  durationForm,
  type IgnoreBlock,
  percentForm,
  type ResourceRule,
  type SourceBlock,
  sourceListSchema,
  sourceSchema,
} from '../../../proto/gitops/schema.ts'
import { sourceDigest } from '../../../proto/gitops/source-digest.ts'
import { sourcePaths } from '../../../proto/gitops/source-paths.ts'

/** Options of a source, with every default. They can be written as JSON. */
export interface SourceOptions {
  /** `<agent>-<project's number>[-<name>]`: marks all objects of the source in the cluster */
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
  /** absent: all namespaces, and cluster-scoped objects */
  readonly namespaces?: readonly string[]
  /** absent: agentk's own account */
  readonly accessAs?: { readonly serviceAccount: { readonly namespace: string; readonly name: string } }
  /** neither `kustomize` nor `helm`: the files are manifests */
  readonly kustomize?: { readonly path: string }
  readonly helm?: {
    readonly chart: string
    readonly values: readonly string[]
    readonly release: string
    /** hooks are not run, and objects that rely on them are applied all the same */
    readonly hooks?: 'skip'
  }
  /** kinds whose objects are pruned only with approval */
  readonly pruneConfirm: readonly string[]
  /** most deletions at once without approval, for an inventory of more than `pruneLimitFrom` objects */
  readonly pruneLimit: { readonly percent: number } | { readonly objects: number }
  readonly onRemoval: 'keep' | 'prune'
  readonly conflicts: 'force' | 'fail'
  readonly environments: readonly string[]
  readonly drift: DriftPolicy
  /** kept beside an inventory: links of the commit that were not read at the last prune */
  readonly leftOut?: readonly string[]
  /** kept beside an inventory: the project's default branch at the last prune; absent: not known */
  readonly defaultBranch?: string
}

/** Decisions of a source on drift: changes of others in what its commit has applied. */
export interface DriftPolicy {
  /** `report`: a drifted object is written only by a commit that changes its manifest; `none`: as `report`, unwatched */
  readonly mode: 'correct' | 'report' | 'none'
  /** time for which an object has drifted before it is corrected */
  readonly afterMs: number
  /** time in which each object is compared once, whatever its metadata say */
  readonly scanMs: number
  /** fields that are left to other managers; `readRules` parses them */
  readonly ignore: readonly IgnoreBlock[]
  /** patterns of managers by which people change objects: fields that they add are drift */
  readonly addedBy: readonly string[]
  /** an apply removes such fields: the configuration itself names the managers */
  readonly removesAdded: boolean
}

export const pruneLimitFrom = 5
/** Limit of a source's id: it is a label value. Characters */
const maxIdLength = 63
/** Form of a source's id, also of the stock agent's. Other texts in `adopt` are managers. */
const idForm = /^\d+-\d+(?:-[a-z0-9-]+)?$/

export function hasIdForm(text: string): boolean {
  return idForm.test(text)
}

/** True if a source can have this id. */
export function isSourceId(text: string): boolean {
  return text.length <= maxIdLength && hasIdForm(text)
}

/** Defaults of the stock agent. */
const stockNamespace = 'default'
const stockTimeout = '3600s'
/** As long as the stock agent waits between two applies. */
const defaultAfter = '300s'
const defaultScan = '21600s'
/** Managers of `kubectl`, k9s, Headlamp, and of browsers. */
const defaultAddedBy = ['kubectl*', 'k9s', 'node-fetch', 'Mozilla']
const defaultPruneConfirm = ['CustomResourceDefinition', 'Namespace', 'PersistentVolume', 'PersistentVolumeClaim']

/** Source that can be used. */
export interface ReadSource {
  readonly block: SourceBlock
  /** `sourceDigest`; it changes with the wording of the block */
  readonly digest: string
}

/** Source that this agentk cannot read: a kas of another version has checked it. */
export interface UnreadableSource {
  /** full path; absent: the agent's own project */
  readonly project?: string
  readonly name?: string
  /** key, value found and values allowed */
  readonly problem: string
}

/**
 * Reads a GitopsBlock: the sources that can be used, and the others. A source with a key that only a newer kas knows
 * cannot be used, since the key may restrict it. Other unknown keys have no effect: kas copies into each source what
 * holds for all.
 *
 * @throws Error: it is no such block
 */
export function readBlock(json: unknown): {
  readonly sources: readonly ReadSource[]
  readonly unreadable: readonly UnreadableSource[]
} {
  const { manifest_projects: all = [] } = checked('gitops', json, sourceListSchema)
  const sources: ReadSource[] = []
  const unreadable: UnreadableSource[] = []
  for (const [i, tree] of all.entries()) {
    try {
      const block = checkedWhole(`gitops.manifest_projects[${i}]`, tree, sourceSchema)
      sources.push({ block, digest: sourceDigest(tree) })
    } catch (error) {
      unreadable.push({ ...namesOf(tree), problem: (error as Error).message })
    }
  }
  return { sources, unreadable }
}

/** @throws Error with key, value found and values allowed */
function checked<S extends z.ZodType>(key: string, json: unknown, schema: S): z.output<S> {
  return checkedTree(key, json, schema).value
}

/** As `checked`. @throws Error also for a key that the schema does not know */
function checkedWhole<S extends z.ZodType>(key: string, json: unknown, schema: S): z.output<S> {
  const { value, warnings } = checkedTree(key, json, schema)
  const unknown = warnings.find(({ kind }) => kind === 'unknown')
  if (unknown) throw new Error(`${unknown.key}: this agentk does not know the key: update agentk`)
  return value
}

function checkedTree<S extends z.ZodType>(key: string, json: unknown, schema: S): ReturnType<typeof checkTree<S>> {
  try {
    return checkTree('', key, structuredClone(json), schema)
  } catch (error) {
    const { spec } = KasError.from(error)
    throw new Error(spec.code === 'SETTINGS_INVALID' ? spec.problems.join('; ') : `${key}: it cannot be read`)
  }
}

function namesOf(tree: unknown): Pick<UnreadableSource, 'project' | 'name'> {
  const { id, name } = (tree ?? {}) as Record<string, unknown>
  return { ...(typeof id === 'string' && { project: id }), ...(typeof name === 'string' && { name }) }
}

/** @param of.projectId - number of the project that the block names. @throws Error with the problem */
export function sourceOptions(
  block: SourceBlock,
  of: { readonly agentId: bigint; readonly projectId: bigint; readonly ownProject: string },
): SourceOptions {
  const { kustomize, helm, name } = block
  const id = sourceId(name, of)
  if (id.length > maxIdLength) throw new Error(`gitops: the name ${name} is too long for a label: ${id}`)
  const serviceAccount = block.access_as?.service_account
  return {
    id,
    manager: `agentk-${id}`,
    project: block.id ?? of.ownProject,
    defaultNamespace: block.default_namespace || stockNamespace,
    paths: sourcePaths(block),
    reconcileTimeoutMs: durationMs(block.reconcile_timeout ?? stockTimeout),
    dryRunStrategy: block.dry_run_strategy ?? 'none',
    prune: block.prune ?? true,
    pruneTimeoutMs: durationMs(block.prune_timeout ?? stockTimeout),
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
    drift: driftPolicy(block.drift),
  }
}

/** @param block - of the source; undefined: neither the source nor `gitops` has one */
export function driftPolicy(block: DriftBlock | undefined): DriftPolicy {
  const { mode = 'correct', after = defaultAfter, scan = defaultScan, ignore = [], added_by: addedBy } = block ?? {}
  return {
    mode,
    afterMs: durationMs(after),
    scanMs: durationMs(scan),
    ignore,
    addedBy: addedBy ?? defaultAddedBy,
    removesAdded: addedBy !== undefined,
  }
}

/** Fields that distinguish sources: a project's full path, by default the agent's own, and a name. */
export interface SourceNaming {
  readonly id?: string | undefined
  readonly name?: string | undefined
}

/** Returns the id that a source has in the cluster: `42-7-web`. */
export function sourceId(
  name: string | undefined,
  { agentId, projectId }: { readonly agentId: bigint; readonly projectId: bigint },
): string {
  return `${agentId}-${projectId}${name === undefined ? '' : `-${name}`}`
}

/** Limit of an id in a status; a longer one is cut. Characters */
const maxUnresolvedLength = 128

/** Returns the id while the project's number is unknown: `42-platform/shop`. It is no label, and no object's name. */
export function unresolvedId(of: {
  readonly block: SourceBlock
  readonly agentId: bigint
  readonly ownProject: string
}) {
  const { id: project = of.ownProject, name } = of.block
  const text = `${of.agentId}-${project}${name === undefined ? '' : `-${name}`}`
  if (text.length <= maxUnresolvedLength) return text
  return `${text.slice(0, maxUnresolvedLength - 17)}~${hash('sha256', text).slice(0, 16)}`
}

function durationMs(text: string): number {
  const [, seconds] = durationForm.exec(text) ?? []
  return Math.round(Number(seconds) * 1000)
}

function pruneLimit(limit: string | number): SourceOptions['pruneLimit'] {
  if (typeof limit === 'number') return { objects: limit }
  const [, percent] = percentForm.exec(limit) ?? []
  return { percent: Number(percent) }
}
