import { at, entryAt, type KubernetesObject, kindOf, textAt } from '../object.ts'
import type { Around } from './around.ts'
import { type Finding, finding, found, minute, type Need, ranks } from './finding.ts'
import { conditionsAt, namespaceOf, type TimedCondition, timedConditions } from './read.ts'

/** Metrics of new Pods come late. ms */
const metricsMs = 2 * minute

/** Of a HorizontalPodAutoscaler. */
export function horizontalPodAutoscaler(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = autoscalerConditions(object, now)
  const isNot = (name: string) => conditions.find(({ type, status }) => type === name && status === 'False')
  const failed = isNot('AbleToScale') ?? isNot('ScalingActive')
  // of an old controller that waits after it has scaled
  if (!failed || failed.reason.startsWith('Backoff')) return undefined
  const { type, reason, message, since } = failed
  const base = { reason: reason || type, text: message, rank: ranks.other, since }
  if (reason === 'ScalingDisabled') return finding('Suspended', base)
  // what does not run measures nothing: that is no fault of its autoscaler
  const target = targetOf(object, around)
  if (!target || around.wordOf(target.object) === 'Healthy') return found(object, now, { ...base, grace: metricsMs })
  const byOthers = around.findingsOf(target.object)[0]?.needs ?? []
  return found(object, now, { ...base, grace: undefined, needs: [target.need, ...byOthers] })
}

function targetOf(object: KubernetesObject, around: Around): { object: KubernetesObject; need: Need } | undefined {
  const key = kindOf((at(object, 'spec.scaleTargetRef') ?? {}) as KubernetesObject)
  // one that scales another is no target, be it itself
  if (key === kindOf(object)) return undefined
  const namespace = namespaceOf(object)
  const target = around.find(key, namespace, textAt(object, 'spec.scaleTargetRef.name'))
  return target && { object: target, need: [key, namespace] }
}

/** Version 1 keeps in an annotation what later ones have in their status. */
function autoscalerConditions(object: KubernetesObject, now: number): readonly TimedCondition[] {
  if (textAt(object, 'apiVersion') !== 'autoscaling/v1') return conditionsAt(object, now)
  const text = entryAt(object, 'metadata.annotations', 'autoscaling.alpha.kubernetes.io/conditions')
  if (text === '') return []
  try {
    return timedConditions(JSON.parse(text), now)
  } catch {
    return [] // anybody may write an annotation
  }
}
