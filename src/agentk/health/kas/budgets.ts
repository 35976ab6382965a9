import { conditionAt } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, listAt, nameOf, namespaceOf, uidOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'
import { firstByName, hasEnded, type LabelTable, labelTableOf } from './read.ts'

const kind = 'policy/PodDisruptionBudget'
/** Time in which Pods may follow their budget. ms */
const newMs = minute
const makers = ['apps/Deployment', 'apps/StatefulSet', 'apps/DaemonSet', 'apps/ReplicaSet', 'batch/Job'] as const

/**
 * Judges a PodDisruptionBudget. It fails if it cannot be computed or protects nothing. It also fails if it shares a Pod
 * with another one, because that Pod can never be evicted.
 */
export function budget(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const namespace = namespaceOf(object)
  const failed = conditionAt(object, 'DisruptionAllowed', now)
  if (failed?.status === 'False' && failed.reason === 'SyncFailed') {
    const { reason, message, since } = failed
    return found(object, now, { reason, text: message, rank: ranks.other, since, grace: newMs })
  }
  const selector = selectorOf(object)
  if (selector === undefined || !around.isLive('Pod', namespace)) return undefined
  const pods = around.podsOf(namespace, selector)
  const base = { rank: ranks.other, from: createdOf(object, now) }
  if (pods.length === 0) {
    // a namespace may have no Pods at all
    if (selector.length === 0) return undefined
    if (around.workloadsOf(namespace, selector).length > 0) return undefined
    if (!makers.every((one) => around.isLive(one, namespace))) return undefined
    const text = `no Pod has ${selector.map(([name, value]) => `${name}=${value}`).join(',')}`
    const needs = ['Pod', ...makers].map((one) => [one, namespace] as const)
    return found(object, now, { ...base, reason: 'SelectsNothing', text, grace: newMs, needs })
  }
  // no budget applies to Pods that have ended
  const uids = new Set(pods.filter((pod) => !hasEnded(pod)).map(uidOf))
  const budgets = around.allOf(kind, namespace).toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
  for (const other of budgets) {
    const others = selectorOf(other)
    if (nameOf(other) === nameOf(object) || others === undefined) continue
    const shared = firstByName(around.podsOf(namespace, others).filter((pod) => uids.has(uidOf(pod))))
    if (!shared) continue
    const text = `Pod ${nameOf(shared)} is of PodDisruptionBudget ${nameOf(other)}, too: it can never be evicted`
    return found(object, now, { ...base, reason: 'BudgetsOverlap', text, grace: newMs, needs: [['Pod', namespace]] })
  }
  return undefined
}

/** @returns empty: all Pods; undefined: no Pods, or a selector with more than labels, which is not judged */
function selectorOf(object: KubernetesObject): LabelTable | undefined {
  const selector = at(object, 'spec.selector')
  if (typeof selector !== 'object' || selector === null || Array.isArray(selector)) return undefined
  if (listAt(selector, 'matchExpressions').length > 0) return undefined
  return labelTableOf(at(selector, 'matchLabels'))
}
