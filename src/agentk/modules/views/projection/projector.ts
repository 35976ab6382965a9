import type { KubernetesObject } from '../../../../kubernetes/object.ts'

/** Owner that an object names: free text, not yet believed. */
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

/** Object that another one names. */
export interface Reference {
  /** `routes`, `scales`, `binds`, `deploys`, … */
  readonly relation: string
  /** `group/Kind` */
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Fields that only objects of some kinds have. */
export interface Projection {
  readonly facts: readonly string[]
  readonly selector: LabelSelector | undefined
  readonly references: readonly Reference[]
  readonly customParent: Omit<Owner, 'uid'> | undefined
  /** node that the object runs on; empty: none */
  readonly node: string
}

/** Reads objects of one kind, with care: anything missing or of another type is left out. */
export type Projector = (object: KubernetesObject) => {
  /** empty facts do not count */
  readonly facts?: readonly string[]
  readonly selector?: LabelSelector | undefined
  /** references without a name do not count */
  readonly references?: readonly Reference[]
  readonly customParent?: Omit<Owner, 'uid'> | undefined
  /** node that the object runs on */
  readonly node?: string
}
