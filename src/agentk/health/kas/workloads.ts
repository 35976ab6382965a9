import { conditionsAt, isUnobserved } from '../../../kubernetes/conditions.ts'
import {
  at,
  entryAt,
  type KubernetesObject,
  kindOf,
  nameOf,
  namespaceOf,
  numberAt,
  textAt,
} from '../../../kubernetes/object.ts'
import { deployment as argoDeployment } from '../argo/workloads.ts'
import type { Around } from './around.ts'
import { failingAgain } from './failing-again.ts'
import { type Finding, finding, found, ranks } from './finding.ts'
import { isEnding } from './read.ts'
import { deletionRefused, refusedByCondition, refusedByEvents, setRefused } from './refused.ts'
import { unreconciled } from './unreconciled.ts'

export function deployment(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = conditionsAt(object, now)
  if (at(object, 'spec.paused') === true) {
    const since = conditions.find(({ type, reason }) => type === 'Progressing' && reason === 'DeploymentPaused')?.since
    return finding('Suspended', { reason: 'Paused', text: 'the Deployment is paused', rank: ranks.other, since })
  }
  const missing = missingReplicas(object, 'updatedReplicas')
  // the controller observes a change once its ReplicaSet exists
  const unread = setRefused(object, around, missing) ?? unreconciled(object, around)
  if (unread) return unread
  const overdue = conditions.find(({ type, reason }) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded')
  const isCurrent = !isUnobserved(object)
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
  const desired = numberAt(object, 'spec.replicas') ?? 1
  const again =
    failingAgain(object, around, { desired }) ?? deletionRefused(object, around, extraReplicas(object), ranks.other)
  if (again) return again
  const missing = missingReplicas(object, 'replicas')
  const refused = refusedByCondition(object, around, Math.max(missing, 1), ranks.other)
  // all Pods were made since: the controller removes the condition
  return refused && missing <= 0 ? { ...refused, word: 'Progressing', due: undefined } : refused
}

export function statefulSet(object: KubernetesObject, around: Around): Finding | undefined {
  return (
    failingAgain(object, around, { desired: numberAt(object, 'spec.replicas') ?? 1, groupOf: ({ name }) => name }) ??
    stuckRevision(object, around) ??
    deletionRefused(object, around, extraReplicas(object), ranks.other) ??
    refusedByEvents(object, around, missingReplicas(object, 'replicas')) ??
    unreconciled(object, around) // a controller that was refused has observed the change
  )
}

/**
 * Finds a changed template that does not reach a Pod of the former revision, which fails. The controller replaces a Pod
 * only once all are ready.
 */
function stuckRevision(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const [current, update] = [textAt(object, 'status.currentRevision'), textAt(object, 'status.updateRevision')]
  if (isUnobserved(object) || update === '' || current === update) return undefined
  if (textAt(object, 'spec.podManagementPolicy') === 'Parallel') return undefined
  const isOnDelete = textAt(object, 'spec.updateStrategy.type') === 'OnDelete'
  const pods = around.childrenOf(object).filter((child) => kindOf(child) === 'Pod' && !isEnding(child))
  const old = pods.filter((pod) => ![update, ''].includes(entryAt(pod, 'metadata.labels', 'controller-revision-hash')))
  const sorted = old.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
  const stuck = sorted.find((pod) => around.wordOf(pod) === 'Degraded')
  if (!stuck || isOnDelete) return undefined
  const first = around.findingsOf(stuck)[0]
  const text = `${nameOf(stuck)} is of the revision before, and fails: ${first?.text ?? ''}; the controller replaces it only once it is ready: delete it`
  const needs = [['Pod', namespaceOf(object)] as const, ...(first?.needs ?? []).filter(([kind]) => kind !== 'Pod')]
  return found(object, now, {
    reason: 'OldRevisionFails',
    text,
    // the cause precedes the Pod's own failure, which the new template may have fixed
    rank: ranks.foundation,
    since: first?.since,
    last: first?.last,
    grace: 0,
    count: Math.max(old.length, 1),
    needs,
  })
}

export function daemonSet(object: KubernetesObject, around: Around): Finding | undefined {
  const extra = numberAt(object, 'status.numberMisscheduled') ?? 0
  const desired = numberAt(object, 'status.desiredNumberScheduled') ?? 0
  return (
    failingAgain(object, around, { desired, groupOf: ({ node }) => node }) ??
    deletionRefused(object, around, extra, ranks.other) ??
    refusedByEvents(object, around, missingOfDaemonSet(object)) ??
    unreconciled(object, around)
  )
}

const extraReplicas = (object: KubernetesObject) => -missingReplicas(object, 'replicas')

/** Counts the Pods that a workload lacks. @param has - field of its status that counts them */
function missingReplicas(object: KubernetesObject, has: string): number {
  return (numberAt(object, 'spec.replicas') ?? 1) - (numberAt(object, `status.${has}`) ?? 0)
}

function missingOfDaemonSet(object: KubernetesObject): number {
  return (
    (numberAt(object, 'status.desiredNumberScheduled') ?? 0) - (numberAt(object, 'status.currentNumberScheduled') ?? 0)
  )
}
