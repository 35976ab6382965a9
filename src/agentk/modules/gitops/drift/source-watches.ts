import { collectionPath } from '../../../../kubernetes/path.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import type { WatchedList } from '../live/read-live.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { SourceCollection, type SourceCollectionComponents } from './source-collection.ts'

/** Follows the metadata of one source's objects, by watches, or by reads where it may not watch. */
export class SourceWatches {
  readonly #components: SourceCollectionComponents
  readonly #options: SourceOptions
  readonly #signal: AbortSignal
  /** by path */
  readonly #collections = new Map<string, SourceCollection>()

  constructor(components: SourceCollectionComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
    signal.addEventListener('abort', () => this.stop(), { once: true })
  }

  /** Kinds with collections that are read each minute and not watched, each with the reason: `Pod: …`. */
  get unwatched(): readonly string[] {
    const texts = [...this.#collections.values()].flatMap(({ unwatched }) => unwatched ?? [])
    return [...new Set(texts)].sort()
  }

  /** Follows the collections of these entries, and no others. */
  update(entries: Iterable<InventoryEntry>, kinds: ClusterKinds): void {
    if (this.#signal.aborted) return
    const { namespaces } = this.#options
    const wanted = new Map<string, { kind: ClusterKind; namespace: string; entries: InventoryEntry[] }>()
    for (const entry of entries) {
      if (entry.digest === '') continue
      const kind = kinds.find(entry.key, entry.version)
      if (!kind) {
        this.#components.suspected(entry.key) // nobody can watch it: the comparison says that its version is not served
        continue
      }
      const namespace = namespaces ? entry.key.namespace : ''
      const path = collectionPath(kind, namespace)
      const collection = wanted.get(path)
      if (collection) collection.entries.push(entry)
      else wanted.set(path, { kind, namespace, entries: [entry] })
    }
    for (const [path, collection] of this.#collections) {
      if (wanted.has(path)) continue
      this.#collections.delete(path)
      collection.stop()
    }
    for (const [path, { kind, namespace, entries: own }] of wanted) {
      let collection = this.#collections.get(path)
      if (!collection) {
        const of = { path, kind, namespace, signal: this.#signal }
        collection = new SourceCollection(this.#components, of, this.#options)
        this.#collections.set(path, collection)
      }
      collection.update(own, kinds)
    }
  }

  /**
   * As `update`, for the first round of a term, which reads the objects from the first lists of the watches.
   *
   * @returns undefined: it is to list them. A source with namespaces has a watch for each, and other lists
   */
  begin(entries: Iterable<InventoryEntry>, kinds: ClusterKinds): WatchedList | undefined {
    if (this.#options.namespaces || this.#signal.aborted) return undefined
    this.update(entries, kinds)
    const lists = new Map(Array.from(this.#collections.values(), (one) => [one.kind, one.firstList()] as const))
    return async (kind, onObject, signal) => {
      const objects = await abortable(lists.get(kind) ?? Promise.resolve(undefined), signal)
      for (const { key, live } of objects?.values() ?? []) onObject(key, live)
      return objects !== undefined
    }
  }

  stop(): void {
    for (const collection of this.#collections.values()) collection.stop()
    this.#collections.clear()
  }
}
