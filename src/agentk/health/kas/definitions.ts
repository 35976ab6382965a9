import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, listAt, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'
import { isWithoutEndpoints } from './services.ts'

export const definitionKind = 'apiextensions.k8s.io/CustomResourceDefinition'

/** Time in which the Service that converts objects may follow the definition. ms */
const newMs = minute

/** Returns the kind (`group/Kind`) that a CustomResourceDefinition defines. */
export const definedKind = (definition: KubernetesObject) =>
  `${textAt(definition, 'spec.group')}/${textAt(definition, 'spec.names.kind')}`

/** Judges a CustomResourceDefinition. */
export function customResourceDefinition(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = conditionsAt(object, now)
  const find = (name: string, wanted: string) =>
    conditions.find(({ type, status }) => type === name && status === wanted)
  const bad = find('NamesAccepted', 'False') ?? find('Established', 'False') ?? find('NonStructuralSchema', 'True')
  if (bad) {
    const { type, reason, message, since } = bad
    const grace = reason === 'Installing' ? undefined : 0
    return found(object, now, { reason: reason || type, text: message, rank: ranks.other, since, grace })
  }
  return unconverted(object, around) ?? unlisted(object, around)
}

/** Finds that the API server cannot read or delete the objects, which have to be deleted before the definition. */
export function endingDefinition(object: KubernetesObject, { now }: Around): Finding | undefined {
  const failed = conditionsAt(object, now).find(
    ({ type, status, reason }) => type === 'Terminating' && status === 'True' && reason === 'InstanceDeletionFailed',
  )
  if (!failed) return undefined
  const { reason, message, since } = failed
  return found(object, now, { reason, text: message, rank: ranks.foundation, since, grace: newMs })
}

/** Finds a conversion webhook that nobody answers. With a single version there is nothing to convert. */
function unconverted(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const place = conversionService(object)
  if (!place || versionsOf(object).size < 2) return undefined
  const { namespace, name } = place
  const base = { rank: ranks.foundation, from: createdOf(object, now) }
  if (isMissing(around, 'Service', namespace, name)) {
    const text = `conversion webhook: service ${namespace}/${name} does not exist`
    const needs = [['Service', namespace]] as const
    return found(object, now, { ...base, reason: 'WebhookServiceMissing', text, grace: newMs, needs })
  }
  const service = around.find('Service', namespace, name)
  const unready = service && around.findingsOf(service)[0]
  if (!unready || !isWithoutEndpoints(unready.reason)) return undefined
  const text = `conversion webhook: service ${namespace}/${name} has no ready endpoint`
  const grace = unready.word === 'Progressing' ? undefined : newMs
  const needs = [['Service', namespace] as const, ...unready.needs.filter(([kind]) => kind !== 'Service')]
  return found(object, now, { ...base, reason: 'NoReadyEndpoints', text, grace, needs })
}

/** @returns undefined: it has no conversion webhook, or one without a Service */
export function conversionService(object: KubernetesObject): { namespace: string; name: string } | undefined {
  if (textAt(object, 'spec.conversion.strategy') !== 'Webhook') return undefined
  const of = (field: string) => textAt(object, `spec.conversion.webhook.clientConfig.service.${field}`)
  const place = { namespace: of('namespace'), name: of('name') }
  return place.name === '' ? undefined : place
}

/** Returns the served versions, and those in which objects are stored. */
function versionsOf(object: KubernetesObject): ReadonlySet<string> {
  const served = listAt(object, 'spec.versions').flatMap((one) => (one.served === true ? textAt(one, 'name') : []))
  const stored = at(object, 'status.storedVersions')
  return new Set([...served, ...(Array.isArray(stored) ? stored.filter((one) => typeof one === 'string') : [])])
}

/** Finds that the API server cannot list the objects, whatever the reason is. */
function unlisted(object: KubernetesObject, around: Around): Finding | undefined {
  const trouble = around.listTroubleOf(definedKind(object))
  if (!trouble) return undefined
  const { since, text } = trouble
  return found(object, around.now, {
    reason: 'ListFailed',
    text: `its objects cannot be listed: ${text}`,
    rank: ranks.foundation,
    since,
    grace: 0,
  })
}
