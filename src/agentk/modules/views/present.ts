import type { ResourceKind } from '../../cluster/api-kinds.ts'

interface Counted {
  kind: ResourceKind
  /** objects, by namespace; 0: none, and yet it is of interest */
  readonly namespaces: Map<string, number>
}

/** Which kinds there are in which namespaces: what there is to ask about. */
export class Present {
  readonly #kinds = new Map<string, Counted>()
  readonly #listeners = new Set<() => void>()

  kinds(): Iterable<{ readonly kind: ResourceKind; readonly namespaces: ReadonlyMap<string, number> }> {
    return this.#kinds.values()
  }

  /** Called when there is more to ask about, until the returned function is called. */
  onMore(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  namespacesOf(kind: ResourceKind): Iterable<string> {
    return this.#kinds.get(kind.key)?.namespaces.keys() ?? []
  }

  /** There is an object of it. */
  add(kind: ResourceKind, namespace: string): void {
    this.note(kind, namespace)
    const { namespaces } = this.#kinds.get(kind.key) as Counted
    namespaces.set(namespace, (namespaces.get(namespace) ?? 0) + 1)
  }

  /** It is of interest, though there may be none of it. @param namespace - undefined: of the kind alone */
  note(kind: ResourceKind, namespace?: string): void {
    const known = this.#kinds.get(kind.key)
    const isNew = !known || (namespace !== undefined && !known.namespaces.has(namespace))
    const counted = known ?? { kind, namespaces: new Map() }
    counted.kind = kind
    if (!isNew) return
    this.#kinds.set(kind.key, counted)
    if (namespace !== undefined) counted.namespaces.set(namespace, 0)
    for (const listener of this.#listeners) listener()
  }

  /** One object fewer. */
  delete(kind: ResourceKind, namespace: string): void {
    const namespaces = this.#kinds.get(kind.key)?.namespaces
    const count = (namespaces?.get(namespace) ?? 0) - 1
    if (count > 0) namespaces?.set(namespace, count)
    else namespaces?.delete(namespace)
  }
}
