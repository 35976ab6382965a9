import type { KubernetesObject } from '../../../kubernetes/object.ts'
import type { ArgoStatus } from '../argo/health.ts'
import type { Evidence } from './evidence.ts'
import type { Finding, Need } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'
import type { LabelTable } from './read.ts'

/** Other objects and facts that rules read. A hidden kind reads like one that is not followed. */
export interface Around {
  /** time of the API server, in ms since 1970 */
  readonly now: number
  eventsOf(object: KubernetesObject): readonly Evidence[]
  /** true if all objects of a kind in a namespace are known, so that an object that is not found is missing */
  isLive(kind: string, namespace: string): boolean
  /** reason why a kind (`group/Kind`) cannot be listed for long; undefined: it can, or this is not known */
  listTroubleOf(kind: string): ListTrouble | undefined
  find(kind: string, namespace: string, name: string): KubernetesObject | undefined
  /** all objects of one of `listedKinds` in a namespace, '' for cluster-scoped kinds: there are few */
  allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[]
  /** children that have failed for good, as many as are read */
  failedOf(object: KubernetesObject): readonly KubernetesObject[]
  /** remembered ends of its Pods, also of deleted ones */
  endsOf(object: KubernetesObject): readonly PodEnd[]
  /** all objects that it owns; for a StatefulSet also its claims */
  childrenOf(object: KubernetesObject): readonly KubernetesObject[]
  podsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[]
  /** workloads that make Pods with these labels */
  workloadsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[]
  slicesOf(service: KubernetesObject): readonly KubernetesObject[]
  /** taints of the nodes with these labels. @param namespace - of the Pod that asks for them */
  taints(namespace: string, selector: LabelTable): Taints
  /** Pods that mount the claim */
  usersOf(claim: KubernetesObject): readonly KubernetesObject[]
  /** findings on another object, in the order in which callers see them */
  findingsOf(object: KubernetesObject): readonly Finding[]
  /** @param isHidden - kinds to leave out; absent: none */
  wordOf(object: KubernetesObject, isHidden?: IsHidden): ArgoStatus
  /** the last finding on the object. @param isHidden - kinds to leave out; absent: none */
  before(object: KubernetesObject, isHidden?: IsHidden): Finding | undefined
}

/** Taints, each once, as many as are read; undefined: no such node; `unread`: the namespace has too many selectors. */
export type Taints = readonly KubernetesObject[] | undefined | 'unread'

const listed = ['networking.k8s.io/IngressClass', 'policy/PodDisruptionBudget'] as const
export type ListedKind = (typeof listed)[number]
export const listedKinds: ReadonlySet<string> = new Set(listed)

export interface ListTrouble {
  /** ms since 1970 */
  readonly since: number
  /** message of the API server */
  readonly text: string
}

/** True if a kind (`group/Kind`, or `Event`) in a namespace is left out. */
export type IsHidden = (need: Need) => boolean

/** True if the object is known not to exist. */
export function isMissing(around: Around, kind: string, namespace: string, name: string): boolean {
  return name !== '' && around.isLive(kind, namespace) && !around.find(kind, namespace, name)
}
