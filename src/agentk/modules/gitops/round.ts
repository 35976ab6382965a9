import type { ObjectKey } from '../../../kubernetes/key.ts'
import type { ClusterKinds } from './live/cluster-kinds.ts'
import type { LiveObject } from './live/live-object.ts'
import type { ApplyProblem } from './live/refusal.ts'
import type { Manifest, ManifestProblem } from './manifests/manifest.ts'

/** The vocabulary of a round, in the order in which a round comes to it: types alone. */

/** Which objects wait for which, by `keyText`. */
export interface WaveGraph {
  /** each after what it waits for; the same for the same manifests, whatever their order */
  readonly order: readonly string[]
  /** what has to be there and healthy first: by name, or by what it is */
  named(key: string): readonly string[]
  /** and by sync-wave; the same array for all of a wave */
  stepBefore(key: string): readonly string[]
  /** what waits for it */
  dependents(key: string): readonly string[]
  /** how many objects stand behind one another before it: those of one wave do not wait for each other */
  wave(key: string): number
}

/** What a commit wants of the cluster, in order. */
export interface Build {
  readonly kind: 'built'
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  readonly kinds: ClusterKinds
  /** by `keyText`: what stands in it as hooks that are not run here */
  readonly hooks: ReadonlySet<string>
  /** what users are to know of how it was rendered, and of what is not made of it */
  readonly notes: readonly string[]
  /** of a chart, which may leave out what needs a kind that is not known now */
  readonly isPartial: boolean
}

/** Why nothing of a commit can be applied. */
export interface Refusal {
  readonly kind: 'refused'
  readonly problems: readonly ManifestProblem[]
}

/** What a source wants. */
export interface Claim {
  /** empty: of none, it is what the source has made so far */
  readonly commit: string
  /** by `keyText` */
  readonly keys: ReadonlyMap<string, ObjectKey>
  /** its newest commit is refused: it wants what it has made of the last good one */
  readonly isLastGood?: boolean
}

/** What one source claims, and what it needs to know of the claims of this agent's others. */
export interface SourceClaims {
  /** In place of what it claimed before. */
  claim(claim: Claim): void
  /** whether another source goes by `owner`, and does not want the object any more */
  isHandedOver(owner: string, key: ObjectKey): boolean
  /** id of another source that wants it */
  newOwner(key: ObjectKey): string | undefined
  /**
   * Why nobody can say yet whether another source wants the object: it has claimed nothing, or, where it follows the same
   * ref of the same project, nothing of this commit.
   */
  unknownClaim(key: ObjectKey, commit: string): string | undefined
  /** what all others want */
  wanted(): Iterable<ObjectKey>
  /** whether another source of the configuration goes by this id; `perhaps`: its project is not known yet */
  stands(id: string): 'yes' | 'no' | 'perhaps'
  /** for what the source would want: the agent's objects are scarce for those above their share alone */
  hasRoom(keys: ReadonlyMap<string, ObjectKey>): boolean
}

/**
 * `planned`: an apply may have been sent; `applied`; `failed`: the last apply, or its prune, was refused; `waits`: it
 * has left the commit and stays for now, for an approval or for what its reason says; `detached`: never pruned, it left with a change of the configuration.
 */
export type EntryState = 'planned' | 'applied' | 'failed' | 'waits' | 'detached'

/** An object that a source has made, or is about to make. */
export interface InventoryEntry {
  readonly key: ObjectKey
  readonly version: string
  /** empty: not known yet */
  readonly uid: string
  readonly wave: number
  /** of what was applied last; empty: nothing yet */
  readonly digest: string
  /** hash of our manager's FieldsV1 after that; empty: not known */
  readonly fields: string
  readonly state: EntryState
  /** why it is in that state; empty: nothing to say */
  readonly reason: string
}

/** Changes made in place that an apply has brought back to Git's. */
export interface Undone {
  /** managers */
  readonly by: readonly string[]
  /** `spec.ports` */
  readonly fields: readonly string[]
}

/** A field that an apply without force would have changed, and who owns it. */
export interface FieldConflict {
  /** `.spec.replicas` */
  readonly field: string
  readonly manager: string
  /** through which it was written; empty: the object itself */
  readonly subresource: string
}

/**
 * How it ended for one object. `unchanged`: it is as it was applied, nothing was sent; `waits`: what it depends on is not
 * there, or not healthy; `left`: a newer commit has come before it began.
 */
export type ApplyEnd =
  | {
      readonly kind: 'applied'
      readonly live: LiveObject
      readonly undone?: Undone
      /** what others had written, and the apply has taken back */
      readonly overwritten?: readonly FieldConflict[]
    }
  | { readonly kind: 'unchanged'; readonly live: LiveObject | undefined }
  | { readonly kind: 'failed'; readonly problem: ApplyProblem }
  | { readonly kind: 'waits'; readonly text: string }
  | { readonly kind: 'left' }

export interface RoundEnd {
  readonly manifest: Manifest
  readonly end: ApplyEnd
}

/** What a round reports while it runs. */
export type Step =
  | { readonly kind: 'began'; readonly objects: number }
  | { readonly kind: 'ended'; readonly key: ObjectKey; readonly end: ApplyEnd }
  | { readonly kind: 'pruned'; readonly key: ObjectKey }

/** Why an object stays, or needs approval. */
export interface Reason {
  /** of a blocker, or an approval */
  readonly code: string
  /** for people */
  readonly text: string
}

/** What a commit would do. */
export interface DryRun {
  readonly kind: 'dryRun'
  /** `applied`: it would be */
  readonly ends: readonly RoundEnd[]
  /** what would go, now or once somebody approves */
  readonly leaving: readonly InventoryEntry[]
}

export interface RoundDone {
  readonly kind: 'done'
  readonly ends: readonly RoundEnd[]
  /** all that the source has made, and what is left of it. By `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly pruned: readonly ObjectKey[]
  /** digest of what waits for approval; empty: nothing */
  readonly planDigest: string
  readonly awaitingApproval: readonly InventoryEntry[]
  /** of what has left the commit, by `keyText` */
  readonly reasons: ReadonlyMap<string, Reason>
  readonly orphans: readonly ObjectKey[]
  /** something may have to go, and it is not known yet whether another source wants it */
  readonly isWaitingForOthers: boolean
  /** what users are to know of how the commit was rendered */
  readonly notes: readonly string[]
}

/** The objects of a source that are in the cluster while its commit is refused, as its inventory says. */
export interface LastGood {
  /** the last of which all was applied; empty: none is known */
  readonly commit: string
  readonly objects: number
  /** of these, as they were applied last */
  readonly applied: number
}

/** `refused`: nothing was done, the last commit holds. */
export type Outcome =
  | (Refusal & {
      /** of all of the agent's objects, others have claimed too many: until they want less */
      readonly isWaitingForOthers: boolean
      readonly lastGood?: LastGood
    })
  | { readonly kind: 'suspended' }
  | DryRun
  | RoundDone

/** What people ask of a source, by annotations of its GitSync. */
export interface Directives {
  /** digest of the plan that may go; empty: none */
  readonly approved: string
  /** nothing is to be written */
  readonly isSuspended: boolean
  /** of one that has left the configuration: what it has made stays for good, and nothing of it is reported any more */
  readonly isForgotten: boolean
}

/** Reads them, and says when they change: GitSyncs. */
export interface DirectivesReader {
  /** as they are now. @throws: it is tried again */
  directives(id: string, signal: AbortSignal): Promise<Directives>
  /** what was approved is not approved any more. @throws: it still is */
  useApproval(id: string, approved: string, signal: AbortSignal): Promise<void>
  /** @returns ends the listening */
  onDirectives(id: string, listener: () => void): () => void
}
