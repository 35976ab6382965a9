import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { ComparedManifest } from '../drift/kept-manifests.ts'
import type { KnownFinding } from '../drift/known-findings.ts'
import type { SourceInventoryComponents } from '../inventory/source-inventory.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { RepositoryFile } from '../manifests/manifest.ts'
import type { Build, Refusal, SourceClaims } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'

/** Access of a preview to the cluster. Nothing can be written by it, and each request has the preview's audit id. */
export interface PreviewAccess {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  /** for `SourceInventory.load`, and for nothing else */
  readonly inventory: Pick<SourceInventoryComponents, 'of' | 'lane' | 'clock'> & {
    readonly own: Pick<SourceInventoryComponents['own'], 'load' | 'options' | 'commit' | 'adopted'>
  }
  readonly kinds: Pick<SharedKinds, 'current' | 'read'>
  readonly claims: Omit<SourceClaims, 'claim'>
  /** commit for which the source and its siblings have claimed objects */
  readonly claimedCommit: string
  /**
   * Returns the ids of other sources of the same project and ref that may want an object. The change is theirs too; what
   * they want by it is not known here.
   */
  readonly siblings: (key: ObjectKey) => readonly string[]
  /**
   * Returns what has begun since the access was made, so that a comparison may be of two states, for people; undefined:
   * nothing has.
   */
  readonly interruption: () => string | undefined
  /** Builds files as those of a commit, after the rounds. @throws as `buildCommit` */
  readonly build: (files: readonly RepositoryFile[], signal: AbortSignal) => Promise<Build | Refusal>
}

/** Source whose change is previewed. */
export interface PreviewedSource extends PreviewAccess {
  readonly options: SourceOptions
  /** Returns the manifest of the commit in the cluster, by `keyText`; undefined: it is not kept. */
  readonly manifest: (text: string) => Promise<ComparedManifest | undefined>
  /** by `keyText`: what differs from the commit in the cluster */
  readonly known: ReadonlyMap<string, KnownFinding>
}
