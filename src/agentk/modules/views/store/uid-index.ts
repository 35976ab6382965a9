/** Uids by a key that many of them may share; of most keys there is one. */
export class UidIndex {
  readonly #byKey = new Map<string, string | Set<string>>()

  add(key: string, uid: string): void {
    const known = this.#byKey.get(key)
    if (known === undefined) this.#byKey.set(key, uid)
    else if (typeof known !== 'string') known.add(uid)
    else if (known !== uid) this.#byKey.set(key, new Set([known, uid]))
  }

  delete(key: string, uid: string): void {
    const known = this.#byKey.get(key)
    if (known === uid) this.#byKey.delete(key)
    if (!(known instanceof Set)) return
    known.delete(uid)
    if (known.size === 0) this.#byKey.delete(key)
  }

  get(key: string): Iterable<string> {
    const known = this.#byKey.get(key)
    return known === undefined ? [] : typeof known === 'string' ? [known] : known
  }

  has(key: string): boolean {
    return this.#byKey.has(key)
  }

  get size(): number {
    return this.#byKey.size
  }
}
