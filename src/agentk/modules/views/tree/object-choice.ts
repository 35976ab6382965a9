import { type KindWord, kindWord } from '../../../../kubernetes/kind-words.ts'
import type { QueryObject } from '../../../../proto/views-json.ts'
import type { ObjectRecord } from '../store/record.ts'

/** Word of a query for a kind, and the namespaces in which it is asked for. */
export interface WordPlaces {
  readonly word: KindWord
  /** undefined: any namespace */
  readonly namespaces: ReadonlySet<string> | undefined
}

type Named = Pick<ObjectRecord, 'kind' | 'namespace' | 'name' | 'generation'>

interface Chosen {
  /** least generation by `<namespace>/<name>`; either may be empty: any */
  readonly least: ReadonlyMap<string, number>
}

/** Objects that a query names, by words for their kinds. */
export class ObjectChoice {
  readonly places: readonly WordPlaces[]
  readonly #objects: readonly (QueryObject & { readonly word: KindWord })[]
  readonly #byKind = new WeakMap<ObjectRecord['kind'], Chosen>()

  constructor(objects: readonly QueryObject[]) {
    const words = new Map(objects.map(({ kind }) => [kind, kindWord(kind)]))
    this.#objects = objects.map((object) => ({ ...object, word: words.get(object.kind) as KindWord }))
    this.places = [...words.values()].map((word) => {
      const places = this.#objects.filter((object) => object.word === word).map(({ namespace }) => namespace)
      const isAnywhere = places.some((namespace) => !namespace)
      return { word, namespaces: isAnywhere ? undefined : new Set(places as string[]) }
    })
  }

  /** True if the query names the object. One of an older generation than asked for does not count yet. */
  has({ kind, namespace, name, generation }: Named): boolean {
    const { least } = this.#of(kind)
    const isNew = (key: string) => generation === 0 || generation >= (least.get(key) as number)
    return [`${namespace}/${name}`, `/${name}`, `${namespace}/`, '/'].some((key) => least.has(key) && isNew(key))
  }

  #of(kind: ObjectRecord['kind']): Chosen {
    const known = this.#byKind.get(kind)
    if (known) return known
    const least = new Map<string, number>()
    for (const { word, namespace = '', name = '', generation = 0 } of this.#objects) {
      if (word.names(kind)) least.set(`${kind.isNamespaced ? namespace : ''}/${name}`, generation)
    }
    const chosen = { least }
    this.#byKind.set(kind, chosen)
    return chosen
  }
}
