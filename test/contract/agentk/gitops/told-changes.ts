import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import type { Kubectl } from '../../../support/kubectl.ts'
import type { DriftSide } from './drift-side.ts'
import type { Ground } from './ground.ts'
import type { ToldKind } from './told-manifests.ts'

/** Changes of objects that Git keeps, with the fields that agentk is to name. */

export interface Changers {
  readonly ground: Ground
  readonly drift: DriftSide
  readonly kubectl: Kubectl
}

export interface ToldChange {
  readonly about: string
  readonly kind: ToldKind
  /** Returns Git's manifest; absent: the kind's own */
  readonly git?: (object: ObjectTree) => ObjectTree
  readonly make: (by: Changers, key: ObjectKey, object: ObjectTree) => Promise<unknown>
  /**
   * `changed .data.a "1" -> "9" by kubectl-edit (Update)`, as `fieldText`, with NAME, SOURCE, DIGEST, UID in place of
   * those of the object
   */
  readonly fields: readonly string[]
}

/** path of the container of all workloads */
export const web = '.spec.template.spec.containers[name="web"]'
export const json = JSON.stringify

// biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
export type Live = any
/** Returns a copy of an object with a change. */
export function edited(object: object, change: (copy: Live) => void): ObjectTree {
  const copy = structuredClone(object)
  change(copy)
  return copy as ObjectTree
}
export const withImage = (image: string) => (copy: Live) => {
  copy.spec.template.spec.containers[0].image = image
}

/** Returns the object with the time of a restart, as in a manifest that somebody has exported. */
export function withRestart(object: ObjectTree): ObjectTree {
  return edited(object, (copy) => {
    copy.spec.template.metadata.annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T08:00:00Z' }
  })
}
