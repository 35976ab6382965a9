import type { ResourceKind } from '../../../../../src/kubernetes/kind.ts'

/** Objects as an API server sends them, with the fields that views read. */

export const kindOf = (key: string, plural: string, isNamespaced = true): ResourceKind => {
  const slash = key.indexOf('/')
  const group = slash < 0 ? '' : key.slice(0, slash)
  return { key, group, version: 'v1', plural, isNamespaced }
}

export const kinds = {
  pod: kindOf('Pod', 'pods'),
  replicaSet: kindOf('apps/ReplicaSet', 'replicasets'),
  deployment: kindOf('apps/Deployment', 'deployments'),
  statefulSet: kindOf('apps/StatefulSet', 'statefulsets'),
  claim: kindOf('PersistentVolumeClaim', 'persistentvolumeclaims'),
  service: kindOf('Service', 'services'),
  slice: kindOf('discovery.k8s.io/EndpointSlice', 'endpointslices'),
  node: kindOf('Node', 'nodes', false),
  configMap: kindOf('ConfigMap', 'configmaps'),
} as const

export interface Seen {
  readonly uid: string
  readonly name?: string
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly owners?: readonly object[]
  readonly created?: number
  readonly spec?: object
  readonly status?: object
}

/** Returns an object as a list has it, without its kind. */
export function object(seen: Seen): Record<string, unknown> {
  const { uid, name = `name-${uid}`, namespace = 'shop', labels, owners, created = 0, spec, status } = seen
  const ownerReferences = owners ?? []
  const creationTimestamp = new Date(created).toISOString()
  return { metadata: { uid, name, namespace, labels, ownerReferences, creationTimestamp }, spec, status }
}

export const ownedBy = (kind: ResourceKind, uid: string, name = `name-${uid}`, more: object = {}) => ({
  apiVersion: kind.group === '' ? kind.version : `${kind.group}/${kind.version}`,
  kind: kind.key.slice(kind.key.indexOf('/') + 1),
  name,
  uid,
  controller: true,
  ...more,
})
