import { kindKey } from '../../../../kubernetes/kind.ts'
import { at, entryAt, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import type { Projector, Reference } from './projector.ts'
import { plainSelector } from './selectors.ts'

/** hosts that are shown */
const maxHosts = 3
/** Label that the controller sets on each slice that it makes for a Service. */
const serviceLabel = 'kubernetes.io/service-name'

export const service: Projector = (object) => {
  const type = textAt(object, 'spec.type')
  const isElsewhere = type === 'ExternalName'
  return {
    facts: [type, isElsewhere ? textAt(object, 'spec.externalName') : addressOf(object)],
    selector: isElsewhere ? undefined : plainSelector(object, 'spec.selector'),
  }
}

export const endpointSlice: Projector = (object) => {
  const endpoints = listAt(object, 'endpoints')
  const ready = endpoints.filter((endpoint) => at(endpoint, 'conditions.ready') !== false).length
  const name = entryAt(object, 'metadata.labels', serviceLabel)
  return { facts: [`${ready}/${endpoints.length} ready`], customParent: name ? { kind: 'Service', name } : undefined }
}

export const ingress: Projector = (object) => {
  const rules = listAt(object, 'spec.rules')
  const paths = rules.flatMap((rule) => listAt(rule, 'http.paths'))
  const names = [
    textAt(object, 'spec.defaultBackend.service.name'),
    ...paths.map((path) => textAt(path, 'backend.service.name')),
  ]
  const namespace = textAt(object, 'metadata.namespace')
  return {
    facts: [...hosts(rules.map((rule) => textAt(rule, 'host'))), addressOf(object)],
    references: names.map((name) => ({ relation: 'routes', kind: 'Service', namespace, name })),
  }
}

/** Route of the Gateway API. */
export const route: Projector = (object) => {
  const listed = at(object, 'spec.hostnames')
  const backends = listAt(object, 'spec.rules').flatMap((rule) => listAt(rule, 'backendRefs'))
  return {
    facts: hosts(Array.isArray(listed) ? listed.filter((host) => typeof host === 'string') : []),
    references: backends.map((backend) => toService(object, backend)),
  }
}

function toService(object: KubernetesObject, backend: KubernetesObject): Reference {
  return {
    relation: 'routes',
    kind: kindKey(textAt(backend, 'group'), textAt(backend, 'kind') || 'Service'),
    namespace: textAt(backend, 'namespace') || textAt(object, 'metadata.namespace'),
    name: textAt(backend, 'name'),
  }
}

const hosts = (names: readonly string[]) => [...new Set(names)].filter((name) => name !== '').slice(0, maxHosts)

/** First address at which the object is reached from outside. */
function addressOf(object: KubernetesObject): string {
  const [first] = listAt(object, 'status.loadBalancer.ingress')
  return textAt(first, 'ip') || textAt(first, 'hostname')
}
