import { type KubernetesObject, listAt, listField, namespaceOf, textAt, textField } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { type Finding, type Found, found, minute, ranks } from './finding.ts'

/** What an Ingress names may come a moment after it. ms */
const newMs = minute

export function ingress(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const namespace = namespaceOf(object)
  const created = createdOf(object, now)
  const absent = (one: Pick<Found, 'reason' | 'text' | 'needs'>) =>
    found(object, now, { ...one, rank: ranks.other, grace: newMs, from: created })
  const service = backendsOf(object).find((name) => isMissing(around, 'Service', namespace, name))
  if (service !== undefined) {
    const needs = [['Service', namespace]] as const
    return absent({ reason: 'BackendMissing', text: `service ${service} does not exist`, needs })
  }
  const className = textAt(object, 'spec.ingressClassName')
  const classKind = 'networking.k8s.io/IngressClass'
  if (isMissing(around, classKind, '', className)) {
    const text = `ingress class ${className} does not exist`
    return absent({ reason: 'IngressClassMissing', text, needs: [[classKind, '']] })
  }
  const secrets = listAt(object, 'spec.tls').map((one) => textField(one, 'secretName'))
  const secret = secrets.find((name) => isMissing(around, 'Secret', namespace, name))
  if (secret !== undefined) {
    const text = `secret ${secret} does not exist`
    return absent({ reason: 'SecretMissing', text, needs: [['Secret', namespace]] })
  }
  const broken = brokenBackend(object, around)
  if (broken) return broken
  if (listAt(object, 'status.loadBalancer.ingress').length > 0) return undefined
  const text = 'no address yet'
  return found(object, now, { reason: 'AddressPending', text, rank: ranks.other, since: created, grace: undefined })
}

/** Reason of one that sends to a Service which is Degraded: it is as it should be, and what is behind it is not. */
export const backendNotReady = 'BackendNotReady'

function brokenBackend(object: KubernetesObject, around: Around): Finding | undefined {
  const namespace = namespaceOf(object)
  for (const name of backendsOf(object)) {
    const service = around.find('Service', namespace, name)
    if (!service || around.wordOf(service) !== 'Degraded') continue
    const [first] = around.findingsOf(service)
    const text = `service ${name}: ${first?.text ?? 'it is not well'}`
    const needs = [['Service', namespace], ...(first?.needs ?? [])] as const
    return found(object, around.now, { reason: backendNotReady, text, rank: ranks.other, grace: undefined, needs })
  }
  return undefined
}

/** Names of the Services that it sends requests to, each once. */
export function backendsOf(ingress: KubernetesObject): readonly string[] {
  const names = new Set([textAt(ingress, 'spec.defaultBackend.service.name')])
  for (const rule of listAt(ingress, 'spec.rules')) {
    for (const path of listField(rule.http, 'paths')) names.add(textAt(path, 'backend.service.name'))
  }
  names.delete('')
  return [...names]
}
