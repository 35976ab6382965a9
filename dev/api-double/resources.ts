import { asRecord, fieldAt, type KubeObject } from './kube-object.ts'

/** Resources of the double: one row each. Discovery, paths, tables and the store all use this list. */

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer'
  /** 0: always shown; 1: only with `-o wide` */
  readonly priority?: number
  readonly value: (object: KubeObject, now: number) => unknown
}

export interface Resource {
  readonly group: string
  readonly version: string
  /** plural, as in paths */
  readonly name: string
  readonly singular: string
  readonly kind: string
  readonly namespaced: boolean
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly verbs: readonly string[]
  readonly subresources: readonly { readonly name: string; readonly kind: string; readonly verbs: readonly string[] }[]
  readonly columns: readonly Column[]
}

const reading = ['get', 'list', 'watch'] as const
const writing = ['create', 'update', 'patch', 'delete'] as const
const name: Column = { name: 'Name', type: 'string', value: (object) => object.metadata.name }
const age: Column = { name: 'Age', type: 'string', value: (object, now) => ageOf(object, now) }
const empty = { group: '', version: 'v1', namespaced: true, shortNames: [], categories: [], subresources: [] }

export const resources: readonly Resource[] = [
  {
    ...empty,
    name: 'namespaces',
    singular: 'namespace',
    kind: 'Namespace',
    namespaced: false,
    shortNames: ['ns'],
    verbs: [...reading, ...writing],
    columns: [name, { name: 'Status', type: 'string', value: (object) => fieldAt(object, 'status.phase') }, age],
  },
  {
    ...empty,
    name: 'pods',
    singular: 'pod',
    kind: 'Pod',
    shortNames: ['po'],
    categories: ['all'],
    verbs: reading,
    subresources: [
      { name: 'log', kind: 'Pod', verbs: ['get'] },
      { name: 'exec', kind: 'PodExecOptions', verbs: ['create', 'get'] },
      { name: 'portforward', kind: 'PodPortForwardOptions', verbs: ['create', 'get'] },
    ],
    columns: [
      name,
      { name: 'Ready', type: 'string', value: (object) => `1/${containersOf(object).length}` },
      { name: 'Status', type: 'string', value: (object) => fieldAt(object, 'status.phase') },
      { name: 'Restarts', type: 'integer', value: () => 0 },
      age,
      { name: 'IP', type: 'string', priority: 1, value: (object) => fieldAt(object, 'status.podIP') ?? '<none>' },
      { name: 'Node', type: 'string', priority: 1, value: (object) => fieldAt(object, 'spec.nodeName') ?? '<none>' },
    ],
  },
  {
    ...empty,
    name: 'configmaps',
    singular: 'configmap',
    kind: 'ConfigMap',
    shortNames: ['cm'],
    verbs: [...reading, ...writing],
    columns: [
      name,
      { name: 'Data', type: 'integer', value: (object) => Object.keys(asRecord(object.data) ?? {}).length },
      age,
    ],
  },
  {
    ...empty,
    name: 'events',
    singular: 'event',
    kind: 'Event',
    shortNames: ['ev'],
    verbs: [...reading, ...writing],
    columns: [
      { name: 'Last Seen', type: 'string', value: (object, now) => ageOf(object, now) },
      { name: 'Type', type: 'string', value: (object) => object.type },
      { name: 'Reason', type: 'string', value: (object) => object.reason },
      { name: 'Message', type: 'string', value: (object) => object.message },
    ],
  },
  {
    ...empty,
    group: 'coordination.k8s.io',
    name: 'leases',
    singular: 'lease',
    kind: 'Lease',
    verbs: [...reading, ...writing],
    columns: [name, { name: 'Holder', type: 'string', value: (object) => fieldAt(object, 'spec.holderIdentity') }, age],
  },
  {
    ...empty,
    group: 'apps',
    name: 'deployments',
    singular: 'deployment',
    kind: 'Deployment',
    shortNames: ['deploy'],
    categories: ['all'],
    verbs: reading,
    columns: [
      name,
      { name: 'Ready', type: 'string', value: (object) => `${readyOf(object)}/${fieldAt(object, 'spec.replicas')}` },
      { name: 'Up-to-date', type: 'integer', value: (object) => fieldAt(object, 'status.updatedReplicas') ?? 0 },
      { name: 'Available', type: 'integer', value: (object) => fieldAt(object, 'status.availableReplicas') ?? 0 },
      age,
    ],
  },
  {
    ...empty,
    group: 'apps',
    name: 'replicasets',
    singular: 'replicaset',
    kind: 'ReplicaSet',
    shortNames: ['rs'],
    categories: ['all'],
    verbs: reading,
    columns: [
      name,
      { name: 'Desired', type: 'integer', value: (object) => fieldAt(object, 'spec.replicas') },
      { name: 'Current', type: 'integer', value: (object) => fieldAt(object, 'status.replicas') ?? 0 },
      { name: 'Ready', type: 'integer', value: readyOf },
      age,
    ],
  },
  review('authentication.k8s.io', 'SelfSubjectReview'),
  review('authorization.k8s.io', 'SelfSubjectAccessReview'),
  review('authorization.k8s.io', 'SelfSubjectRulesReview'),
]

/** A kind of which each object is a question, answered at its creation and never stored. */
function review(group: string, kind: string): Resource {
  const singular = kind.toLowerCase()
  const plural = `${singular}s`
  return { ...empty, group, name: plural, singular, kind, namespaced: false, verbs: ['create'], columns: [name] }
}

export function isReview(resource: Resource): boolean {
  return resource.verbs.length === 1 && resource.verbs[0] === 'create'
}

export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`
}

/** `pods` or `leases.coordination.k8s.io`, as error texts name it. */
export function qualifiedName(resource: Resource): string {
  return resource.group === '' ? resource.name : `${resource.name}.${resource.group}`
}

export function containersOf(pod: KubeObject): readonly { name: string }[] {
  const containers = fieldAt(pod, 'spec.containers')
  return Array.isArray(containers) ? (containers as { name: string }[]) : []
}

function readyOf(object: KubeObject): unknown {
  return fieldAt(object, 'status.readyReplicas') ?? 0
}

/** Returns the age as kubectl prints it: one unit, or two while the first is small. */
function ageOf(object: KubeObject, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(object.metadata.creationTimestamp ?? '')) / 1000))
  if (!Number.isFinite(seconds)) return '<unknown>'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`
}
