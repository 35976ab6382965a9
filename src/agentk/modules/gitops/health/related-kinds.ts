import { at, type KubernetesObject, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'

/** A kind of objects that explain why a workload of a source is not well. */
export interface RelatedKind {
  readonly apiVersion: string
  readonly kind: string
  /** below the API's path: `replicasets` */
  readonly plural: string
  /** true for an object that explains nothing: it is not kept */
  readonly isIdle: (object: KubernetesObject) => boolean
  /** it may own others of these kinds */
  readonly isOwner: boolean
  /** all in the namespace are kept: they have no owner, and Pods name them */
  readonly isNamed: boolean
}

/** Owners first: what they own comes to them. */
export const relatedKinds: readonly RelatedKind[] = [
  {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    plural: 'replicasets',
    isIdle: (object) => !numberAt(object, 'spec.replicas') && !numberAt(object, 'status.replicas'),
    isOwner: true,
    isNamed: false,
  },
  {
    apiVersion: 'batch/v1',
    kind: 'Job',
    plural: 'jobs',
    isIdle: (object) => hasCondition(object, 'Complete'),
    isOwner: true,
    isNamed: false,
  },
  { apiVersion: 'v1', kind: 'Pod', plural: 'pods', isIdle: isWellPod, isOwner: false, isNamed: false },
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    plural: 'persistentvolumeclaims',
    isIdle: () => false,
    isOwner: false,
    isNamed: true,
  },
]

function hasCondition(object: KubernetesObject, type: string): boolean {
  return listAt(object, 'status.conditions').some((one) => at(one, 'type') === type && at(one, 'status') === 'True')
}

/** True for a Pod that has done its work, or is ready. */
function isWellPod(pod: KubernetesObject): boolean {
  if (textAt(pod, 'metadata.deletionTimestamp') !== '') return false
  return textAt(pod, 'status.phase') === 'Succeeded' || hasCondition(pod, 'Ready')
}
