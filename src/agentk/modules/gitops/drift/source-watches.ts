import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { type IgnoreRules, ignoredFields, readRules } from '../apply/ignored-fields.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { readLiveObjects } from '../live/read-live.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { CollectionReader, DriftWatches, WatchedCollection } from './drift-watches.ts'

/** Pause between reads of a collection that is not watched: it is not allowed, or beyond the limit. ms */
const pollMs = 60_000

export interface SourceWatchesComponents {
  readonly watches: Pick<DriftWatches, 'follow'>
  readonly client: WatchedCollection['client']
  /** acts as the source's account; all other requests go first */
  readonly lane: ApiLane
  /** takes metadata from a watch. @param live - returns them as a round reads them */
  readonly seen: (key: ObjectKey, object: KubernetesObject, live: () => LiveObject) => void
  /** takes metadata that were read */
  readonly read: (key: ObjectKey, live: LiveObject) => void
  /** takes an object that is gone, that has lost the source's label, or whose kind nobody serves */
  readonly left: (key: ObjectKey) => void
  /** called when `unwatched` may have changed */
  readonly onUnwatched: () => void
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
}

/** Follows the metadata of one source's objects, by watches, or by reads where it may not watch. */
export class SourceWatches {
  readonly #components: SourceWatchesComponents
  readonly #options: SourceOptions
  readonly #signal: AbortSignal
  /** by path */
  readonly #collections = new Map<string, SourceCollection>()

  constructor(components: SourceWatchesComponents, options: SourceOptions, signal: AbortSignal) {
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
    const wanted = new Map<string, { kind: ClusterKind; entries: InventoryEntry[] }>()
    for (const entry of entries) {
      if (entry.digest === '') continue
      const kind = kinds.find(entry.key, entry.version)
      if (!kind) {
        this.#components.left(entry.key) // nobody can watch it: the comparison says that its version is not served
        continue
      }
      const path = collectionPath(kind, namespaces ? entry.key.namespace : '')
      const collection = wanted.get(path)
      if (collection) collection.entries.push(entry)
      else wanted.set(path, { kind, entries: [entry] })
    }
    for (const [path, collection] of this.#collections) {
      if (wanted.has(path)) continue
      this.#collections.delete(path)
      collection.stop()
    }
    for (const [path, { kind, entries: own }] of wanted) {
      let collection = this.#collections.get(path)
      if (!collection) {
        collection = new SourceCollection(this.#components, { path, kind, signal: this.#signal }, this.#options)
        this.#collections.set(path, collection)
      }
      collection.update(own, kinds)
    }
  }

  stop(): void {
    for (const collection of this.#collections.values()) collection.stop()
    this.#collections.clear()
  }
}

/** Statuses of a collection that may not be listed or watched, does not exist, or does not offer it. */
const refusals: ReadonlySet<number> = new Set([403, 404, 405])

/** @param status - 0: no answer */
function refusalText(status: number): string {
  if (status === 0) return 'the API server does not answer'
  const does = refusals.has(status) ? 'refuses to list or watch it' : 'cannot list or watch it now'
  return `the API server ${does} (${status})`
}

/** Objects of one source in one collection. */
class SourceCollection implements CollectionReader {
  readonly source: string
  readonly #components: SourceWatchesComponents
  readonly #of: { readonly path: string; readonly kind: ClusterKind; readonly signal: AbortSignal }
  readonly #options: SourceOptions
  readonly #rules: IgnoreRules
  /** by `keyText` */
  #entries: ReadonlyMap<string, InventoryEntry> = new Map()
  #kinds: ClusterKinds | undefined
  /** objects of the present list, by `keyText`; undefined: none is read */
  #listed: Set<string> | undefined
  #stopWatch: (() => void) | undefined
  #stopPoll: (() => void) | undefined
  /** why it is read; undefined: it is watched */
  #reason: string | undefined
  #isStopped = false

  constructor(
    components: SourceWatchesComponents,
    of: { readonly path: string; readonly kind: ClusterKind; readonly signal: AbortSignal },
    options: SourceOptions,
  ) {
    this.source = options.id
    this.#components = components
    this.#of = of
    this.#options = options
    this.#rules = readRules(options.drift.ignore, options.manager)
  }

  get unwatched(): string | undefined {
    return this.#reason && `${this.#of.kind.kind}: ${this.#reason}`
  }

  update(entries: readonly InventoryEntry[], kinds: ClusterKinds): void {
    const isFirst = this.#kinds === undefined
    this.#entries = new Map(entries.map((entry) => [keyText(entry.key), entry]))
    this.#kinds = kinds
    if (isFirst) this.#follow()
  }

  stop(): void {
    this.#isStopped = true
    this.#stopWatch?.()
    this.#stopPoll?.()
  }

  #follow(): void {
    const { watches, client } = this.#components
    const { serviceAccount } = this.#options.accessAs ?? {}
    const account = serviceAccount ? `${serviceAccount.namespace}/${serviceAccount.name}` : ''
    this.#stopWatch = watches.follow({ client, account, path: this.#of.path }, this)
    if (!this.#stopWatch) this.#readFor('agentk has as many watches as it may have')
  }

  /** Reads the collection from now on. */
  #readFor(reason: string): void {
    if (!this.#stopPoll) this.#poll()
    this.#because(reason)
  }

  #because(reason: string | undefined): void {
    if (this.#reason === reason) return
    this.#reason = reason
    this.#components.onUnwatched()
  }

  seen(object: KubernetesObject): void {
    const key = this.#keyOf(object)
    this.#listed?.add(keyText(key))
    const { manager } = this.#options
    this.#components.seen(key, object, () => liveObjectOf(object, manager, ignoredFields(this.#rules, { key })))
  }

  left(object: KubernetesObject): void {
    this.#components.left(this.#keyOf(object))
  }

  listing(): void {
    this.#listed = new Set()
  }

  listed(): void {
    const listed = this.#listed
    this.#listed = undefined
    for (const [text, { key }] of this.#entries) if (!listed?.has(text)) this.#components.left(key)
  }

  /** A watch that goes on where it was cut begins without a list. */
  following(): void {
    this.#stopPoll?.()
    this.#stopPoll = undefined
    this.#because(undefined)
  }

  refused(status: number): void {
    this.#listed = undefined
    this.#readFor(refusalText(status))
  }

  #poll(): void {
    const { clock, random } = this.#components
    this.#stopPoll = clock.after(pollMs * (0.8 + 0.4 * random()), () => {
      void this.#read().finally(() => {
        if (!this.#isStopped && this.#stopPoll) this.#poll()
      })
    })
  }

  /** Reads the metadata of the objects, as a round does. */
  async #read(): Promise<void> {
    const { lane, log, read, left } = this.#components
    const entries = [...this.#entries.values()]
    try {
      const kinds = this.#kinds as ClusterKinds
      const { objects } = await readLiveObjects(entries, { lane, kinds }, this.#options, this.#of.signal)
      if (this.#isStopped) return
      for (const { key } of entries) {
        const live = objects.get(keyText(key))
        if (live) read(key, live)
        else if (live === undefined) left(key) // null: it cannot be read now
      }
    } catch (error) {
      if (this.#of.signal.aborted) return
      log.warn({ source: this.source, reason: errorText(error) }, 'Objects cannot be compared with Git')
    }
  }

  #keyOf(object: KubernetesObject): ObjectKey {
    const { group, kind } = this.#of.kind
    return { group, kind, namespace: textAt(object, 'metadata.namespace'), name: textAt(object, 'metadata.name') }
  }
}
