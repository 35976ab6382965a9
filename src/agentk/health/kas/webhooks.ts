import {
  field,
  type KubernetesObject,
  listAt,
  listField,
  namespaceOf,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { isMissing } from './around.ts'
import { type Finding, found, minute, ranks, worstOf } from './finding.ts'
import { labelTableOf } from './read.ts'
import { isWithoutEndpoints } from './services.ts'

/** Its Service may come a moment after it. ms */
const newMs = minute

/** Of the configuration of admission webhooks: those that must agree, and that nobody can ask. */
export function webhookConfiguration(object: KubernetesObject, around: Around): Finding | undefined {
  return worstOf(listAt(object, 'webhooks').map((webhook) => unasked(object, webhook, around)))
}

/** Kinds that configure webhooks. */
export const webhookKinds = ['Validating', 'Mutating'].map(
  (one) => `admissionregistration.k8s.io/${one}WebhookConfiguration`,
)

function unasked(object: KubernetesObject, webhook: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const namespace = textAt(webhook, 'clientConfig.service.namespace')
  const name = textAt(webhook, 'clientConfig.service.name')
  if (name === '' || !mustAgree(webhook)) return undefined
  const hook = textField(webhook, 'name')
  const base = { rank: ranks.foundation, about: hook, from: createdOf(object, now) }
  if (isMissing(around, 'Service', namespace, name)) {
    const text = `webhook ${hook}: service ${namespace}/${name} does not exist`
    return found(object, now, {
      ...base,
      reason: 'WebhookServiceMissing',
      text,
      grace: newMs,
      needs: [['Service', namespace]],
    })
  }
  const service = around.find('Service', namespace, name)
  const unready = service && around.findingsOf(service)[0]
  if (!unready || !isWithoutEndpoints(unready.reason)) return undefined
  const text = `webhook ${hook}: service ${namespace}/${name} has no ready endpoint`
  // a Service whose Pods start answers soon; one without any never does
  const grace = unready.word === 'Progressing' ? undefined : newMs
  const needs = [['Service', namespace] as const, ...unready.needs.filter(([kind]) => kind !== 'Service')]
  return found(object, now, { ...base, reason: 'NoReadyEndpoints', text, grace, needs })
}

const isAny = (list: unknown, ...wanted: readonly string[]) =>
  Array.isArray(list) && wanted.some((one) => list.includes(one))

/** Whether a webhook that must agree is asked before a Pod is deleted. What its selectors do not say by the namespace's name is no yes. */
export function isAskedForDeletion(webhook: KubernetesObject, pod: KubernetesObject): boolean {
  if (!mustAgree(webhook)) return false
  const isOf = listAt(webhook, 'rules').some(
    (rule) =>
      isAny(rule.operations, '*', 'DELETE') &&
      isAny(rule.apiGroups, '*', '') &&
      isAny(rule.resources, '*', '*/*', 'pods', 'pods/*'),
  )
  return isOf && isEmptySelector(webhook.objectSelector) && selectsByName(webhook.namespaceSelector, namespaceOf(pod))
}

const isEmptySelector = (selector: unknown) =>
  labelTableOf(field(selector, 'matchLabels')).length === 0 && listField(selector, 'matchExpressions').length === 0

const nameLabel = 'kubernetes.io/metadata.name'

function selectsByName(selector: unknown, namespace: string): boolean {
  const areLabels = labelTableOf(field(selector, 'matchLabels')).every(
    ([name, value]) => name === nameLabel && value === namespace,
  )
  const areExpressions = listField(selector, 'matchExpressions').every((one) => {
    if (textField(one, 'key') !== nameLabel) return false
    const isAmong = isAny(one.values, namespace)
    const operator = textField(one, 'operator')
    return operator === 'In' ? isAmong : operator === 'NotIn' ? !isAmong : operator === 'Exists'
  })
  return areLabels && areExpressions
}

/** What it does not agree to is not done. Only the first version of its API did not default to that. */
const mustAgree = (webhook: KubernetesObject) => textField(webhook, 'failurePolicy') !== 'Ignore'
