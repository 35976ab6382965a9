import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import { WatchLists } from '../../../cluster/watch-lists.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { inventoryLabel } from '../manifests/annotations.ts'

/** Limit of collections that an agent watches for drift: ten kinds in ten namespaces, with a connection each. */
const maxWatches = 100
/** objects in a page: some 2 KiB of metadata each */
const pageSize = 500
/** Sources that come within this time share one new list of a collection. ms */
const joinMs = 1000

export interface DriftWatchesComponents {
  readonly clock: Clock
  readonly random: () => number
}

/** One source's interest in a collection. */
export interface CollectionReader {
  /** id of the source: the value of its label */
  readonly source: string
  /** True for an object of the source, whatever its label says. */
  keeps(object: KubernetesObject): boolean
  /** Takes the metadata of an object with the source's label, or of one that it keeps. */
  seen(object: KubernetesObject): void
  /** Takes the metadata of an object that is deleted, or has lost the label. */
  left(object: KubernetesObject): void
  /** Called after a list, which has shown all objects that exist. */
  listed(): void
  /** Called when a list begins. */
  listing(): void
  /** The watch is open: changes are reported from now on. */
  following(): void
  /** The collection cannot be watched now. Called for each failure. @param status - of the refusal; 0: no answer */
  refused(status: number): void
}

/** Collection of one kind, as one account sees it. */
export interface WatchedCollection {
  /** acts as the account */
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** name of the account; empty: agentk's own */
  readonly account: string
  /** `/apis/apps/v1/deployments` */
  readonly path: string
}

/**
 * Watches of metadata for all sources of an agent. Sources that act as the same account share the watch of a
 * collection. Each object goes to the source whose label it has, and to sources whose label somebody has changed.
 */
export class DriftWatches {
  readonly #components: CollectionComponents
  readonly #collections = new Map<string, Collection>()
  readonly #open = new Counter<string>({ max: maxWatches })

  constructor(components: DriftWatchesComponents) {
    this.#components = { ...components, watchLists: new WatchLists(components.clock) }
  }

  /** Number of open watches. */
  get size(): number {
    return this.#collections.size
  }

  /** True if sources watch the collection already. */
  isOpen({ account, path }: Pick<WatchedCollection, 'account' | 'path'>): boolean {
    return this.#collections.has(`${account} ${path}`)
  }

  /**
   * Watches a collection until the returned function is called.
   *
   * @returns undefined: the limit of watches is reached
   */
  follow(watched: WatchedCollection, reader: CollectionReader): (() => void) | undefined {
    const name = `${watched.account} ${watched.path}`
    let collection = this.#collections.get(name)
    if (!collection) {
      const close = this.#open.enter(name)
      if (!close) return undefined
      collection = new Collection(this.#components, watched, () => {
        this.#collections.delete(name)
        close()
      })
      this.#collections.set(name, collection)
    }
    return collection.add(reader)
  }
}

interface CollectionComponents extends DriftWatchesComponents {
  /** a list is the begin of a watch: one call for both, and no page of objects in memory */
  readonly watchLists: WatchLists
}

/** Watch of one collection, for the sources that have objects in it. */
class Collection implements WatchSink {
  readonly #readers = new Map<string, CollectionReader>()
  readonly #onEnd: () => void
  readonly #components: CollectionComponents
  readonly #watched: WatchedCollection
  #ended = new AbortController()
  #cancelJoin: (() => void) | undefined
  #isListing = false

  constructor(components: CollectionComponents, watched: WatchedCollection, onEnd: () => void) {
    this.#components = components
    this.#watched = watched
    this.#onEnd = onEnd
    this.#begin()
  }

  /** Adds a source. It gets all objects of the collection from a new list. */
  add(reader: CollectionReader): () => void {
    const isFirst = this.#readers.size === 0
    this.#readers.set(reader.source, reader)
    if (!isFirst) this.#join()
    return () => {
      if (this.#readers.get(reader.source) !== reader) return
      this.#readers.delete(reader.source)
      if (this.#readers.size > 0) return
      this.#end()
      this.#onEnd()
    }
  }

  #join(): void {
    this.#cancelJoin ??= this.#components.clock.after(joinMs, () => this.#begin())
  }

  #end(): void {
    this.#cancelJoin?.()
    this.#cancelJoin = undefined
    this.#ended.abort(new KasError({ code: 'CANCELLED', detail: 'no source has objects there' }))
  }

  /** Begins with a list. */
  #begin(): void {
    this.#end()
    this.#ended = new AbortController()
    const { client, path } = this.#watched
    const watched = withQuery(path, { labelSelector: inventoryLabel })
    const components = { client, sink: this, ...this.#components }
    const watch = new ObjectWatch(components, { path: watched, pageSize, isMetadata: true, resumes: true })
    void watch.run(this.#ended.signal)
  }

  put(object: unknown): void {
    for (const reader of this.#readersOf(object as KubernetesObject)) reader.seen(object as KubernetesObject)
  }

  deleted(object: unknown): void {
    for (const reader of this.#readersOf(object as KubernetesObject)) reader.left(object as KubernetesObject)
  }

  listing(): void {
    this.#isListing = true
    for (const reader of this.#readers.values()) reader.listing()
  }

  listed(): void {
    this.#isListing = false
    for (const reader of this.#readers.values()) reader.listed()
  }

  ended({ status }: { status: number }): void {
    this.#isListing = false
    if (status === 200 || status === 410) return
    for (const reader of this.#readers.values()) reader.refused(status)
  }

  leftOut(): void {}

  following(isOpen: boolean): void {
    if (isOpen) for (const reader of this.#readers.values()) reader.following()
  }

  /** Returns the readers of an object. After a list each source knows which of its objects lack the label. */
  #readersOf(object: KubernetesObject): readonly CollectionReader[] {
    const labelled = this.#readers.get(entryAt(object, 'metadata.labels', inventoryLabel))
    const others = this.#isListing ? [] : [...this.#readers.values()].filter((one) => one !== labelled)
    return [...(labelled ? [labelled] : []), ...others.filter((one) => one.keeps(object))]
  }
}
