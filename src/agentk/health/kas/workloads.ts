import { conditionsAt, isUnobserved } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, numberAt } from '../../../kubernetes/object.ts'
import { deployment as argoDeployment } from '../argo/workloads.ts'
import type { Around } from './around.ts'
import { type Finding, finding, found, ranks } from './finding.ts'
import { refusedByCondition, refusedByEvents } from './refused.ts'

export function deployment(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = conditionsAt(object, now)
  if (at(object, 'spec.paused') === true) {
    const since = conditions.find(({ type, reason }) => type === 'Progressing' && reason === 'DeploymentPaused')?.since
    return finding('Suspended', { reason: 'Paused', text: 'the Deployment is paused', rank: ranks.other, since })
  }
  const overdue = conditions.find(({ type, reason }) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded')
  const isCurrent = !isUnobserved(object)
  const missing = missingReplicas(object, 'updatedReplicas')
  const refused = isCurrent ? refusedByCondition(object, around, missing, ranks.summary) : undefined
  if (refused && (refused.word === 'Degraded' || !overdue)) return refused
  if (overdue && isCurrent) {
    const { reason, message, since } = overdue
    return found(object, now, { reason, text: message, rank: ranks.summary, since, grace: 0 })
  }
  const { status, text } = argoDeployment(object)
  if (status !== 'Progressing') return undefined
  const since = conditions.find(({ type, status }) => type === 'Available' && status === 'False')?.since
  return found(object, now, { reason: 'RollingOut', text, rank: ranks.summary, since, grace: undefined })
}

export function replicaSet(object: KubernetesObject, around: Around): Finding | undefined {
  const missing = missingReplicas(object, 'replicas')
  const refused = refusedByCondition(object, around, Math.max(missing, 1), ranks.other)
  // all were made since: its controller takes the condition back
  return refused && missing <= 0 ? { ...refused, word: 'Progressing', due: undefined } : refused
}

export function statefulSet(object: KubernetesObject, around: Around): Finding | undefined {
  return refusedByEvents(object, around, missingReplicas(object, 'replicas'))
}

export function daemonSet(object: KubernetesObject, around: Around): Finding | undefined {
  return refusedByEvents(object, around, missingOfDaemonSet(object))
}

/** Pods that a ReplicaSet, StatefulSet or Deployment lacks. `has`: the field of its status that counts them. */
function missingReplicas(object: KubernetesObject, has: string): number {
  return (numberAt(object, 'spec.replicas') ?? 1) - (numberAt(object, `status.${has}`) ?? 0)
}

function missingOfDaemonSet(object: KubernetesObject): number {
  return (
    (numberAt(object, 'status.desiredNumberScheduled') ?? 0) - (numberAt(object, 'status.currentNumberScheduled') ?? 0)
  )
}
