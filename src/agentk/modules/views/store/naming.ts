import type { Reference } from '../projection/projector.ts'
import { Multimap } from './multimap.ts'
import type { ObjectRecord } from './record.ts'

// joined, it takes the room of one text: a template's result stays beside its parts
const placeOf = (kind: string, namespace: string, name: string) => [kind, namespace, name].join('\n')

/** Which objects name another, or run on it. What many name alike is kept once, by the list that they share. */
export class Naming {
  readonly #byNode = new Multimap<string, string>()
  /** lists of references by what they name */
  readonly #lists = new Multimap<string, readonly Reference[]>()
  readonly #byList = new Multimap<readonly Reference[], string>()

  add({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.add(node, uid)
    if (references.length === 0) return
    const isKnown = this.#byList.has(references)
    this.#byList.add(references, uid)
    if (isKnown) return
    for (const { kind, namespace, name } of references) this.#lists.add(placeOf(kind, namespace, name), references)
  }

  delete({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.delete(node, uid)
    if (!this.#byList.has(references)) return
    this.#byList.delete(references, uid)
    if (this.#byList.has(references)) return
    for (const { kind, namespace, name } of references) this.#lists.delete(placeOf(kind, namespace, name), references)
  }

  *of(kind: string, namespace: string, name: string): Iterable<string> {
    if (kind === 'Node') yield* this.#byNode.get(name)
    for (const list of this.#lists.get(placeOf(kind, namespace, name))) yield* this.#byList.get(list)
  }
}
