import { conditionsAt } from '../../../kubernetes/conditions.ts'
import {
  field,
  isBeingDeleted,
  type KubernetesObject,
  kindOf,
  nameOf,
  namespaceOf,
  numberAt,
  textAt,
} from '../../../kubernetes/object.ts'
import { exactTimeOf, timeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, type Found, found, minute, ranks, second } from './finding.ts'
import { lostWithNode } from './pods/readiness.ts'
import { firstByName, hasEnded } from './read.ts'
import { notReconciled } from './unreconciled.ts'

/** Time for finalizers. ms */
const finalizersMs = 5 * minute
/** Time for a Pod after the grace period of its containers. ms */
const pastEndMs = 60 * second
/** limit of the finalizers that are named */
const maxNamed = 10

/** Judges an object that is being deleted. The metadata is enough for most kinds. */
export function deletionOf(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  if (!isBeingDeleted(object)) return undefined
  const kind = kindOf(object)
  const end = exactTimeOf(textAt(object, 'metadata.deletionTimestamp'))
  const graceMs = (numberAt(object, 'metadata.deletionGracePeriodSeconds') ?? 0) * second
  const since = end === undefined ? undefined : Math.min(end - graceMs, now)
  const finalizers = finalizersOf(object)
  const rank = kind === 'Pod' || kind === 'PersistentVolumeClaim' ? ranks.pod : ranks.other
  const isPastEnd = end !== undefined && now >= end
  const blocked = {
    reason: 'DeletionBlocked',
    text: `waits for finalizers: ${[...finalizers.slice(0, maxNamed), ...(finalizers.length > maxNamed ? ['…'] : [])].join(', ')}`,
    rank,
    since,
  }
  const terminating = { reason: 'Terminating', text: 'is being deleted', rank, since, grace: undefined }
  if (kind === 'Pod') {
    // an evicted Pod stays until its kubelet reports that its containers have ended
    const lost = lostWithNode(object, now)
    if (lost) return lost
    const grace = pastEndMs
    if (isPastEnd && finalizers.length > 0) return found(object, now, { ...blocked, grace, from: end })
    const node = nodeOf(object)
    const event = isPastEnd
      ? newest(around.eventsOf(object).filter(({ reason }) => reason === 'FailedKillPod'))
      : undefined
    const text = `is still there after its time to end${node && `, on node ${node}`}${event ? `: ${event.message}` : ''}`
    const needs = event ? ([['Event', namespaceOf(object)]] as const) : []
    if (isPastEnd) return found(object, now, { reason: 'TerminatingStuck', text, rank, since, grace, from: end, needs })
    return found(object, now, { ...terminating, until: end })
  }
  if (finalizers.length === 0) return found(object, now, terminating)
  const { text, needs = [] } = hindrance(object, around, since) ?? { text: '' }
  return found(object, now, { ...blocked, text: `${blocked.text}${text}`, grace: finalizersMs, needs })
}

/** Explains why a finalizer stays, by other objects or its controller's events. @param since - begin of the deletion */
function hindrance(object: KubernetesObject, around: Around, since = 0): Pick<Found, 'text' | 'needs'> | undefined {
  const namespace = namespaceOf(object)
  const kind = kindOf(object)
  if (kind === 'PersistentVolumeClaim' && finalizersOf(object).includes('kubernetes.io/pvc-protection')) {
    const user = firstByName(around.usersOf(object).filter((pod) => !hasEnded(pod)))
    return user && { text: `; Pod ${nameOf(user)} uses it`, needs: [['Pod', namespace]] }
  }
  const claim = textAt(object, 'spec.claimRef.name')
  if (kind === 'PersistentVolume' && claim !== '' && textAt(object, 'status.phase') === 'Bound') {
    return { text: `; it is bound to claim ${textAt(object, 'spec.claimRef.namespace')}/${claim}`, needs: [] }
  }
  const event = newest(around.eventsOf(object).filter(({ last }) => last >= since))
  // events of cluster-scoped objects are in `default`
  return event && { text: `; ${event.reason}: ${event.message}`, needs: [['Event', namespace || 'default']] }
}

export function finalizersOf(object: KubernetesObject): readonly string[] {
  const list = field(object.metadata, 'finalizers')
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string' && one !== '') : []
}

const nodeOf = (pod: KubernetesObject) => textAt(pod, 'spec.nodeName')

/** Time in which a hindrance to a deletion may pass. ms */
const hindranceMs = 2 * minute

/** Conditions of a Namespace that is being deleted, with their grace; undefined: they pass by themselves. */
export const hindrances: readonly (readonly [type: string, grace: number | undefined])[] = [
  ['NamespaceDeletionDiscoveryFailure', hindranceMs],
  ['NamespaceDeletionGroupVersionParsingFailure', hindranceMs],
  ['NamespaceDeletionContentFailure', hindranceMs],
  ['NamespaceFinalizersRemaining', hindranceMs],
  ['NamespaceContentRemaining', undefined],
]

export function namespace(object: KubernetesObject, { now }: Around): Finding | undefined {
  if (!isBeingDeleted(object)) return undefined
  const deleted = timeOf(textAt(object, 'metadata.deletionTimestamp'), now)
  const conditions = new Map(conditionsAt(object, now).map((one) => [one.type, one]))
  for (const [type, grace] of hindrances) {
    const condition = conditions.get(type)
    if (condition?.status !== 'True') continue
    const { reason, message, since } = condition
    return found(object, now, { reason: reason || type, text: message, rank: ranks.other, since, grace })
  }
  // finalizers of the Namespace itself are the cause
  if (conditions.size > 0 || finalizersOf(object).length > 0) return undefined
  if (deleted === undefined || now < deleted + hindranceMs) return undefined
  const text = 'no controller has begun to delete its content: does kube-controller-manager run?'
  return found(object, now, { reason: notReconciled, text, rank: ranks.foundation, since: deleted, grace: 0 })
}
