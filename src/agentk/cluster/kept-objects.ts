import { isDeepStrictEqual } from 'node:util'
import type { Refusal } from './object-list.ts'
import type { WatchSink } from './watch-sink.ts'

export interface KeptObjectsComponents<T> {
  /** undefined: not to be kept */
  readonly read: (object: unknown) => T | undefined
  /** something has changed, or all has been listed */
  readonly onChange: () => void
  readonly onEnded: (outcome: Refusal) => void
}

/** What is read of all objects of a collection. Until a list answers the last ones stay. */
export class KeptObjects<T extends { readonly key: string }> implements WatchSink {
  readonly #components: KeptObjectsComponents<T>
  #objects = new Map<string, T>()
  /** of the list that is being read */
  #listed: Map<string, T> | undefined
  #isSynced = false

  constructor(components: KeptObjectsComponents<T>) {
    this.#components = components
  }

  /** By key; those of the last answer while the API server is away. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects
  }

  /** All objects have been listed once. */
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
    // most changes are of what is not read
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
