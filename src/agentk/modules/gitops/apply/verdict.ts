import type { Finding } from '../finding.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { InventoryEntry } from '../round.ts'

/** Decision of a round on an object that Git has not changed. */
export type Verdict =
  /** it is as in Git. @param live - its metadata, the reference from now on; undefined: the reference stays */
  | { readonly kind: 'same'; readonly live: LiveObject | undefined }
  /** @param finding - absent: it was not compared, or only its owners differ */
  | { readonly kind: 'write'; readonly finding?: Finding }
  | { readonly kind: 'left'; readonly finding: Finding; readonly live: LiveObject | undefined }

/** Object that a round asks about. */
export interface JudgedObject {
  /** undefined: it does not exist */
  readonly live: LiveObject | undefined
  readonly entry: InventoryEntry
  readonly kinds: ClusterKinds
}
