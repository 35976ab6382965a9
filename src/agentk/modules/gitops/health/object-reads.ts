import { kindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { isTooLarge, ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import type { SourceOptions } from '../source-options.ts'
import { type FollowedObject, notReadable } from './followed-object.ts'

/** An object that changes is read so often; seldom while it stays healthy, whatever writes its status. ms */
const readMs = { soon: 2000, healthy: 10_000, unreadable: 30_000 }
/** A change is read after this: meanwhile others may send the object, or change it again. ms */
const settleMs = 200
/**
 * An object that has gone is read after this: `kubectl replace --force` makes it again meanwhile, and a comparison with
 * Git comes first. ms
 */
const leftMs = 1500
/** Objects in a page: whole objects, some 4 KiB each. */
const pageSize = 100
/** Limit for a page. ms */
const pageTimeoutMs = 60_000
/** A change of a workload is read after this at most, while its Pods are not ready: the last one brings its verdict. ms */
const awaitMs = 5000
/** After a failure, objects that were not read are read again. ms */
const retryMs = 10_000

export interface ObjectReadsComponents {
  /** acts as the source's account; all other requests go first */
  readonly lane: ApiLane
  /** prepares the rules of a kind (`group/Kind`) */
  readonly rulesReady: (kind: string) => Promise<void>
  /** the objects of the source */
  readonly objects: () => Iterable<FollowedObject>
  /** finds an object that a list has; undefined: the source does not follow it */
  readonly find: (kind: ClusterKind, namespace: string, name: string) => FollowedObject | undefined
  /** true while the source follows this object */
  readonly isCurrent: (followed: FollowedObject) => boolean
  /** number of the present update */
  readonly updates: () => number
  /** takes an object that was read. @param from - place of the read in the order of events and reads */
  readonly onRead: (followed: FollowedObject, object: KubernetesObject, from: number) => void
  /** takes an object that does not exist. @param from - as `onRead` */
  readonly onAbsent: (followed: FollowedObject, from: number) => void
  /** takes an object that cannot be read. @param text - why */
  readonly onUnreadable: (followed: FollowedObject, text: string) => void
  /** by the API server */
  readonly clock: Clock
  readonly log: Logger
}

/** Reads of one source's objects: by pages where many are unread, one by one where they change. */
export class ObjectReads {
  readonly #components: ObjectReadsComponents
  readonly #options: SourceOptions
  readonly #signal: AbortSignal
  /** number of the last event or read */
  #sequence = 0
  /** the next read is of all objects */
  #isOfAll = false
  #isReadingPages = false
  /** objects were added while pages were read */
  #isAgain = false
  #cancelRetry: (() => void) | undefined
  /** reason of the last failure that was logged */
  #warned = ''

  constructor(components: ObjectReadsComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
  }

  /** Returns the next place in the order of events and reads. */
  next(): number {
    this.#sequence += 1
    return this.#sequence
  }

  /** Reads all objects again, by pages. */
  refresh(): void {
    this.#isOfAll = true
    this.readUnread()
  }

  /** Reads the objects that were not read yet, by pages. */
  readUnread(): void {
    if (this.#signal.aborted) return
    if (this.#isReadingPages) {
      this.#isAgain = true
      return
    }
    const isOfAll = this.#isOfAll
    const wanted = [...this.#components.objects()].filter(({ verdict }) => !verdict || isOfAll)
    if (wanted.length === 0) return
    this.#isOfAll = false
    this.#isReadingPages = true
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    void this.#readPages(wanted)
      .catch((error: unknown) => this.warn(error))
      .finally(() => this.#pagesEnded())
  }

  #pagesEnded(): void {
    this.#isReadingPages = false
    if (this.#signal.aborted) return
    const isAny = [...this.#components.objects()].some(({ verdict }) => !verdict)
    if (this.#isAgain) {
      this.#isAgain = false
      this.readUnread()
    } else if (isAny) this.#cancelRetry ??= this.#components.clock.after(retryMs, () => this.readUnread())
  }

  async #readPages(wanted: readonly FollowedObject[]): Promise<void> {
    const { rulesReady, isCurrent } = this.#components
    const { namespaces } = this.#options
    const pathOf = ({ kind, key }: FollowedObject) => collectionPath(kind, namespaces ? key.namespace : '')
    for (const [path, followed] of Map.groupBy(wanted, pathOf)) {
      const [{ kind }] = followed as [FollowedObject]
      await rulesReady(kindKey(kind.group, kind.kind))
      const found = await this.#readCollection(path, kind)
      // an object that no list has does not exist, or has lost its label; without a list each is read
      for (const one of followed) if (!found?.has(one) && isCurrent(one)) await this.#read(one)
    }
  }

  /** @returns the objects that the list has; undefined: it may not be read */
  async #readCollection(path: string, kind: ClusterKind): Promise<ReadonlySet<FollowedObject> | undefined> {
    const { lane, find, updates, onRead } = this.#components
    const listed = withQuery(path, { labelSelector: `${inventoryLabel}=${this.#options.id}` })
    const list = new ObjectList(lane, { path: listed, accept: undefined, pageSize, timeoutMs: pageTimeoutMs })
    const since = updates()
    const from = this.next()
    const found = new Set<FollowedObject>()
    for (;;) {
      let page = await list.page(this.#signal)
      const isSkipped = 'count' in page
      if (isSkipped) page = await list.skip(this.#signal) // the object is read alone, and then known to be too large
      if (!('items' in page)) return undefined
      for (const item of isSkipped ? [] : (page.items as readonly KubernetesObject[])) {
        const followed = find(kind, textAt(item, 'metadata.namespace'), textAt(item, 'metadata.name'))
        if (!followed || followed.since > since) continue // it was written after the list began
        found.add(followed)
        if (followed.readFrom <= from && !followed.isReading) onRead(followed, item, from)
      }
      if (page.isLast) return found
    }
  }

  /** Reads an object that has gone, unless it is there again by then. */
  readLater(followed: FollowedObject): void {
    this.readSoon(followed, leftMs)
  }

  /** Reads a workload whose Pods are not ready, unless `awaitedCame` is called before. */
  readAwaiting(followed: FollowedObject): void {
    if (!followed.isReading && !followed.cancelRead) followed.isAwaiting = true
    this.readSoon(followed, awaitMs)
  }

  /** The Pods that a workload has waited for are ready: its change is read soon. */
  awaitedCame(followed: FollowedObject): void {
    followed.cancelRead?.()
    followed.cancelRead = undefined
    followed.isAwaiting = false
    this.readSoon(followed)
  }

  /** Reads one object, once for all changes that come before. @param leastMs - pause before */
  readSoon(followed: FollowedObject, leastMs = settleMs): void {
    if (followed.isReading) {
      followed.isDue = true
      return
    }
    const { clock } = this.#components
    const pauseMs = pauseAfter(followed)
    const waitMs = Math.max(leastMs, Math.ceil(followed.readAt + pauseMs - clock.now()))
    // the clock may have been set back
    followed.cancelRead ??= clock.after(Math.min(waitMs, Math.max(pauseMs, leastMs)), () => {
      followed.cancelRead = undefined
      followed.isAwaiting = false
      if (!isUpToDate(followed)) void this.#read(followed)
    })
  }

  /** Reads one object. Never rejects. */
  async #read(followed: FollowedObject): Promise<void> {
    const { lane, clock, isCurrent, onRead, onAbsent, onUnreadable } = this.#components
    const { key, kind, since } = followed
    const from = this.next()
    followed.isReading = true
    followed.isDue = false
    try {
      const path = objectPath(kind, key)
      const { status, body } = await lane.json('GET', path, undefined, this.#signal, { maxBytes: maxEventBytes })
      if (!isCurrent(followed)) return
      if (followed.since !== since) followed.isDue = true
      else if (followed.readFrom > from)
        return // a newer one has come meanwhile
      else if (status === 200) onRead(followed, body as KubernetesObject, from)
      else if (status === 404) onAbsent(followed, from)
      else {
        onUnreadable(followed, `the API server answered ${status}`)
        followed.isDue = true
      }
    } catch (error) {
      this.warn(error)
      followed.isDue = true
      if (isTooLarge(error) && isCurrent(followed) && followed.since === since)
        onUnreadable(followed, 'it is too large')
    } finally {
      followed.isReading = false
      followed.readAt = clock.now()
      if (followed.isDue && isCurrent(followed)) this.readSoon(followed)
    }
  }

  /** Logs a failure, once for each reason in a row. */
  warn(error: unknown): void {
    const reason = errorText(error)
    if (this.#signal.aborted || reason === this.#warned) return
    this.#warned = reason
    this.#components.log.warn({ source: this.#options.id, reason }, 'Health cannot be read')
  }

  stop(): void {
    this.#cancelRetry?.()
  }
}

const isUnreadable = ({ verdict }: FollowedObject) =>
  verdict?.word === 'Unknown' && verdict.cause?.reason === notReadable

/** True if the version that a watch has sent last was judged. */
function isUpToDate(followed: FollowedObject): boolean {
  const { verdict, resourceVersion, seenVersion } = followed
  return verdict !== undefined && !isUnreadable(followed) && resourceVersion !== '' && resourceVersion === seenVersion
}

function pauseAfter(followed: FollowedObject): number {
  const { isSteady } = followed
  if (isUnreadable(followed)) return readMs.unreadable
  return isSteady ? readMs.healthy : readMs.soon
}
