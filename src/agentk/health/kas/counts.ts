import { type KubernetesObject, kindOf, numberAt, textAt } from '../../../kubernetes/object.ts'

/** Pods, as a workload's status counts them. */
export interface Counts {
  readonly desired: number
  readonly all: number
  /** of the template as it is now */
  readonly updated: number
  readonly ready: number
  readonly available: number
}

/** Of a Deployment. */
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

/** Of a StatefulSet. */
export function setCountsOf(object: KubernetesObject): Counts {
  const counts = countsOf(object)
  // without another revision there is nothing to update, whatever is counted
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

// without a number there is to be one, as their controllers have it
export const desiredOf = (object: KubernetesObject) => numberAt(object, 'spec.replicas') ?? 1

const counting: Readonly<Record<string, (object: KubernetesObject) => Counts>> = {
  'apps/Deployment': countsOf,
  'apps/StatefulSet': setCountsOf,
  'apps/DaemonSet': daemonCountsOf,
}

/** Whether Pods of the template before are there beside those of the one that it has now. */
export function isBetweenVersions(workload: KubernetesObject): boolean {
  const counts = counting[kindOf(workload)]?.(workload)
  return counts !== undefined && counts.updated < counts.all
}
