import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { apiVersionOf } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import type { ClusterKind } from './cluster-kinds.ts'

/** Limit of collections that all sources watch at once: other watches and calls need connections too. */
const maxWatches = 50
/** Interval of reads for objects without a watch: it is not allowed, or beyond the limit. ms */
const pollMs = 5000
/** objects in a page */
const pageSize = 100

export interface ObjectWaitsComponents {
  /** acts as the source's account */
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly clock: Clock
  readonly random: () => number
  /** open watches of all sources, by path */
  readonly watches: Counter<string>
}

export const openWatches = () => new Counter<string>({ max: maxWatches })

/** Condition of a wait; undefined: it goes on. @param object - undefined: it does not exist */
export type ReadObject<T> = (object: KubernetesObject | undefined) => T | undefined

/** Waits for objects of one source to come, to go or to change. Each collection has one watch while somebody waits. */
export class ObjectWaits {
  readonly #components: ObjectWaitsComponents
  readonly #selector: string
  readonly #collections = new Map<string, Collection>()

  /** @param options.selector - matches all objects that may be waited for */
  constructor(components: ObjectWaitsComponents, options: { selector: string }) {
    this.#components = components
    this.#selector = options.selector
  }

  /** @returns the first value of `read`. @throws the signal's reason, or the error of `read` */
  until<T>(kind: ClusterKind, key: ObjectKey, read: ReadObject<T>, signal: AbortSignal): Promise<T> {
    const path = collectionPath(kind, key.namespace)
    const known = this.#collections.get(path)
    const collection = known ?? new Collection(this.#components, { path, kind, selector: this.#selector })
    this.#collections.set(path, collection)
    return new Promise<T>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const settle = (settled: () => void) => {
        signal.removeEventListener('abort', onAbort)
        if (collection.remove(waiter)) this.#collections.delete(path)
        settled()
      }
      const waiter: Waiter = {
        path: objectPath(kind, key),
        name: key.name,
        take: (object) => {
          try {
            const found = read(object)
            if (found !== undefined) settle(() => resolve(found))
          } catch (error) {
            settle(() => reject(error))
          }
        },
      }
      const onAbort = () => settle(() => reject(signal.reason))
      signal.addEventListener('abort', onAbort, { once: true })
      collection.add(waiter)
    })
  }
}

interface Waiter {
  /** path of the object */
  readonly path: string
  readonly name: string
  take(object: KubernetesObject | undefined): void
}

class Collection implements WatchSink {
  readonly #components: ObjectWaitsComponents
  /** type of its objects: lists leave it out */
  readonly #type: { readonly apiVersion: string; readonly kind: string }
  readonly #waiters = new Set<Waiter>()
  readonly #ended = new AbortController()
  readonly #watch: ObjectWatch
  readonly #path: string
  #hasBegun = false
  /** undefined: no watch, the collection is polled */
  #endWatch: (() => void) | undefined
  /** waiters whose objects are being read */
  readonly #asking = new Set<Waiter>()
  /** names in the current list */
  #listed: Set<string> | undefined
  #stopPolling: (() => void) | undefined
  /** the watch reports changes */
  #isFollowing = false

  constructor(
    components: ObjectWaitsComponents,
    { path, kind, selector }: { path: string; kind: ClusterKind; selector: string },
  ) {
    this.#components = components
    this.#path = path
    this.#type = { apiVersion: apiVersionOf(kind), kind: kind.kind }
    const watched = withQuery(path, { labelSelector: selector })
    this.#watch = new ObjectWatch({ ...components, sink: this }, { path: watched, pageSize, resumes: true })
  }

  add(waiter: Waiter): void {
    this.#waiters.add(waiter)
    if (!this.#hasBegun) this.#begin()
    void this.#ask(waiter)
  }

  /** @returns true if nobody waits any more: the collection has ended */
  remove(waiter: Waiter): boolean {
    this.#waiters.delete(waiter)
    if (this.#waiters.size > 0) return false
    this.#ended.abort(new KasError({ code: 'CANCELLED', detail: 'nobody waits for it' }))
    this.#stopPolling?.()
    this.#endWatch?.()
    return true
  }

  #begin(): void {
    this.#hasBegun = true
    this.#endWatch = this.#components.watches.enter(this.#path)
    if (this.#endWatch) void this.#watch.run(this.#ended.signal)
    else this.#poll()
  }

  listing(): void {
    this.#listed = new Set()
  }

  put(object: unknown): void {
    const name = textAt(object, 'metadata.name')
    this.#listed?.add(name)
    for (const waiter of [...this.#waiters])
      if (waiter.name === name) waiter.take({ ...(object as object), ...this.#type })
  }

  /** Reads the object: it may have lost its label alone. */
  deleted(object: unknown): void {
    const name = textAt(object, 'metadata.name')
    for (const waiter of this.#waiters) if (waiter.name === name) void this.#ask(waiter)
  }

  leftOut(): void {}

  listed(): void {
    const names = this.#listed
    this.#listed = undefined
    for (const waiter of this.#waiters) if (!names?.has(waiter.name)) void this.#ask(waiter)
  }

  following(is: boolean): void {
    this.#isFollowing = is
  }

  ended({ status }: { status: number }): void {
    if (status === 200 || status === 410) return
    this.#isFollowing = false
    this.#poll()
  }

  /** Polls once at least, and until the watch follows. */
  #poll(): void {
    if (this.#stopPolling || this.#ended.signal.aborted) return
    this.#stopPolling = this.#components.clock.after(pollMs, () => {
      this.#stopPolling = undefined
      for (const waiter of this.#waiters) if (!this.#asking.has(waiter)) void this.#ask(waiter)
      if (!this.#isFollowing) this.#poll()
    })
  }

  /** Reads the object. An answer without its state does not count: a later one will. */
  async #ask(waiter: Waiter): Promise<void> {
    const options = { maxBytes: maxEventBytes }
    this.#asking.add(waiter)
    const answer = await this.#components.client
      .json('GET', waiter.path, undefined, this.#ended.signal, options)
      .catch((): { status: number; body: unknown } => ({ status: 0, body: undefined }))
    this.#asking.delete(waiter)
    if (!this.#waiters.has(waiter)) return
    if (answer.status === 200) waiter.take(answer.body as KubernetesObject)
    else if (answer.status === 404) waiter.take(undefined)
    else this.#poll()
  }
}
