import { type KubernetesObject, textAt } from '../../object.ts'
import { type Finding, found, minute, ranks } from '../finding.ts'
import { conditionAt, createdOf } from '../read.ts'

/** A node may come. ms */
const schedulingMs = 2 * minute

/** Of a Pod without a node. */
export function unscheduledPod(pod: KubernetesObject, now: number): Finding | undefined {
  const scheduled = conditionAt(pod, 'PodScheduled', now)
  if (!scheduled && textAt(pod, 'spec.nodeName') !== '') return undefined
  if (scheduled && scheduled.status !== 'False') return undefined
  const base = { rank: ranks.pod, since: scheduled?.since ?? createdOf(pod, now) }
  if (!scheduled) {
    const text = `no scheduler has considered it: ${textAt(pod, 'spec.schedulerName') || 'default-scheduler'}`
    return found(pod, now, { ...base, reason: 'NotScheduled', text, grace: schedulingMs })
  }
  const { reason, message } = scheduled
  if (reason === 'SchedulingGated') return found(pod, now, { ...base, reason, text: message, grace: undefined })
  // a node was chosen: those Pods are being ended that are in the way
  const isChosen = textAt(pod, 'status.nominatedNodeName') !== ''
  return found(pod, now, {
    ...base,
    reason: reason || 'Unschedulable',
    text: message,
    grace: isChosen ? undefined : schedulingMs,
  })
}
