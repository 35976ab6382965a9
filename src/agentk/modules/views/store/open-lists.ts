import type { ResourceKind } from '../../../../kubernetes/kind.ts'

/** Lists that have begun and not ended, each with the earlier objects that it has not had again. */
export class OpenLists {
  /** by kind, then by namespace; undefined: all namespaces */
  readonly #unseen = new Map<string, Map<string | undefined, Set<string>>>()

  /**
   * Begins a list, or begins it again.
   *
   * @param uids - objects that are there
   */
  begin(kind: ResourceKind, namespace: string | undefined, uids: Iterable<string>): void {
    const lists = this.#unseen.get(kind.key) ?? new Map<string | undefined, Set<string>>()
    this.#unseen.set(kind.key, lists.set(namespace, new Set(uids)))
  }

  see(kind: ResourceKind, namespace: string, uid: string): void {
    const lists = this.#unseen.get(kind.key)
    lists?.get(undefined)?.delete(uid)
    lists?.get(namespace)?.delete(uid)
  }

  /** @returns objects that were there before, and were not in the list */
  end(kind: ResourceKind, namespace: string | undefined): Iterable<string> {
    const lists = this.#unseen.get(kind.key)
    const unseen = lists?.get(namespace) ?? []
    lists?.delete(namespace)
    if (lists?.size === 0) this.#unseen.delete(kind.key)
    return unseen
  }

  /** @param namespace - undefined: all lists of the kind */
  forget(kind: ResourceKind, namespace: string | undefined): void {
    if (namespace === undefined) this.#unseen.delete(kind.key)
    else this.end(kind, namespace)
  }
}
