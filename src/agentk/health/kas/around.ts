import type { KubernetesObject } from '../../../kubernetes/object.ts'
import type { ArgoStatus } from '../argo/health.ts'
import type { Evidence } from './evidence.ts'
import type { Finding, Need } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'
import type { LabelTable } from './read.ts'

/** What rules read of others. What is hidden from it is as if it were not followed. */
export interface Around {
  /** of the API server. ms since 1970 */
  readonly now: number
  eventsOf(object: KubernetesObject): readonly Evidence[]
  /** whether all objects of a kind in a namespace are known, so that what is not found is missing */
  isLive(kind: string, namespace: string): boolean
  /** why a kind (`group/Kind`) cannot be listed for long; undefined: it can, or nobody knows */
  listTroubleOf(kind: string): ListTrouble | undefined
  find(kind: string, namespace: string, name: string): KubernetesObject | undefined
  /** all of one of `listedKinds` in a namespace, '' for one without: there are few */
  allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[]
  /** children that have failed for good, as many as are read */
  failedOf(object: KubernetesObject): readonly KubernetesObject[]
  /** ends of its Pods that are remembered, of deleted ones too */
  endsOf(object: KubernetesObject): readonly PodEnd[]
  /** all that an object is the owner of, StatefulSets of claims too */
  childrenOf(object: KubernetesObject): readonly KubernetesObject[]
  podsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[]
  /** what makes Pods with labels that are selected */
  workloadsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[]
  slicesOf(service: KubernetesObject): readonly KubernetesObject[]
  /** of the nodes that have these labels. @param namespace - of the Pod that asks for them */
  taints(namespace: string, selector: LabelTable): Taints
  /** Pods that mount a claim */
  usersOf(claim: KubernetesObject): readonly KubernetesObject[]
  /** what was found of another object, in the order in which callers get it */
  findingsOf(object: KubernetesObject): readonly Finding[]
  /** @param isHidden - what it was found without; absent: nothing */
  wordOf(object: KubernetesObject, isHidden?: IsHidden): ArgoStatus
  /** what was found of the object before. @param isHidden - what it was found without; absent: nothing */
  before(object: KubernetesObject, isHidden?: IsHidden): Finding | undefined
}

/** Each once, as many as are read; undefined: there is no such node; `unread`: the namespace asks by too many selectors. */
export type Taints = readonly KubernetesObject[] | undefined | 'unread'

const listed = ['networking.k8s.io/IngressClass', 'policy/PodDisruptionBudget'] as const
export type ListedKind = (typeof listed)[number]
export const listedKinds: ReadonlySet<string> = new Set(listed)

export interface ListTrouble {
  /** ms since 1970 */
  readonly since: number
  /** what the API server said */
  readonly text: string
}

/** Of a kind (`group/Kind`, or `Event`) in a namespace. */
export type IsHidden = (need: Need) => boolean

/** It is known not to be there. */
export function isMissing(around: Around, kind: string, namespace: string, name: string): boolean {
  return name !== '' && around.isLive(kind, namespace) && !around.find(kind, namespace, name)
}
