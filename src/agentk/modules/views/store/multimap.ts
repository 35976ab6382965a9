/** An array of up to so many values takes half the memory of a set, and is searched as fast. */
const maxFew = 16

/** Array that is never changed, only replaced. */
class Few<Value> {
  readonly values: readonly Value[]

  constructor(values: readonly Value[]) {
    this.values = values
  }
}

/** Several values for each key, each once, in order. Most keys have few. */
export class Multimap<Key, Value extends string | object> {
  readonly #byKey = new Map<Key, Value | Few<Value> | Set<Value>>()

  /** Number of keys that have values. */
  get size(): number {
    return this.#byKey.size
  }

  has(key: Key): boolean {
    return this.#byKey.has(key)
  }

  get(key: Key): Iterable<Value> {
    const known = this.#byKey.get(key)
    if (known === undefined) return []
    if (known instanceof Set) return known
    return known instanceof Few ? known.values : [known]
  }

  add(key: Key, value: Value): void {
    const known = this.#byKey.get(key)
    if (known === undefined) this.#byKey.set(key, value)
    else if (known instanceof Set) known.add(value)
    else this.#extend(key, known instanceof Few ? known.values : [known], value)
  }

  #extend(key: Key, known: readonly Value[], value: Value): void {
    if (known.includes(value)) return
    const values = known.concat([value]) // without room to spare, which a spread has
    this.#byKey.set(key, values.length > maxFew ? new Set(values) : new Few(values))
  }

  delete(key: Key, value: Value): void {
    const known = this.#byKey.get(key)
    if (known instanceof Set) {
      known.delete(value)
      if (known.size === 0) this.#byKey.delete(key)
    } else if (known instanceof Few) {
      const [first, ...others] = known.values.filter((one) => one !== value)
      if (first !== undefined) this.#byKey.set(key, others.length > 0 ? new Few([first, ...others]) : first)
    } else if (known === value) this.#byKey.delete(key)
  }
}
