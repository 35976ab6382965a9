import { isDeepStrictEqual } from 'node:util'
import type { Refusal } from './object-list.ts'
import type { WatchSink } from './watch-sink.ts'

export interface KeptObjectsComponents<T> {
  /** returns the part of an object to keep; undefined: the object is not kept */
  readonly read: (object: unknown) => T | undefined
  /** called when something has changed, or all objects have been listed */
  readonly onChange: () => void
  readonly onEnded: (outcome: Refusal) => void
}

/** Keeps a part of each object of a collection. Until a new list is complete the last objects stay. */
export class KeptObjects<T extends { readonly key: string }> implements WatchSink {
  readonly #components: KeptObjectsComponents<T>
  #objects = new Map<string, T>()
  /** objects of the list that is being read; undefined: there is none */
  #listed: Map<string, T> | undefined
  #isSynced = false

  constructor(components: KeptObjectsComponents<T>) {
    this.#components = components
  }

  /** Objects by key. While the API server is away they are those of its last answer. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects
  }

  /** True once all objects have been listed. */
  get isSynced(): boolean {
    return this.#isSynced
  }

  listing(): void {
    this.#listed = new Map()
  }

  put(object: unknown): void {
    const found = this.#components.read(object)
    if (!found) return
    const objects = this.#listed ?? this.#objects
    const known = objects.get(found.key)
    objects.set(found.key, found)
    // most changes are in fields that are not read
    if (!this.#listed && !isDeepStrictEqual(known, found)) this.#components.onChange()
  }

  deleted(object: unknown): void {
    const found = this.#components.read(object)
    if (!found) return
    const objects = this.#listed ?? this.#objects
    objects.delete(found.key)
    if (!this.#listed) this.#components.onChange()
  }

  leftOut(): void {}

  listed(): void {
    this.#objects = this.#listed ?? this.#objects
    this.#listed = undefined
    this.#isSynced = true
    this.#components.onChange()
  }

  following(): void {}

  ended(outcome: Refusal): void {
    this.#components.onEnded(outcome)
  }
}
