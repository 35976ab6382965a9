import type { KubernetesObject } from '../../../../kubernetes/object.ts'

/** Who an object says is its owner: free text, not yet believed. */
export interface Owner {
  readonly uid: string
  /** `group/Kind` */
  readonly kind: string
  readonly name: string
}

/** A selector of labels, as Services and PodDisruptionBudgets have it. */
export interface LabelSelector {
  readonly labels: readonly (readonly [name: string, value: string])[]
  readonly expressions: readonly {
    readonly key: string
    readonly operator: string
    readonly values: readonly string[]
  }[]
}

/** An object that another one names. */
export interface Reference {
  /** `routes`, `scales`, `binds`, `deploys`, … */
  readonly relation: string
  /** `group/Kind` */
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** What only objects of some kinds have. */
export interface Projection {
  readonly facts: readonly string[]
  readonly selector: LabelSelector | undefined
  readonly references: readonly Reference[]
  readonly customParent: Omit<Owner, 'uid'> | undefined
  /** the node that it runs on; empty: none */
  readonly node: string
}

/** Reads objects of one kind, with care: whatever is missing or of another type is left out. */
export type Projector = (object: KubernetesObject) => {
  /** empty ones do not count */
  readonly facts?: readonly string[]
  readonly selector?: LabelSelector | undefined
  /** those without a name do not count */
  readonly references?: readonly Reference[]
  readonly customParent?: Omit<Owner, 'uid'> | undefined
  /** the node that it runs on */
  readonly node?: string
}
