import { createHash } from 'node:crypto'
import type { ResourceKind } from '../../../cluster/api-kinds.ts'
import type { Visibility } from '../record.ts'

export const eventKind: ResourceKind = {
  key: 'Event',
  group: '',
  version: 'v1',
  plural: 'events',
  isNamespaced: true,
}

const core = { group: '', version: 'v1', isNamespaced: true }
/** Who may list one of these in a namespace knows of the namespace. */
export const namingKinds: readonly ResourceKind[] = [
  { ...core, key: 'Pod', plural: 'pods' },
  { ...core, key: 'Service', plural: 'services' },
  { ...core, key: 'apps/Deployment', group: 'apps', plural: 'deployments' },
  { ...core, key: 'batch/Job', group: 'batch', plural: 'jobs' },
]

/** Put together as answers are read, then never changed. */
export class ListRights implements Visibility {
  readonly key: string
  readonly #all: boolean
  /** in the whole cluster */
  readonly #kinds: ReadonlySet<string>
  /** namespaces by kind */
  readonly #namespaces: ReadonlyMap<string, ReadonlySet<string>>

  constructor(all: boolean, kinds: ReadonlySet<string>, namespaces: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#all = all
    this.#kinds = kinds
    this.#namespaces = namespaces
    this.key = keyOf(all, kinds, namespaces)
  }

  mayList(kind: Pick<ResourceKind, 'key'>, namespace: string): boolean {
    if (this.#all || this.#kinds.has(kind.key)) return true
    return namespace !== '' && this.#namespaces.get(kind.key)?.has(namespace) === true
  }

  mayListEvents(namespace: string): boolean {
    return this.mayList(eventKind, namespace)
  }

  mayName(namespace: string): boolean {
    if (this.mayList({ key: 'Namespace' }, '')) return true
    return namingKinds.some((kind) => this.mayList(kind, namespace))
  }
}

function keyOf(all: boolean, kinds: ReadonlySet<string>, namespaces: ReadonlyMap<string, ReadonlySet<string>>): string {
  if (all) return '*'
  const pairs = [...namespaces]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([kind, set]) => [kind, ...[...set].sort()])
  return createHash('sha256')
    .update(JSON.stringify([[...kinds].sort(), pairs]))
    .digest('base64url')
}
