import { mostViewsHeapMb } from '../../../../lib/pod-shares.ts'
import { extrasDefaults } from '../store/extras.ts'
import { type RecordsOptions, recordsDefaults } from '../store/records.ts'
import { type SelectionsOptions, selectionsDefaults } from '../store/selections.ts'
import { type ForestsOptions, forestsDefaults } from '../tree/forests.ts'
import { type ViewLimitsOptions, viewLimitsDefaults } from '../view/view-limits.ts'

/** Bounds of what fills the heap of the thread. */
export interface ViewsBounds {
  readonly records: RecordsOptions
  readonly forests: ForestsOptions
  readonly selections: SelectionsOptions
  readonly limits: ViewLimitsOptions
}

/**
 * Scales the bounds of objects, rows and viewers' state to the heap. In a smaller heap a view is refused, or a kind is
 * not followed, before the thread ends.
 *
 * @param heapMb - size of the old generation. MiB
 */
export function viewsBounds(heapMb: number): ViewsBounds {
  const share = Math.min(1, heapMb / mostViewsHeapMb)
  const part = (most: number) => Math.floor(most * share)
  const { maxNodes, maxNodesPerUser } = forestsDefaults
  const { maxSelections, maxSelectionsPerUser } = selectionsDefaults
  const { maxRows, maxRowsPerUser, maxLinks, maxLinksPerUser } = viewLimitsDefaults
  const { max, maxPerNamespace } = extrasDefaults
  return {
    records: {
      maxObjects: part(recordsDefaults.maxObjects),
      extras: { max: part(max), maxPerNamespace: part(maxPerNamespace) },
    },
    forests: { maxNodes: part(maxNodes), maxNodesPerUser: part(maxNodesPerUser) },
    selections: {
      ...selectionsDefaults,
      maxSelections: part(maxSelections),
      maxSelectionsPerUser: part(maxSelectionsPerUser),
    },
    limits: {
      ...viewLimitsDefaults,
      maxRows: part(maxRows),
      maxRowsPerUser: part(maxRowsPerUser),
      maxLinks: part(maxLinks),
      maxLinksPerUser: part(maxLinksPerUser),
    },
  }
}
