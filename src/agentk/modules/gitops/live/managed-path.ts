import { field } from '../../../../kubernetes/object.ts'
import { escapedJson } from '../../../../lib/printable.ts'

/**
 * Path of a field by its elements in FieldsV1. `f:spec` is a field, `k:{"name":"web"}` an item of a list by its keys,
 * `v:"x"` an item of a set, and `i:0` an index. Empty: the object itself.
 */
export type ManagedPath = readonly string[]

/** Limit of the levels of FieldsV1 that are read one by one: anybody who may write an object can forge deeper ones. */
export const maxPathDepth = 100
/** Limit of the names in one key of a list: kinds of Kubernetes have up to two. Forged keys may have more. */
const maxKeyNames = 8
/** Limit of the sets of names by which one list is indexed: a list has one. Forged keys may have more. */
const maxIndexes = 4

/**
 * Formats a path as the API server names fields in conflicts: `.spec.template.spec.containers[name="app"].image`.
 * Unprintable characters are escaped as in JSON.
 */
export function pathText(path: ManagedPath): string {
  return escapedJson(path.map(elementText).join(''))
}

function elementText(element: string): string {
  const content = element.slice(2)
  if (element.startsWith('f:')) return `.${content}`
  if (element.startsWith('v:')) return `[=${content}]`
  const key = keyOf(element)
  if (!key) return `[${content}]`
  const parts = Object.entries(key).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  return `[${parts.join(',')}]`
}

/** Returns the keys of an item: `{ name: 'web' }` of `k:{"name":"web"}`. @returns undefined: it is no such element */
export function keyOf(element: string): Readonly<Record<string, unknown>> | undefined {
  const key = element.startsWith('k:') ? parsed(element.slice(2)) : undefined
  return typeof key === 'object' && key !== null && !Array.isArray(key) ? (key as Record<string, unknown>) : undefined
}

/** @returns undefined: it is no JSON */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined // a forged element: nothing in the object has this name
  }
}

/** Items of a list that have the same of the names of a key. */
interface KeyIndex {
  readonly names: readonly string[]
  /** by the JSON of the values of these names */
  readonly places: Map<string, number[]>
}

/** Finds items of one list by elements of a path. It indexes the list once. */
class ListItems {
  readonly #list: readonly unknown[]
  /** by the names of a key */
  readonly #indexes = new Map<string, readonly KeyIndex[]>()
  #values: ReadonlyMap<string, readonly number[]> | undefined

  constructor(list: readonly unknown[]) {
    this.#list = list
  }

  /** Returns the places of the items; none: it has no such item. A list may have several items with one key. */
  find(element: string): readonly number[] {
    if (element.startsWith('i:')) {
      const place = Number(element.slice(2))
      return Number.isInteger(place) && place >= 0 && place < this.#list.length ? [place] : []
    }
    if (element.startsWith('v:')) {
      this.#values ??= placesBy(this.#list, JSON.stringify)
      return this.#values.get(JSON.stringify(parsed(element.slice(2)))) ?? []
    }
    const key = keyOf(element)
    const names = Object.keys(key ?? {})
    if (!key || names.length === 0 || names.length > maxKeyNames) return []
    for (const { names: present, places } of this.#indexesOf(names)) {
      const found = places.get(JSON.stringify(present.map((name) => key[name])))
      if (found) return found
    }
    return []
  }

  /**
   * Returns indexes of the items, those with the most names first. A manifest may leave out a name of the key that has
   * a default.
   */
  #indexesOf(names: readonly string[]): readonly KeyIndex[] {
    const form = JSON.stringify(names)
    const known = this.#indexes.get(form)
    if (known || this.#indexes.size >= maxIndexes) return known ?? []
    const byNames = new Map<string, KeyIndex>()
    for (const [place, item] of this.#list.entries()) {
      const present = names.filter((name) => field(item, name) !== undefined)
      if (present.length === 0) continue
      const text = JSON.stringify(present)
      const index = byNames.get(text) ?? { names: present, places: new Map() }
      byNames.set(text, index)
      addTo(index.places, JSON.stringify(present.map((name) => field(item, name))), place)
    }
    const indexes = [...byNames.values()].sort((one, other) => other.names.length - one.names.length)
    this.#indexes.set(form, indexes)
    return indexes
  }
}

function placesBy(list: readonly unknown[], textOf: (item: unknown) => string): ReadonlyMap<string, readonly number[]> {
  const places = new Map<string, number[]>()
  for (const [place, item] of list.entries()) addTo(places, textOf(item), place)
  return places
}

function addTo(places: Map<string, number[]>, text: string, place: number): void {
  const known = places.get(text)
  if (known) known.push(place)
  else places.set(text, [place])
}

/** Reads values of one object by elements of FieldsV1. Each list in it is indexed once. */
export class FieldReader {
  readonly #lists = new Map<unknown, ListItems>()

  /** Returns the values of a field, or of the items with a key. @returns empty: there is none, or it is null */
  children(value: unknown, element: string): readonly unknown[] {
    if (!element.startsWith('f:')) return this.places(value, element).map((place) => (value as unknown[])[place])
    const found = field(value, element.slice(2))
    return found === undefined || found === null ? [] : [found]
  }

  /** Returns the places of the items of a list with a key, or with a value. */
  places(value: unknown, element: string): readonly number[] {
    if (!Array.isArray(value)) return []
    const items = this.#lists.get(value) ?? new ListItems(value)
    this.#lists.set(value, items)
    return items.find(element)
  }

  /** Returns the value at a path below `value`. @returns undefined: there is none. Items with one key are a list */
  at(value: unknown, path: ManagedPath): unknown {
    let found = value
    for (const element of path) {
      found = oneOf(this.children(found, element))
      if (found === undefined) return undefined
    }
    return found
  }
}

/** Returns the value, or the list of several. @returns undefined: there is none */
export function oneOf(values: readonly unknown[]): unknown {
  return values.length > 1 ? values : values[0]
}
