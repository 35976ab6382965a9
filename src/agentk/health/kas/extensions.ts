import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, nameOf } from '../../../kubernetes/object.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'

/** What adds kinds to the API server. */

/** What answers for a group may restart. ms */
const restartMs = minute

export function apiService(object: KubernetesObject, { now }: Around): Finding | undefined {
  const available = conditionsAt(object, now).find(({ type, status }) => type === 'Available' && status === 'False')
  if (!available) return undefined
  const { reason, message, since } = available
  const text = `${nameOf(object)}: ${message || reason}`
  return found(object, now, { reason: reason || 'Available', text, rank: ranks.foundation, since, grace: restartMs })
}

export function customResourceDefinition(object: KubernetesObject, { now }: Around): Finding | undefined {
  const conditions = conditionsAt(object, now)
  const find = (name: string, wanted: string) =>
    conditions.find(({ type, status }) => type === name && status === wanted)
  const bad = find('NamesAccepted', 'False') ?? find('Established', 'False') ?? find('NonStructuralSchema', 'True')
  if (!bad) return undefined
  const { type, reason, message, since } = bad
  const grace = reason === 'Installing' ? undefined : 0
  return found(object, now, { reason: reason || type, text: message, rank: ranks.other, since, grace })
}
