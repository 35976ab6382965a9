import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { isBeingDeleted, type KubernetesObject } from '../../../kubernetes/object.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'

/** What hinders a deletion may go. ms */
const hindranceMs = 2 * minute

/** Conditions of a Namespace that is being deleted, and whether they pass by themselves. */
const hindrances: readonly (readonly [type: string, grace: number | undefined])[] = [
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
