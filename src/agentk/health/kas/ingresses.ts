import {
  at,
  entryAt,
  type KubernetesObject,
  listAt,
  listField,
  namespaceOf,
  numberAt,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, type Found, found, minute, ranks } from './finding.ts'
import { balancerMs, isUnbalanced } from './services.ts'

const classKind = 'networking.k8s.io/IngressClass'
/** Time in which an object that an Ingress names may follow it. ms */
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
  const port = missingPort(object, around)
  if (port !== undefined) {
    const needs = [['Service', namespace]] as const
    return absent({ reason: 'BackendPortMissing', text: port, needs })
  }
  const className = textAt(object, 'spec.ingressClassName')
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
  const base = { rank: ranks.other, since: created }
  const event = newest(around.eventsOf(object).filter(({ reason }) => isUnbalanced(reason)))
  if (event) {
    const { reason, message, first, last } = event
    const needs = [['Event', namespace]] as const
    return found(object, now, { ...base, reason, text: message, last, from: first, grace: balancerMs, needs })
  }
  const named = around.find(classKind, '', className)
  if (named) {
    const controller = textAt(named, 'spec.controller')
    const text = `no address yet: class ${className} is for the controller ${controller}`
    return found(object, now, { ...base, reason: 'AddressPending', text, grace: undefined, needs: [[classKind, '']] })
  }
  const classes = isUnclaimed(object, around) ? around.allOf(classKind, '') : undefined
  if (classes?.length === 0) {
    const text = 'no address yet: it names no class, and there is no ingress class'
    return found(object, now, { ...base, reason: 'AddressPending', text, grace: undefined, needs: [[classKind, '']] })
  }
  if (classes) {
    const text = 'no address: it names no class, and no class is the default'
    return found(object, now, {
      ...base,
      reason: 'IngressClassMissing',
      text,
      grace: unclaimedMs,
      needs: [[classKind, '']],
    })
  }
  return found(object, now, { ...base, reason: 'AddressPending', text: 'no address yet', grace: undefined })
}

/** Time in which a controller for Ingresses without a class gives an address. ms */
const unclaimedMs = 5 * minute

/** True if no class selects the Ingress, so that only controllers for Ingresses without a class serve it. */
function isUnclaimed(object: KubernetesObject, around: Around): boolean {
  const isNamed =
    textAt(object, 'spec.ingressClassName') !== '' ||
    entryAt(object, 'metadata.annotations', 'kubernetes.io/ingress.class') !== ''
  if (isNamed || !around.isLive(classKind, '')) return false
  const isDefault = (one: KubernetesObject) =>
    entryAt(one, 'metadata.annotations', 'ingressclass.kubernetes.io/is-default-class') === 'true'
  return !around.allOf(classKind, '').some(isDefault)
}

/** Finds a port that the Ingress names and that its Service does not have. */
function missingPort(object: KubernetesObject, around: Around): string | undefined {
  for (const service of backendServices(object)) {
    const name = textField(service, 'name')
    const found = around.find('Service', namespaceOf(object), name)
    const ports = listAt(found, 'spec.ports')
    // an ExternalName Service need not list ports
    if (!found || ports.length === 0) continue
    const [byName, byNumber] = [textAt(service, 'port.name'), numberAt(service, 'port.number')]
    const isIt = (port: KubernetesObject) =>
      byName === '' ? port.port === byNumber : textField(port, 'name') === byName
    if ((byName !== '' || byNumber !== undefined) && !ports.some(isIt))
      return `service ${name} has no port ${byName === '' ? byNumber : `named "${byName}"`}`
  }
  return undefined
}

/** Reason of an Ingress whose Service is Degraded: the Ingress itself is as it should be. */
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

function backendServices(ingress: KubernetesObject): readonly unknown[] {
  const paths = listAt(ingress, 'spec.rules').flatMap((rule) => listField(rule.http, 'paths'))
  return [at(ingress, 'spec.defaultBackend.service'), ...paths.map((path) => at(path, 'backend.service'))]
}

/** Returns the names of the Services that it sends requests to, each once. */
export function backendsOf(ingress: KubernetesObject): readonly string[] {
  const names = new Set(backendServices(ingress).map((service) => textField(service, 'name')))
  names.delete('')
  return [...names]
}
