import type { ChangeAuthor, FieldDifference } from '../finding.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { Baseline } from './suspect.ts'

/** Live object that was compared. */
export interface ComparedLive {
  readonly live: LiveObject
  readonly baseline: Baseline
  /** as in `Finding` */
  readonly isRewritten?: true
  /** end of a hold by annotation: ms since the epoch */
  readonly holdUntil: number | undefined
}

/** Comparison of one object with what its manifest makes of it. */
export type Explanation =
  /** its fields are as in Git */
  | {
      readonly kind: 'same'
      /** undefined: it was not read: it has run once and is gone, or an autoscaler has set its replicas */
      readonly of: ComparedLive | undefined
      /** others own fields that Git sets, with Git's values: an apply takes them back */
      readonly hasLostFields: boolean
      /** time after which it is compared once more, as below; absent: not needed */
      readonly again?: number | undefined
    }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'beingDeleted' }
  /** `wouldChange`: it is as it was applied, and an apply would change it */
  | {
      readonly kind: 'drifted' | 'wouldChange'
      readonly of: ComparedLive
      readonly differences: readonly FieldDifference[]
      /** number of differences that are not in the list */
      readonly more: number
      readonly by: ChangeAuthor | undefined
      /** time after which it is compared once more: ms since the epoch; undefined: not needed */
      readonly again: number | undefined
    }
  /** the API server has refused the dry run */
  | {
      readonly kind: 'notCompared'
      /** undefined: it cannot be read */
      readonly of: ComparedLive | undefined
      readonly reason: string
      /** its uid, its marks or the source's own entry in managedFields prove a change */
      readonly isProven: boolean
    }
