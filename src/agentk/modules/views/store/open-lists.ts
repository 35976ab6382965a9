import type { ResourceKind } from '../../../../kubernetes/kind.ts'

/** Lists that have begun and not ended: of what was there before, what they have not had again. */
export class OpenLists {
  /** by kind, then by namespace; undefined: all */
  readonly #unseen = new Map<string, Map<string | undefined, Set<string>>>()

  /** One that has begun before begins anew. @param uids - what is there */
  begin(kind: ResourceKind, namespace: string | undefined, uids: Iterable<string>): void {
    const lists = this.#unseen.get(kind.key) ?? new Map<string | undefined, Set<string>>()
    this.#unseen.set(kind.key, lists.set(namespace, new Set(uids)))
  }

  see(kind: ResourceKind, namespace: string, uid: string): void {
    const lists = this.#unseen.get(kind.key)
    lists?.get(undefined)?.delete(uid)
    lists?.get(namespace)?.delete(uid)
  }

  /** @returns those that were there before, and have not been seen */
  end(kind: ResourceKind, namespace: string | undefined): Iterable<string> {
    const lists = this.#unseen.get(kind.key)
    const unseen = lists?.get(namespace) ?? []
    lists?.delete(namespace)
    if (lists?.size === 0) this.#unseen.delete(kind.key)
    return unseen
  }

  /** @param namespace - undefined: in all, and in each */
  forget(kind: ResourceKind, namespace: string | undefined): void {
    if (namespace === undefined) this.#unseen.delete(kind.key)
    else this.end(kind, namespace)
  }
}
