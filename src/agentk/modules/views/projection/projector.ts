import type { KubernetesObject } from '../../../health/object.ts'
import type { LabelSelector, Owner, Reference } from '../record.ts'

/** What only objects of some kinds have. */
export interface Projection {
  readonly facts: readonly string[]
  readonly selector: LabelSelector | undefined
  readonly references: readonly Reference[]
  readonly customParent: Omit<Owner, 'uid'> | undefined
}

/** Reads objects of one kind, with care: whatever is missing or of another type is left out. */
export type Projector = (object: KubernetesObject) => {
  /** empty ones do not count */
  readonly facts?: readonly string[]
  readonly selector?: LabelSelector | undefined
  /** those without a name do not count */
  readonly references?: readonly Reference[]
  readonly customParent?: Omit<Owner, 'uid'> | undefined
}
