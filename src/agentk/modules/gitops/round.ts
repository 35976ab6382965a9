import type { ObjectKey } from '../../../kubernetes/key.ts'
import type { Finding } from './finding.ts'
import type { ClusterKinds } from './live/cluster-kinds.ts'
import type { LiveObject } from './live/live-object.ts'
import type { ApplyProblem } from './live/refusal.ts'
import type { Manifest, ManifestProblem } from './manifests/manifest.ts'

/** Types of a round, in the order in which a round uses them. */

/** Dependencies between objects, by `keyText`. */
export interface WaveGraph {
  /** each object after those that it waits for; the order of the manifests does not matter */
  readonly order: readonly string[]
  /** objects that must exist and be healthy first: named by depends-on, its namespace, its definition */
  named(key: string): readonly string[]
  /** objects of the sync-wave before, for which it waits too; the same array for all of a wave */
  stepBefore(key: string): readonly string[]
  /** objects that wait for it */
  dependents(key: string): readonly string[]
  /** length of the longest chain of objects before it; objects of one wave do not wait for each other */
  wave(key: string): number
}

/** Objects that a commit wants, in order. */
export interface Build {
  readonly kind: 'built'
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  readonly kinds: ClusterKinds
  /** by `keyText`: hooks that agentk does not run */
  readonly hooks: ReadonlySet<string>
  /** notes for users: how the commit was rendered, and which parts are not applied */
  readonly notes: readonly string[]
  /** a chart was rendered while some kinds were unknown, and may lack objects of these */
  readonly isPartial: boolean
}

/** Reasons for which nothing of a commit can be applied. */
export interface Refusal {
  readonly kind: 'refused'
  readonly problems: readonly ManifestProblem[]
}

/** Objects that a source wants. */
export interface Claim {
  /** empty: no commit, the keys are what the source has made so far */
  readonly commit: string
  /** by `keyText` */
  readonly keys: ReadonlyMap<string, ObjectKey>
  /** the newest commit is refused: the source wants the objects of its last good one */
  readonly isLastGood?: boolean
}

/** Claims of one source, with the claims of the agent's other sources as far as it needs them. */
export interface SourceClaims {
  /** Replaces the source's earlier claim. */
  claim(claim: Claim): void
  /** True if another source has the id `owner` and no longer wants the object. */
  isHandedOver(owner: string, key: ObjectKey): boolean
  /** Returns the id of another source that wants the object. */
  newOwner(key: ObjectKey): string | undefined
  /**
   * Returns the reason for which it is unknown if another source wants the object. That source has claimed nothing
   * yet; or it follows the same ref of the same project, and has not claimed this commit.
   */
  unknownClaim(key: ObjectKey, commit: string): string | undefined
  /** Returns the objects that all other sources want. */
  wanted(): Iterable<ObjectKey>
  /** Returns `yes` if another source of the configuration has this id; `perhaps`: its project is not known yet. */
  stands(id: string): 'yes' | 'no' | 'perhaps'
  /** True if the agent's limit of objects leaves room for these keys. It limits only sources above their share. */
  hasRoom(keys: ReadonlyMap<string, ObjectKey>): boolean
}

/**
 * State of an entry.
 *
 * - `planned`: an apply may have been sent
 * - `failed`: the last apply, or the prune, was refused
 * - `waits`: the object has left the commit, and stays until an approval or for its `reason`
 * - `detached`: a change of the configuration has released the object; it is never pruned
 */
export type EntryState = 'planned' | 'applied' | 'failed' | 'waits' | 'detached'

/** Object that a source has made, or is about to make. */
export interface InventoryEntry {
  readonly key: ObjectKey
  readonly version: string
  /** empty: not known yet */
  readonly uid: string
  readonly wave: number
  /** of the manifest applied last; empty: none yet */
  readonly digest: string
  /** hash of the source's FieldsV1 after that apply; empty: not known */
  readonly fields: string
  /** time of that apply in managedFields; absent: an older agentk has written the entry; empty: it had none */
  readonly time?: string
  /** `metadata.generation` after that apply; absent: as above; 0: its kind has none */
  readonly generation?: number
  /** `LiveObject.ignored` after that apply; absent: there were none, or an older agentk has written the entry */
  readonly ignored?: string
  /** first values that rules have left out of that apply; absent: none */
  readonly leftOut?: readonly LeftOut[]
  /** it was a Job that the cluster deletes after its end; absent: it was not, or an older agentk has written the entry */
  readonly runsOnce?: true
  readonly state: EntryState
  /** reason for the state; empty: none */
  readonly reason: string
  /** absent: it does not drift, and was not corrected lately */
  readonly drift?: RecordedDrift
}

/** Facts of an object's drift that outlive a pod. Times are ms since the epoch. */
export interface RecordedDrift {
  /** time since which it drifts; 0: it does not */
  readonly since: number
  /** it was gone at that time */
  readonly isDeleted?: boolean
  /** times of the last corrections */
  readonly corrections?: readonly number[]
  /** manager whose changes they reverted */
  readonly by?: string
}

/** Changes made in the cluster that an apply has reverted to Git's state. */
export interface Undone {
  /** managers that made them */
  readonly by: readonly string[]
  /** `spec.ports` */
  readonly fields: readonly string[]
}

/** Field of another manager: an apply changes it only with force. */
export interface FieldConflict {
  /** `.spec.replicas` */
  readonly field: string
  readonly manager: string
  /** subresource through which it was written; empty: the object itself */
  readonly subresource: string
}

/** Value from Git that an apply has left out, since a rule of `drift.ignore` leaves the field to its manager. */
export interface LeftOut {
  /** as the API server writes conflicts: `.spec.template.spec.containers[name="app"].image` */
  readonly path: string
  readonly manager: string
  /** the rule, for people */
  readonly rule: string
}

/**
 * Result of an apply for one object. `unchanged`: the object is as it was applied, and nothing was sent.
 * `waits`: a dependency is missing, or not healthy. `left`: a newer commit came before the apply began.
 */
export type ApplyEnd =
  | {
      readonly kind: 'applied'
      readonly live: LiveObject
      readonly undone?: Undone
      /** fields of others that the apply has taken back */
      readonly overwritten?: readonly FieldConflict[]
      /** the first values that rules have left out */
      readonly leftOut?: readonly LeftOut[]
      /** drift that this apply has corrected */
      readonly corrected?: Finding
      /** reason for which no dry run was sent: the object would be applied as Git has it */
      readonly uncompared?: string
      /** it is a Job that the cluster deletes after its end, as Git or admission has it */
      readonly runsOnce?: true
    }
  | {
      readonly kind: 'unchanged'
      readonly live: LiveObject | undefined
      /** as after the last apply, as far as the inventory keeps them */
      readonly leftOut?: readonly LeftOut[]
      /** its metadata differ from those of the last apply, and its fields do not */
      readonly isReferenceNew?: boolean
    }
  /** it differs from Git, and is left so for now */
  | { readonly kind: 'drifted'; readonly finding: Finding; readonly live: LiveObject | undefined }
  | { readonly kind: 'failed'; readonly problem: ApplyProblem }
  | { readonly kind: 'waits'; readonly text: string }
  | { readonly kind: 'left' }

export interface RoundEnd {
  readonly manifest: Manifest
  readonly end: ApplyEnd
}

/** Progress that a round reports while it runs. */
export type Step =
  | { readonly kind: 'began'; readonly objects: number }
  | { readonly kind: 'ended'; readonly key: ObjectKey; readonly end: ApplyEnd }
  | { readonly kind: 'pruned'; readonly key: ObjectKey }

/** Reason for which an object stays, or needs approval. */
export interface Reason {
  /** code of a blocker, or of an approval */
  readonly code: string
  /** for people */
  readonly text: string
}

/** Changes that a commit would make. */
export interface DryRun {
  readonly kind: 'dryRun'
  /** `applied`: it would be applied */
  readonly ends: readonly RoundEnd[]
  /** objects that would be deleted, now or after an approval */
  readonly leaving: readonly InventoryEntry[]
  /** entries of the inventory, by `keyText`: the source may have applied objects before */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly kinds: ClusterKinds
}

export interface RoundDone {
  readonly kind: 'done'
  readonly ends: readonly RoundEnd[]
  /** entries that the round leaves in the inventory, by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly pruned: readonly ObjectKey[]
  /** digest of the plan that waits for approval; empty: none */
  readonly planDigest: string
  readonly awaitingApproval: readonly InventoryEntry[]
  /** kinds that were served at its end */
  readonly kinds: ClusterKinds
  /** by `keyText`: reasons of the objects that have left the commit */
  readonly reasons: ReadonlyMap<string, Reason>
  readonly orphans: readonly ObjectKey[]
  /** a deletion is not decided, since claims of other sources are missing */
  readonly isWaitingForOthers: boolean
  /** notes for users about rendering, apply and prune */
  readonly notes: readonly string[]
}

/** Objects of a source in the cluster while its commit is refused, by its inventory. */
export interface LastGood {
  /** last commit that was applied completely; empty: not known */
  readonly commit: string
  readonly objects: number
  /** objects whose last apply succeeded */
  readonly applied: number
}

/** `refused`: nothing was done, and the last commit stays in effect. */
export type Outcome =
  | (Refusal & {
      /** the refusal can end when other sources want less, or leave the configuration */
      readonly isWaitingForOthers: boolean
      readonly lastGood?: LastGood
    })
  | {
      readonly kind: 'suspended'
      readonly manifests: readonly Manifest[]
      /** entries of the inventory, by `keyText` */
      readonly entries: ReadonlyMap<string, InventoryEntry>
      readonly kinds: ClusterKinds
    }
  | DryRun
  | RoundDone

/** Directives for a source, from annotations of its GitSync. */
export interface Directives {
  /** digest of the approved plan; empty: none */
  readonly approved: string
  /** nothing is written */
  readonly isSuspended: boolean
  /** text of the last request to compare once more, and to apply what differs; empty: none */
  readonly resync: string
  /** text of the last request that was done, also by an earlier pod; empty: none */
  readonly resynced: string
  /** for a source that has left the configuration: its objects stay for good, and nothing reports them */
  readonly isForgotten: boolean
}

/** Reads directives, and reports their changes: GitSyncs. */
export interface DirectivesReader {
  /** Returns the current directives. @throws: the caller tries again */
  directives(id: string, signal: AbortSignal): Promise<Directives>
  /** Removes an approval. @throws: the approval stays */
  useApproval(id: string, approved: string, signal: AbortSignal): Promise<void>
  /** Records, with the next state of the source, that a request to compare once more was done. */
  resynced(id: string, resync: string): void
  /** @returns function that removes the listener */
  onDirectives(id: string, listener: () => void): () => void
}

/** State in the cluster after a round, or during a pause. */
export interface AfterRound {
  readonly manifests: Iterable<Manifest>
  /** by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly kinds: ClusterKinds
  readonly isPaused: boolean
  /** by `keyText`: objects that the round has applied; absent: none */
  readonly applied?: Iterable<string>
}
