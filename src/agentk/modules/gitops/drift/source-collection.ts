import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
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
/** Limit of the wait of a round for the first list of a watch: after it the round lists. ms */
const firstListMs = 10_000

export interface SourceCollectionComponents {
  readonly watches: Pick<DriftWatches, 'follow' | 'isOpen'>
  readonly client: WatchedCollection['client']
  /** acts as the source's account; all other requests go first */
  readonly lane: ApiLane
  /** takes metadata from a watch, or a read. @param live - returns them as a round reads them */
  readonly seen: (key: ObjectKey, object: KubernetesObject, live: () => LiveObject) => void
  /** as `SourceDrift` */
  readonly seenFirst: (key: ObjectKey, object: KubernetesObject) => boolean
  /** takes an object that is gone, or has lost the source's label */
  readonly left: (key: ObjectKey) => void
  /** takes an object that is to be compared: nobody serves its kind, or its first metadata ask for it */
  readonly suspected: (key: ObjectKey) => void
  /** called when `unwatched` may have changed */
  readonly onUnwatched: () => void
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
}

/** Object in the first list of a watch. */
export interface FirstObject {
  readonly key: ObjectKey
  readonly live: LiveObject
  /** it is to be compared after the round */
  readonly isSuspect: boolean
}

/** First list of a watch, from which a round reads. */
interface FirstList {
  /** by `keyText` */
  readonly objects: Map<string, FirstObject>
  /** @param isComplete - false: the round lists */
  readonly end: (isComplete: boolean) => void
}

export interface CollectionOfSource {
  readonly path: string
  readonly kind: ClusterKind
  /** empty: all namespaces, or the cluster's scope */
  readonly namespace: string
  readonly signal: AbortSignal
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
export class SourceCollection implements CollectionReader {
  readonly source: string
  readonly #components: SourceCollectionComponents
  readonly #of: CollectionOfSource
  readonly #options: SourceOptions
  readonly #rules: IgnoreRules
  #entries: readonly InventoryEntry[] = []
  /** `keyText` of each */
  #texts: ReadonlySet<string> = new Set()
  #kinds: ClusterKinds | undefined
  /** objects of the present list, by `keyText`; undefined: none is read */
  #listed: Set<string> | undefined
  /** undefined: no round waits for it, or has read it */
  #first: FirstList | undefined
  /** objects as the round has read them from the first list; undefined: it has ended, or has listed */
  #read: ReadonlyMap<string, FirstObject> | undefined
  /** no other source watches the collection: its list begins at once */
  #isAlone = false
  #stopWatch: (() => void) | undefined
  #stopPoll: (() => void) | undefined
  /** why it is read; undefined: it is watched */
  #reason: string | undefined
  #isStopped = false

  constructor(components: SourceCollectionComponents, of: CollectionOfSource, options: SourceOptions) {
    this.source = options.id
    this.#components = components
    this.#of = of
    this.#options = options
    this.#rules = readRules(options.drift.ignore, options.manager)
  }

  get kind(): ClusterKind {
    return this.#of.kind
  }

  get unwatched(): string | undefined {
    return this.#reason && `${this.#of.kind.kind}: ${this.#reason}`
  }

  update(entries: readonly InventoryEntry[], kinds: ClusterKinds): void {
    const isFirst = this.#kinds === undefined
    this.#entries = entries
    this.#texts = new Set(this.#entries.map(({ key }) => keyText(key)))
    this.#kinds = kinds
    if (isFirst) this.#follow()
    else this.#compareRead()
  }

  /** Returns the objects in the first list of the watch that has begun; undefined: the round is to list them. */
  firstList(): Promise<ReadonlyMap<string, FirstObject> | undefined> {
    if (!this.#stopWatch || !this.#isAlone) return Promise.resolve(undefined)
    const objects = new Map<string, FirstObject>()
    return new Promise((resolve) => {
      const end = (isComplete: boolean) => {
        this.#first = undefined
        cancel()
        if (isComplete) this.#read = objects
        resolve(this.#read)
      }
      const cancel = this.#components.clock.after(firstListMs, () => end(false))
      this.#first = { objects, end }
    })
  }

  /** Compares objects that the round has read from the first list, where their metadata ask for it. */
  #compareRead(): void {
    const read = this.#read
    this.#read = undefined
    for (const { key, time, generation } of read ? this.#entries : []) {
      const found = read?.get(keyText(key))
      if (!found) continue
      const { live, isSuspect } = found
      // another time: the round has applied it
      const isMoved = time === live.fieldsTime && generation !== undefined && generation !== live.generation
      if (isSuspect || isMoved) this.#components.suspected(key)
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#first?.end(false)
    this.#stopWatch?.()
    this.#stopPoll?.()
  }

  #follow(): void {
    this.#watch()
    if (!this.#stopWatch) this.#readFor('agentk has as many watches as it may have')
  }

  /** Watches the collection if agentk may have one more watch. */
  #watch(): void {
    const { watches, client } = this.#components
    const { serviceAccount } = this.#options.accessAs ?? {}
    const account = serviceAccount ? `${serviceAccount.namespace}/${serviceAccount.name}` : ''
    if (this.#stopWatch) return
    const watched = { client, account, path: this.#of.path }
    this.#isAlone = !watches.isOpen(watched)
    this.#stopWatch = watches.follow(watched, this)
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

  keeps(object: KubernetesObject): boolean {
    return this.#texts.has(keyText(this.#keyOf(object)))
  }

  seen(object: KubernetesObject): void {
    const key = this.#keyOf(object)
    this.#listed?.add(keyText(key))
    const { seen, seenFirst } = this.#components
    const { manager } = this.#options
    const live = () => liveObjectOf(object, manager, ignoredFields(this.#rules, { key }))
    if (!this.#first) seen(key, object, live)
    else this.#first.objects.set(keyText(key), { key, live: live(), isSuspect: seenFirst(key, object) })
  }

  left(object: KubernetesObject): void {
    const key = this.#keyOf(object)
    this.#first?.objects.delete(keyText(key))
    this.#components.left(key)
  }

  listing(): void {
    this.#listed = new Set()
    this.#first?.objects.clear()
  }

  listed(): void {
    const listed = this.#listed
    this.#listed = undefined
    if (this.#first) {
      this.#first.end(true) // the round sees what is missing
      return
    }
    for (const { key } of this.#entries) if (!listed?.has(keyText(key))) this.#components.left(key)
  }

  /** A watch that goes on where it was cut begins without a list. */
  following(): void {
    this.#stopPoll?.()
    this.#stopPoll = undefined
    this.#because(undefined)
  }

  refused(status: number): void {
    this.#listed = undefined
    this.#first?.end(false)
    this.#readFor(refusalText(status))
  }

  #poll(): void {
    const { clock, random } = this.#components
    this.#stopPoll = clock.after(pollMs * (0.8 + 0.4 * random()), () => {
      this.#watch() // another source may have ended one
      void this.#readAll().finally(() => {
        if (!this.#isStopped && this.#stopPoll) this.#poll()
      })
    })
  }

  /** Reads the metadata of the objects, as a round does. */
  async #readAll(): Promise<void> {
    const { lane, log, seen, left } = this.#components
    const entries = this.#entries
    const { namespace, signal } = this.#of
    try {
      const ignoredOf = (key: ObjectKey) => ignoredFields(this.#rules, { key })
      const onMetadata = (key: ObjectKey, object: KubernetesObject, live: LiveObject) => {
        if (!this.#isStopped) seen(key, object, () => live)
      }
      const components = { lane, kinds: this.#kinds as ClusterKinds, ignoredOf, onMetadata }
      const { id, manager } = this.#options
      const options = { id, manager, ...(namespace !== '' && { namespaces: [namespace] }) }
      const { objects } = await readLiveObjects(entries, components, options, signal)
      if (this.#isStopped) return
      for (const { key } of entries) if (!objects.has(keyText(key))) left(key) // null: it cannot be read now
    } catch (error) {
      if (signal.aborted) return
      log.warn({ source: this.source, reason: errorText(error) }, 'Objects cannot be compared with Git')
    }
  }

  #keyOf(object: KubernetesObject): ObjectKey {
    const { group, kind } = this.#of.kind
    return { group, kind, namespace: textAt(object, 'metadata.namespace'), name: textAt(object, 'metadata.name') }
  }
}
