import { conditionsAt, type TimedCondition, timedConditions } from '../../../kubernetes/conditions.ts'
import {
  at,
  entryAt,
  type KubernetesObject,
  kindOf,
  listAt,
  namespaceOf,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import type { Around } from './around.ts'
import { type Finding, finding, found, minute, type Need, ranks } from './finding.ts'
import { searched } from './text.ts'

/** Time in which metrics of new Pods come. ms */
const metricsMs = 2 * minute

/** Judges a HorizontalPodAutoscaler. */
export function horizontalPodAutoscaler(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = autoscalerConditions(object, now)
  const isNot = (name: string) => conditions.find(({ type, status }) => type === name && status === 'False')
  const failed = isNot('AbleToScale') ?? isNot('ScalingActive')
  // an old controller writes it, and waits after it has scaled
  if (!failed || failed.reason.startsWith('Backoff')) return undefined
  const { type, reason, message, since } = failed
  const groups = metricGroupsOf(object, reason)
  const { text, needs } = spokenOf(message, groups, around)
  const about = groups.length === 1 ? groups[0] : undefined
  const base = { reason: reason || type, text, rank: ranks.other, since, needs, ...(about ? { about } : {}) }
  if (reason === 'ScalingDisabled') return finding('Suspended', base)
  // a target that does not run has no metrics: no fault of its autoscaler
  const target = targetOf(object, around)
  if (!target || around.wordOf(target.object) === 'Healthy') return found(object, now, { ...base, grace: metricsMs })
  const byOthers = around.findingsOf(target.object)[0]?.needs ?? []
  return found(object, now, { ...base, grace: undefined, needs: [target.need, ...byOthers, ...needs] })
}

/** Parts of messages that say nothing new: the aim of each autoscaler, and the printed form of a nil selector. */
const noise = [
  /^the HPA was unable to compute the replica count: /,
  /(?<=unable to get external metric \S{1,512})\/nil(?=:)/,
]
export const notServed = 'nothing serves '

/** Returns the controller's message. If metrics are not found, the text also says if they are served. */
function spokenOf(
  message: string,
  [group = '', ...others]: readonly string[],
  around: Around,
): { readonly text: string; readonly needs: readonly Need[] } {
  const text = noise.reduce((rest, one) => rest.replace(one, ''), searched(message))
  const isAbsent = /could not find the (?:requested resource|metric)\b/.test(text)
  if (!isAbsent || group === '' || others.length > 0 || !around.isLive(apiServiceKind, '')) return { text, needs: [] }
  const needs: readonly Need[] = [[apiServiceKind, '']]
  const services = versions.map((version) => around.find(apiServiceKind, '', `${version}.${group}`))
  if (services.every((one) => one === undefined)) {
    const by = group === resourceGroup ? ', as metrics-server does' : ''
    return { text: `${notServed}${group}${by}: ${text}`, needs }
  }
  const isServed = services.some((one) => one && around.wordOf(one) === 'Healthy')
  if (!isServed || group === resourceGroup) return { text, needs: [] }
  return { text: `${group} is served, and has no such metric: ${text}`, needs }
}

const apiServiceKind = 'apiregistration.k8s.io/APIService'
const resourceGroup = 'metrics.k8s.io'
/** versions of groups of metrics, in any cluster */
const versions = ['v1', 'v1beta2', 'v1beta1']

/** Group that serves a metric, by the type of the metric. */
const groupsByType: Readonly<Record<string, string>> = {
  Resource: resourceGroup,
  ContainerResource: resourceGroup,
  Pods: 'custom.metrics.k8s.io',
  Object: 'custom.metrics.k8s.io',
  External: 'external.metrics.k8s.io',
}

export const metricGroups: ReadonlySet<string> = new Set(Object.values(groupsByType))

/** Returns the groups that an autoscaler lacks. */
export function metricGroupsOf(autoscaler: KubernetesObject, reason: string): readonly string[] {
  const failed = /^FailedGet(\w+)Metric$/.exec(reason.slice(0, 64))?.[1]
  if (failed !== undefined) return Object.hasOwn(groupsByType, failed) ? [groupsByType[failed] as string] : []
  if (reason !== 'FailedComputeMetricsReplicas') return []
  const types = listAt(autoscaler, 'spec.metrics').map((metric) => textField(metric, 'type'))
  const groups = types.filter((type) => Object.hasOwn(groupsByType, type)).map((type) => groupsByType[type] as string)
  return [...new Set(groups)]
}

function targetOf(object: KubernetesObject, around: Around): { object: KubernetesObject; need: Need } | undefined {
  const key = kindOf((at(object, 'spec.scaleTargetRef') ?? {}) as KubernetesObject)
  // an autoscaler that scales another one, or itself, has no target
  if (key === kindOf(object)) return undefined
  const namespace = namespaceOf(object)
  const target = around.find(key, namespace, textAt(object, 'spec.scaleTargetRef.name'))
  return target && { object: target, need: [key, namespace] }
}

/** Returns conditions, which version 1 keeps in an annotation and later versions in the status. */
function autoscalerConditions(object: KubernetesObject, now: number): readonly TimedCondition[] {
  if (textAt(object, 'apiVersion') !== 'autoscaling/v1') return conditionsAt(object, now)
  const text = entryAt(object, 'metadata.annotations', 'autoscaling.alpha.kubernetes.io/conditions')
  if (text === '') return []
  try {
    return timedConditions(JSON.parse(text), now)
  } catch {
    return [] // anybody can write an annotation
  }
}
