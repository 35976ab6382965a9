import { conditionsAt } from '../../../kubernetes/conditions.ts'
import {
  field,
  isBeingDeleted,
  type KubernetesObject,
  kindOf,
  namespaceOf,
  numberAt,
  textAt,
} from '../../../kubernetes/object.ts'
import { exactTimeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, found, minute, ranks, second } from './finding.ts'
import { lostWithNode } from './pods/readiness.ts'

/** Finalizers have so long. ms */
const finalizersMs = 5 * minute
/** A Pod has so long once the time of its containers is over. ms */
const pastEndMs = 60 * second
/** finalizers that are named */
const maxNamed = 10

/** Of what is being deleted. Its metadata alone is read; of Pods, too, whether their node is lost. */
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
    // evicted, it stays until its kubelet says that its containers have ended
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
  if (finalizers.length > 0) {
    return found(object, now, { ...blocked, grace: finalizersMs })
  }
  return found(object, now, terminating)
}

export function finalizersOf(object: KubernetesObject): readonly string[] {
  const list = field(object.metadata, 'finalizers')
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string' && one !== '') : []
}

const nodeOf = (pod: KubernetesObject) => textAt(pod, 'spec.nodeName')

/** What hinders a deletion may go. ms */
const hindranceMs = 2 * minute

/** Conditions of a Namespace that is being deleted, and whether they pass by themselves. */
export const hindrances: readonly (readonly [type: string, grace: number | undefined])[] = [
  ['NamespaceDeletionDiscoveryFailure', hindranceMs],
  ['NamespaceDeletionGroupVersionParsingFailure', hindranceMs],
  ['NamespaceDeletionContentFailure', hindranceMs],
  ['NamespaceFinalizersRemaining', hindranceMs],
  ['NamespaceContentRemaining', undefined],
]

export function namespace(object: KubernetesObject, { now }: Around): Finding | undefined {
  if (!isBeingDeleted(object)) return undefined
  const conditions = new Map(conditionsAt(object, now).map((one) => [one.type, one]))
  for (const [type, grace] of hindrances) {
    const condition = conditions.get(type)
    if (condition?.status !== 'True') continue
    const { reason, message, since } = condition
    return found(object, now, { reason: reason || type, text: message, rank: ranks.other, since, grace })
  }
  return undefined
}
