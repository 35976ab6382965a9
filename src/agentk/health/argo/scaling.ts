import { type Condition, conditionsOf, toCondition } from '../../../kubernetes/conditions.ts'
import { entryAt, type KubernetesObject, textAt } from '../../../kubernetes/object.ts'
import { type ArgoHealth, type ArgoRule, degraded, healthy, progressing } from './health.ts'

/** Annotation in which version 1 keeps the conditions that later versions have in the status. */
const conditionsAnnotation = 'autoscaling.alpha.kubernetes.io/conditions'

/** By condition type: reasons that mean that it does not scale, whatever the condition's status is. */
const failures: Readonly<Record<string, readonly string[]>> = {
  AbleToScale: ['FailedGetScale', 'FailedUpdateScale'],
  ScalingActive: [
    'FailedGetResourceMetric',
    'FailedGetObjectMetric',
    'FailedGetPodsMetric',
    'FailedGetExternalMetric',
    'FailedComputeMetricsReplicas',
    'InvalidSelector',
  ],
}
const scales = ['AbleToScale', 'ScalingLimited']

export const horizontalPodAutoscaler: ArgoRule = (object) => {
  const conditions = autoscalerConditions(object)
  const failure = conditions.find(({ type, reason }) => failures[type]?.includes(reason))
  if (failure) return degraded(failure.message)
  const able = conditions.find(({ type, status }) => scales.includes(type) && status === 'True')
  return able ? healthy(able.message) : progressing('Waiting to Autoscale')
}

function autoscalerConditions(object: KubernetesObject): readonly Condition[] {
  if (textAt(object, 'apiVersion') !== 'autoscaling/v1') return conditionsOf(object)
  const text = entryAt(object, 'metadata.annotations', conditionsAnnotation)
  if (text === '') return []
  try {
    const parsed: unknown = JSON.parse(text)
    return Array.isArray(parsed) ? parsed.map(toCondition) : []
  } catch {
    return [] // anybody can write an annotation
  }
}

export const podDisruptionBudget: ArgoRule = (object) => {
  const conditions = conditionsOf(object)
  if (conditions.length === 0) return progressing('Waiting for status')
  const failed = conditions.find(({ status, reason }) => status === 'False' && reason !== 'InsufficientPods')
  if (failed) return budget('Degraded', failed)
  return budget('Healthy', conditions[0] as Condition)
}

function budget(status: ArgoHealth['status'], { reason }: Condition): ArgoHealth {
  return { status, text: `PodDisruptionBudget has ${reason}` }
}
