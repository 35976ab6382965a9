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
import { claimNamesOf, type LabelTable } from '../read.ts'
import { listed, withNodes } from './taints.ts'

/** Time in which a node may come. ms */
const schedulingMs = 2 * minute
/** Time in which a claim of a device may follow the Pod. ms */
const refusedMs = minute

/** Judges a Pod without a node. */
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
  // a node is chosen, and the Pods in the way are being ended
  const isChosen = textAt(pod, 'status.nominatedNodeName') !== ''
  return found(pod, now, {
    ...base,
    ...withVolumes(pod, withNodes(pod, message.replace(unhelpful, ''), around), around),
    reason: reason || 'Unschedulable',
    grace: isChosen ? undefined : schedulingMs,
  })
}

/** Texts of Kubernetes up to 1.34, and from then on. */
const affinity = /volume node affinity conflict|PersistentVolume's node affinity/

/** Adds a volume of the Pod that is for nodes which do not exist. */
function withVolumes(
  pod: KubernetesObject,
  unplaced: { readonly text: string; readonly needs: readonly Need[] },
  around: Around,
): { readonly text: string; readonly needs: readonly Need[] } {
  if (!affinity.test(unplaced.text)) return unplaced
  const namespace = namespaceOf(pod)
  for (const claim of claimNamesOf(pod)) {
    const name = textAt(around.find('PersistentVolumeClaim', namespace, claim), 'spec.volumeName')
    const volume = around.find('PersistentVolume', '', name)
    const where = missingPlaceOf(volume, namespace, around)
    if (where === undefined) continue
    const needs: readonly Need[] = [
      ['PersistentVolumeClaim', namespace],
      ['PersistentVolume', ''],
      ['Node', ''],
    ]
    return {
      text: `${unplaced.text}; volume ${name} is ${where}`,
      needs: [...unplaced.needs.filter(([kind]) => kind !== 'Node'), ...needs],
    }
  }
  return unplaced
}

/** limit of node labels that are read for one volume */
const maxPlaces = 16

/** @returns the place of a volume, if there is no such node; undefined: there is one, or nothing is known */
function missingPlaceOf(volume: KubernetesObject | undefined, namespace: string, around: Around): string | undefined {
  const nodes = placesOf(volume).filter(([key]) => key === 'kubernetes.io/hostname')
  if (nodes.length > 0 && nodes.every(([, name]) => isMissing(around, 'Node', '', name))) {
    const isOne = nodes.length === 1
    return `on ${isOne ? 'node' : 'nodes'} ${listed(nodes.map(([, name]) => name))}, which ${isOne ? 'is' : 'are'} not there`
  }
  if (nodes.length > 0 || !around.isLive('Node', '')) return undefined
  const places = placesOf(volume)
  if (places.length > maxPlaces) return undefined
  const isThere = places.some((place) => around.taints(namespace, [place]) !== undefined)
  if (places.length === 0 || isThere) return undefined
  return `for nodes with ${listed(places.map(([key, value]) => `${key}=${value}`))}, and there is none`
}

/** Returns labels of the nodes on which a volume can be used: one of them is enough. */
function placesOf(volume: KubernetesObject | undefined): LabelTable {
  const terms = listAt(volume, 'spec.nodeAffinity.required.nodeSelectorTerms')
  return terms.flatMap((term) =>
    listField(term, 'matchExpressions')
      .filter((one) => textField(one, 'operator') === 'In')
      .flatMap(({ key, values }): LabelTable => {
        if (typeof key !== 'string' || !Array.isArray(values)) return []
        return values.filter((one) => typeof one === 'string').map((value) => [key, value] as const)
      }),
  )
}

/** Text that the scheduler adds if preemption does not help the Pod. */
const unhelpful =
  /\.? ?(?:(?:no new claims to deallocate|still not schedulable), ?)?preemption: (?:\d{1,6}\/\d{1,6} nodes are available: (?:\d{1,6} (?:Preemption is not helpful for scheduling|No preemption victims found for incoming pod)[,.]? ?){1,4}|not eligible due to [\w =]{1,80}\.?)$/

/** Judges a Pod of which the scheduler reports nothing: it has no node yet, or its volumes are being made. */
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

/** Judges a Pod whose claim of a device is not made: it is not scheduled before. */
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
