import type { Reference } from '../projection/projector.ts'
import type { ObjectRecord } from './record.ts'
import { UidIndex } from './uid-index.ts'

const placeOf = (kind: string, namespace: string, name: string) => `${kind}\n${namespace}\n${name}`

/** Which objects name another, or run on it. What many name alike is kept once, by the list that they share. */
export class Naming {
  readonly #byNode = new UidIndex()
  /** lists of references by what they name */
  readonly #lists = new Map<string, Set<readonly Reference[]>>()
  readonly #byList = new Map<readonly Reference[], Set<string>>()

  add({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.add(node, uid)
    if (references.length === 0) return
    const known = this.#byList.get(references)
    if (known) {
      known.add(uid)
      return
    }
    this.#byList.set(references, new Set([uid]))
    for (const { kind, namespace, name } of references) {
      const place = placeOf(kind, namespace, name)
      this.#lists.set(place, (this.#lists.get(place) ?? new Set()).add(references))
    }
  }

  delete({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.delete(node, uid)
    const known = this.#byList.get(references)
    if (!known?.delete(uid) || known.size > 0) return
    this.#byList.delete(references)
    for (const { kind, namespace, name } of references) {
      const place = placeOf(kind, namespace, name)
      const lists = this.#lists.get(place)
      lists?.delete(references)
      if (lists?.size === 0) this.#lists.delete(place)
    }
  }

  *of(kind: string, namespace: string, name: string): Iterable<string> {
    if (kind === 'Node') yield* this.#byNode.get(name)
    for (const list of this.#lists.get(placeOf(kind, namespace, name)) ?? []) yield* this.#byList.get(list) ?? []
  }
}
