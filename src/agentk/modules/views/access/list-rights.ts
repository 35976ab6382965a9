import { createHash } from 'node:crypto'
import { builtIn, type ResourceKind } from '../../../../kubernetes/kind.ts'
import type { Visibility } from '../store/record.ts'

export const eventKind: ResourceKind = { ...builtIn.events, key: 'Event', isNamespaced: true }
export const podKind: ResourceKind = { ...builtIn.pods, key: 'Pod', isNamespaced: true }
const core = { group: '', version: 'v1', isNamespaced: true }
/** Callers who may list one of these in a namespace may see the namespace's name. */
export const namingKinds: readonly ResourceKind[] = [
  podKind,
  { ...core, key: 'Service', plural: 'services' },
  { ...core, key: 'apps/Deployment', group: 'apps', plural: 'deployments' },
  { ...core, key: 'batch/Job', group: 'batch', plural: 'jobs' },
]

type Resource = Pick<ResourceKind, 'group' | 'plural'>

export function resourceKey({ group, plural }: Resource): string {
  return `${group}/${plural}`
}

/** Rights of one caller; never changed. Resources are keys of `resourceKey`. */
export class ListRights implements Visibility {
  readonly key: string
  readonly #all: boolean
  readonly #inCluster: ReadonlySet<string>
  /** namespaces by resource */
  readonly #inNamespaces: ReadonlyMap<string, ReadonlySet<string>>

  constructor(all: boolean, inCluster: ReadonlySet<string>, inNamespaces: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#all = all
    this.#inCluster = inCluster
    this.#inNamespaces = inNamespaces
    this.key = all ? '*' : keyOf(inCluster, inNamespaces)
  }

  mayList(resource: Resource, namespace: string): boolean {
    if (this.#all) return true
    const key = resourceKey(resource)
    return this.#inCluster.has(key) || (namespace !== '' && this.#inNamespaces.get(key)?.has(namespace) === true)
  }

  mayListWithin(resource: Resource, namespaces: ReadonlySet<string>): boolean {
    const key = resourceKey(resource)
    if (this.#all || this.#inCluster.has(key)) return namespaces.size > 0
    const allowed = this.#inNamespaces.get(key)
    return allowed !== undefined && !allowed.isDisjointFrom(namespaces)
  }

  mayListEvents(namespace: string): boolean {
    return this.mayList(eventKind, namespace)
  }

  mayName(namespace: string): boolean {
    if (this.mayList(builtIn.namespaces, '')) return true
    return namingKinds.some((kind) => this.mayList(kind, namespace))
  }
}

function keyOf(inCluster: ReadonlySet<string>, inNamespaces: ReadonlyMap<string, ReadonlySet<string>>): string {
  const namespaces = [...inNamespaces].map(([resource, set]) => [resource, ...[...set].sort()])
  namespaces.sort(([one = ''], [other = '']) => (one < other ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([[...inCluster].sort(), namespaces]))
    .digest('base64url')
}
