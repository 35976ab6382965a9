import { conditionsAt, isUnobserved, type TimedCondition } from '../../../kubernetes/conditions.ts'
import type { KubernetesObject } from '../../../kubernetes/object.ts'
import { type Finding, found, minute, ranks, worstOf } from './finding.ts'

/** What is not yet may come. ms */
const notYetMs = 5 * minute
/** Bad where they are True. */
const bad = ['Stalled', 'Degraded', 'Failed']
/** Good where they are True. */
const good = ['Ready', 'Available', 'Healthy', 'Synced']

/** Of a kind for which nobody has a rule, by conditions that many controllers write. */
export function byConditions(object: KubernetesObject, now: number): Finding | undefined {
  const conditions = conditionsAt(object, now)
  if (conditions.length === 0) return undefined
  const byType = new Map(conditions.map((one) => [one.type, one]))
  const isOld = isUnobserved(object)
  const of = (one: TimedCondition, grace: number | undefined) =>
    found(object, now, {
      reason: one.reason || one.type,
      text: one.message || `${one.type} is ${one.status}`,
      rank: ranks.other,
      since: one.since,
      grace: isOld ? undefined : grace,
    })
  return worstOf([
    ...bad.map((type) => byType.get(type)).map((one) => (one?.status === 'True' ? of(one, 0) : undefined)),
    ...good
      .map((type) => byType.get(type))
      .map((one) =>
        one && one.status !== 'True' ? of(one, one.status === 'False' ? notYetMs : undefined) : undefined,
      ),
  ])
}

/** Whether it says of itself that it is well. */
export function saysWell(object: KubernetesObject, now: number): boolean {
  return conditionsAt(object, now).some(({ type, status }) => status === 'True' && good.includes(type))
}
