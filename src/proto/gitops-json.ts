/**
 * `gitops` of an agent's configuration as kas has checked it, which our agentk gets as the module's block `gitops`
 * (doc/gitops.md). No default is filled in. Imports nothing.
 */

/** Absent block: there is no file, sources rest. No sources: a file that was read whole names none. */
export interface GitopsBlock {
  /** at most `maxSources` */
  readonly manifest_projects?: readonly SourceBlock[]
}

export interface SourceBlock {
  /** full path of the project; absent: the agent's own */
  readonly id?: string
  readonly default_namespace?: string
  readonly paths?: readonly { readonly glob?: string; readonly file?: string }[]
  /** `3600s` */
  readonly reconcile_timeout?: string
  readonly dry_run_strategy?: 'none' | 'client' | 'server'
  readonly prune?: boolean
  readonly prune_timeout?: string
  readonly prune_propagation_policy?: 'orphan' | 'background' | 'foreground'
  readonly inventory_policy?: 'must_match' | 'adopt_if_no_inventory' | 'adopt_all'
  /** one of them; absent: the default branch */
  readonly ref?: { readonly tag?: string; readonly branch?: string; readonly commit?: string }
  readonly resource_inclusions?: readonly ResourceRule[]
  readonly resource_exclusions?: readonly ResourceRule[]
  // from here ours
  readonly name?: string
  readonly adopt?: readonly string[]
  readonly namespaces?: readonly string[]
  readonly access_as?: { readonly service_account: { readonly namespace: string; readonly name: string } }
  readonly kustomize?: { readonly path: string }
  readonly helm?: { readonly chart: string; readonly values?: readonly string[]; readonly release: string }
  readonly prune_confirm?: readonly string[]
  /** `50%`, or a number of objects */
  readonly prune_limit?: string | number
  readonly on_removal?: 'keep' | 'prune'
  readonly conflicts?: 'force' | 'fail'
  readonly environments?: readonly string[]
}

export interface ResourceRule {
  /** `''` is the core group, `*` is any */
  readonly api_groups: readonly string[]
  readonly kinds: readonly string[]
}

export const maxSources = 100
/** of one source */
export const maxNamespaces = 20
export const maxPaths = 100
export const maxFiles = 1000
export const maxFileBytes = 5 * 1024 * 1024
/** of all files of a round */
export const maxRoundBytes = 20 * 1024 * 1024
/** of an agent */
export const maxObjects = 10_000
/** of an object, as JSON */
export const maxObjectBytes = 1.5 * 1024 * 1024
/** of a SourceState */
export const maxStateBytes = 64 * 1024
