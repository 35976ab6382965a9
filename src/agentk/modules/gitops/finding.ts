import type { ObjectKey } from '../../../kubernetes/key.ts'

/** Kind of a finding about an object that Git has not changed since it was applied. */
export type FindingKind =
  /** it differs from what was applied */
  | 'drifted'
  /** it cannot be compared, so that nothing is known */
  | 'notCompared'
  /** it is as it was applied, and an apply would change it: an admission webhook came later */
  | 'wouldChange'

/** Author of a change, as managedFields name it: a claim of the client. */
export interface ChangeAuthor {
  readonly manager: string
  /** `Apply` or `Update` */
  readonly operation: string
  /** by the API server's clock: ms since the epoch; undefined: not known */
  readonly time?: number
}

/**
 * Kind of a difference.
 *
 * - `changed`: it has another value
 * - `missing`: Git sets it, and the live object does not have it
 * - `reordered`: the items of a list are in another order
 * - `added`: a person's tool has set it, and Git does not
 * - `gone`: the object does not exist
 */
export type DifferenceKind = 'changed' | 'missing' | 'reordered' | 'added' | 'gone'

/** Difference of one field. */
export interface FieldDifference {
  /** as the API server writes paths in conflicts: `.spec.template.spec.containers[name="app"].image` */
  readonly path: string
  readonly kind: DifferenceKind
}

/** Result of a comparison of one object with the cluster. */
export interface Finding {
  readonly key: ObjectKey
  readonly version: string
  /** place of its manifest; empty: not known */
  readonly file: string
  readonly line: number
  readonly kind: FindingKind
  /** it does not exist, or another object has its name */
  readonly isDeleted: boolean
  /** the first ones */
  readonly differences: readonly FieldDifference[]
  /** number of differences that are not in the list */
  readonly more: number
  /** undefined: managedFields do not say */
  readonly by: ChangeAuthor | undefined
  /** time since which it drifts, or cannot be compared: ms since the epoch */
  readonly since: number
  /** reason for `notCompared`; empty: none */
  readonly reason: string
  /** end of a hold by annotation: ms since the epoch */
  readonly holdUntil: number | undefined
  /** the source's own manager has applied it since its last apply: a leader of before, or somebody in its name */
  readonly isAppliedSince?: boolean
  /** `metadata.resourceVersion` for which this holds; empty: it is gone */
  readonly resourceVersion: string
}
