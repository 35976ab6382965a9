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

  /** Where there are objects of it. */
  *namespacesOf(kind: ResourceKind): Iterable<string> {
    for (const [namespace, count] of this.#kinds.get(kind.key)?.namespaces ?? []) if (count > 0) yield namespace
  }

  /** There is an object of it. @returns whether it is the only one there */
  add(kind: ResourceKind, namespace: string): boolean {
    this.note(kind, namespace)
    const { namespaces } = this.#kinds.get(kind.key) as Counted
    const count = (namespaces.get(namespace) ?? 0) + 1
    namespaces.set(namespace, count)
    return count === 1
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

  /** One object fewer. @returns whether it was the only one there */
  delete(kind: ResourceKind, namespace: string): boolean {
    const namespaces = this.#kinds.get(kind.key)?.namespaces
    const count = (namespaces?.get(namespace) ?? 0) - 1
    if (count > 0) namespaces?.set(namespace, count)
    else namespaces?.delete(namespace)
    return count <= 0
  }
}
