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

/** Time in which the Service may follow the configuration. ms */
const newMs = minute

/** Judges the configuration of admission webhooks: it fails if a webhook that must agree cannot be asked. */
export function webhookConfiguration(object: KubernetesObject, around: Around): Finding | undefined {
  return worstOf(listAt(object, 'webhooks').map((webhook) => unasked(object, webhook, around)))
}

/** Kinds of webhook configurations. */
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

/**
 * True if a webhook that must agree is asked before a Pod is deleted. Selectors by other labels than the namespace's
 * name count as no.
 */
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

/** True if requests fail without the webhook's answer. Only the first version of its API had another default. */
const mustAgree = (webhook: KubernetesObject) => textField(webhook, 'failurePolicy') !== 'Ignore'
