import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { InventoryEntry } from '../round.ts'
import type { ComparedValues } from './explain-object.ts'
import type { Explanation } from './explanation.ts'
import type { ComparedManifest } from './kept-manifests.ts'

/** Comparisons of one source's objects with the cluster. */
export interface Comparisons {
  /** compares an object with the cluster. @throws the connection's error, or the signal's reason */
  readonly explain: (
    manifest: ComparedManifest,
    of: {
      readonly kinds: ClusterKinds
      readonly entry: InventoryEntry
      /** `scale` explains all that moved: an object that an autoscaler targets is not compared */
      readonly isOnlyScaled?: boolean
    },
    signal: AbortSignal,
  ) => Promise<Explanation>
  /** true if an apply would change the object, by one dry run. @throws as `explain` */
  readonly wouldChange: (
    manifest: ComparedManifest,
    of: { readonly kinds: ClusterKinds; readonly entry: InventoryEntry },
    signal: AbortSignal,
  ) => Promise<boolean>
  /** compares an object as `explain` does, with its values */
  readonly values: (
    manifest: ComparedManifest,
    of: { readonly kinds: ClusterKinds; readonly entry: InventoryEntry },
    signal: AbortSignal,
  ) => Promise<ComparedValues>
}
