import { conditionAt } from '../../../../kubernetes/conditions.ts'
import {
  type KubernetesObject,
  listAt,
  listField,
  namespaceOf,
  textAt,
  textField,
} from '../../../../kubernetes/object.ts'
import { createdOf } from '../../../../kubernetes/time.ts'
import { type Around, isMissing } from '../around.ts'
import { boundMs, chosenNodeOf } from '../claims.ts'
import { newest } from '../evidence.ts'
import { type Finding, found, minute, type Need, ranks } from '../finding.ts'
import { claimNamesOf } from '../read.ts'
import { listed, withNodes } from './taints.ts'

/** A node may come. ms */
const schedulingMs = 2 * minute
/** A claim may find its volume a moment after the Pod has come. ms */
const refusedMs = minute

/** Of a Pod without a node. */
export function unscheduledPod(pod: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const scheduled = conditionAt(pod, 'PodScheduled', now)
  if (!scheduled && textAt(pod, 'spec.nodeName') !== '') return undefined
  if (scheduled && scheduled.status !== 'False') return undefined
  if (!scheduled) return unclaimedPod(pod, around) ?? unconsideredPod(pod, around)
  const base = { rank: ranks.pod, since: scheduled.since ?? createdOf(pod, now) }
  const { reason, message } = scheduled
  if (reason === 'SchedulingGated') {
    const gates = listField(pod.spec, 'schedulingGates').map((gate) => textField(gate, 'name'))
    const text = gates.length > 0 ? `waits for scheduling gates: ${listed(gates)}` : message
    return found(pod, now, { ...base, reason, text, grace: undefined })
  }
  // a node was chosen: those Pods are being ended that are in the way
  const isChosen = textAt(pod, 'status.nominatedNodeName') !== ''
  return found(pod, now, {
    ...base,
    ...withVolumes(pod, withNodes(pod, message.replace(unhelpful, ''), around), around),
    reason: reason || 'Unschedulable',
    grace: isChosen ? undefined : schedulingMs,
  })
}

const affinity = "PersistentVolume's node affinity"

/** A volume of the Pod that is on a node which is not there. */
function withVolumes(
  pod: KubernetesObject,
  unplaced: { readonly text: string; readonly needs: readonly Need[] },
  around: Around,
): { readonly text: string; readonly needs: readonly Need[] } {
  if (!unplaced.text.includes(affinity)) return unplaced
  const namespace = namespaceOf(pod)
  for (const claim of claimNamesOf(pod)) {
    const name = textAt(around.find('PersistentVolumeClaim', namespace, claim), 'spec.volumeName')
    const nodes = nodesOf(around.find('PersistentVolume', '', name))
    if (nodes.length === 0 || !nodes.every((node) => isMissing(around, 'Node', '', node))) continue
    const needs: readonly Need[] = [
      ['PersistentVolumeClaim', namespace],
      ['PersistentVolume', ''],
      ['Node', ''],
    ]
    const isOne = nodes.length === 1
    const text = `${unplaced.text}; volume ${name} is on ${isOne ? 'node ' : 'nodes '}${listed(nodes)}, which ${isOne ? 'is' : 'are'} not there`
    return { text, needs: [...unplaced.needs.filter(([kind]) => kind !== 'Node'), ...needs] }
  }
  return unplaced
}

/** Nodes that a local volume is bound to, by name. */
function nodesOf(volume: KubernetesObject | undefined): readonly string[] {
  const terms = listAt(volume, 'spec.nodeAffinity.required.nodeSelectorTerms')
  return terms.flatMap((term) =>
    listField(term, 'matchExpressions')
      .filter((one) => textField(one, 'key') === 'kubernetes.io/hostname' && textField(one, 'operator') === 'In')
      .flatMap(({ values }) => (Array.isArray(values) ? values.filter((one) => typeof one === 'string') : [])),
  )
}

/** The scheduler adds this where it can end nobody in the Pod's favour. */
const unhelpful =
  /\.? ?(?:no new claims to deallocate, ?)?preemption: \d{1,6}\/\d{1,6} nodes are available: (?:\d{1,6} (?:Preemption is not helpful for scheduling|No preemption victims found for incoming pod)[,.]? ?){1,4}$/

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

/** Its claim of a device is not made: nobody schedules it before. */
function unclaimedPod(pod: KubernetesObject, around: Around): Finding | undefined {
  const event = newest(around.eventsOf(pod).filter(({ reason }) => reason === 'FailedResourceClaimCreation'))
  if (!event) return undefined
  const { reason, message, first, last } = event
  const needs: readonly Need[] = [['Event', namespaceOf(pod)]]
  const since = createdOf(pod, around.now)
  return found(pod, around.now, {
    reason,
    text: message,
    rank: ranks.pod,
    since,
    from: first,
    last,
    grace: refusedMs,
    needs,
  })
}

const waitsAt = (node: string) => `node ${node} is chosen; waits for its volumes`
