import { Counter } from '../../../../lib/counter.ts'
import type { ObjectRecord } from './record.ts'

type Names = Map<string, string>
type Place = Pick<ObjectRecord, 'uid' | 'name' | 'namespace' | 'kind'>

/** Where objects are: uids by kind, namespace and name. Kinds are `group/Kind`. */
export class Places {
  readonly #kinds = new Map<string, Map<string, Names>>()
  readonly #sizes = new Counter<string>()

  /** Objects of each kind of which there are any. */
  get sizes(): ReadonlyMap<string, number> {
    return this.#sizes.counts
  }

  find(kind: string, namespace: string, name: string): string | undefined {
    return this.#kinds.get(kind)?.get(namespace)?.get(name)
  }

  /** @param namespace - absent: in all */
  *uids(kind: string, namespace: string | undefined): Iterable<string> {
    const namespaces = this.#kinds.get(kind)
    if (namespace !== undefined) yield* namespaces?.get(namespace)?.values() ?? []
    else for (const names of namespaces?.values() ?? []) yield* names.values()
  }

  /** Of each kind in each namespace: uids by name. */
  *all(): Iterable<readonly [namespace: string, uids: ReadonlyMap<string, string>]> {
    for (const namespaces of this.#kinds.values()) yield* namespaces
  }

  add({ uid, name, namespace, kind: { key } }: Place): void {
    const namespaces = this.#kinds.get(key) ?? new Map<string, Names>()
    const names: Names = namespaces.get(namespace) ?? new Map()
    this.#kinds.set(key, namespaces.set(namespace, names.set(name, uid)))
    this.#sizes.add(key)
  }

  delete({ name, namespace, kind: { key } }: Place): void {
    const namespaces = this.#kinds.get(key)
    const names = namespaces?.get(namespace)
    if (!namespaces || !names?.delete(name)) return
    if (names.size === 0) namespaces.delete(namespace)
    if (namespaces.size === 0) this.#kinds.delete(key)
    this.#sizes.add(key, -1)
  }
}
