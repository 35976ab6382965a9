import { type KubernetesObject, kindOf, numberAt, textAt } from '../../../kubernetes/object.ts'

/** Numbers of Pods in the status of a workload. */
export interface Counts {
  readonly desired: number
  readonly all: number
  /** Pods of the present template */
  readonly updated: number
  readonly ready: number
  readonly available: number
}

/** Reads the counts of a Deployment. */
export function countsOf(object: KubernetesObject): Counts {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  return {
    desired: desiredOf(object),
    all: count('replicas'),
    updated: count('updatedReplicas'),
    ready: count('readyReplicas'),
    available: count('availableReplicas'),
  }
}

/** Reads the counts of a StatefulSet. */
export function setCountsOf(object: KubernetesObject): Counts {
  const counts = countsOf(object)
  // without another revision there is nothing to update, whatever the counts are
  const isOne = textAt(object, 'status.currentRevision') === textAt(object, 'status.updateRevision')
  return isOne ? { ...counts, updated: counts.all } : counts
}

export function daemonCountsOf(object: KubernetesObject): Counts {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  return {
    desired: count('desiredNumberScheduled'),
    all: count('currentNumberScheduled'),
    updated: count('updatedNumberScheduled'),
    ready: count('numberReady'),
    available: count('numberAvailable'),
  }
}

// an absent number means 1, as for the controllers
export const desiredOf = (object: KubernetesObject) => numberAt(object, 'spec.replicas') ?? 1

const counting: Readonly<Record<string, (object: KubernetesObject) => Counts>> = {
  'apps/Deployment': countsOf,
  'apps/StatefulSet': setCountsOf,
  'apps/DaemonSet': daemonCountsOf,
}

/** True if Pods of the former template still exist besides those of the present one. */
export function isBetweenVersions(workload: KubernetesObject): boolean {
  const counts = counting[kindOf(workload)]?.(workload)
  return counts !== undefined && counts.updated < counts.all
}
