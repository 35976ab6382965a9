import { conditionAt } from '../../../../kubernetes/conditions.ts'
import { type KubernetesObject, namespaceOf, textAt } from '../../../../kubernetes/object.ts'
import { createdOf } from '../../../../kubernetes/time.ts'
import type { Around } from '../around.ts'
import { boundMs, chosenNodeOf } from '../claims.ts'
import { type Finding, found, minute, type Need, ranks } from '../finding.ts'
import { claimNamesOf } from '../read.ts'
import { withNodes } from './taints.ts'

/** A node may come. ms */
const schedulingMs = 2 * minute

/** Of a Pod without a node. */
export function unscheduledPod(pod: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const scheduled = conditionAt(pod, 'PodScheduled', now)
  if (!scheduled && textAt(pod, 'spec.nodeName') !== '') return undefined
  if (scheduled && scheduled.status !== 'False') return undefined
  if (!scheduled) return unconsideredPod(pod, around)
  const base = { rank: ranks.pod, since: scheduled.since ?? createdOf(pod, now) }
  const { reason, message } = scheduled
  if (reason === 'SchedulingGated') return found(pod, now, { ...base, reason, text: message, grace: undefined })
  // a node was chosen: those Pods are being ended that are in the way
  const isChosen = textAt(pod, 'status.nominatedNodeName') !== ''
  return found(pod, now, {
    ...base,
    ...withNodes(pod, message.replace(unhelpful, ''), around),
    reason: reason || 'Unschedulable',
    grace: isChosen ? undefined : schedulingMs,
  })
}

/** What the scheduler adds where there is nobody whom to end in the Pod's favour. */
const unhelpful =
  /\.? ?(?:no new claims to deallocate, ?)?preemption: \d+\/\d+ nodes are available: \d+ Preemption is not helpful for scheduling\.?$/

/** The scheduler says nothing of it: neither where it has no node yet nor while its volumes are made for a node. */
function unconsideredPod(pod: KubernetesObject, around: Around): Finding {
  const { now } = around
  const base = { reason: 'NotScheduled', rank: ranks.pod, since: createdOf(pod, now) }
  const claims = claimNamesOf(pod)
  const nominated = textAt(pod, 'status.nominatedNodeName')
  if (nominated && claims.length === 0)
    return found(pod, now, { ...base, text: `node ${nominated} is chosen`, grace: undefined })
  if (nominated) return found(pod, now, { ...base, text: waitsAt(nominated), grace: boundMs })
  const scheduler = textAt(pod, 'spec.schedulerName') || 'default-scheduler'
  const text = `no scheduler has considered it: ${scheduler}`
  if (claims.length === 0) return found(pod, now, { ...base, text, grace: schedulingMs })
  const kind = 'PersistentVolumeClaim'
  const namespace = namespaceOf(pod)
  if (!around.isLive(kind, namespace)) {
    return found(pod, now, { ...base, text: `waits for its volumes, or for ${scheduler}`, grace: boundMs })
  }
  const needs: readonly Need[] = [[kind, namespace]]
  const nodes = claims.map((name) => around.find(kind, namespace, name)).map((claim) => claim && chosenNodeOf(claim))
  const chosen = nodes.find((node) => node)
  if (chosen) return found(pod, now, { ...base, text: waitsAt(chosen), grace: boundMs, needs })
  return found(pod, now, { ...base, text, grace: schedulingMs, needs })
}

const waitsAt = (node: string) => `node ${node} is chosen; waits for its volumes`
