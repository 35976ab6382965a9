import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { apiVersionOf, kindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import type { HealthVerdict, SourceHealthSummary } from '../health-verdict.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { isJudgedKind } from './judged-kinds.ts'
import type { NamespaceHealth } from './namespace-health.ts'
import { slimObject } from './slim-object.ts'

/** An object that changes is read so often; seldom while it stays healthy, whatever writes its status. ms */
const readMs = { soon: 2000, healthy: 10_000, unreadable: 30_000 }
/** Objects in a page: whole objects, some 4 KiB each. */
const pageSize = 100
/** Limit for a page. ms */
const pageTimeoutMs = 60_000
/** After a failure, objects that were not read are read again. ms */
const retryMs = 10_000
/** A round that makes no step for so long waits, perhaps for the health of what it has applied. ms */
const idleMs = 1000

export interface SourceHealthComponents {
  /** acts as the source's account; all other requests go first */
  readonly lane: ApiLane
  readonly kinds: Pick<SharedKinds, 'current'>
  /** prepares the rules of a kind (`group/Kind`) */
  readonly rulesReady: (kind: string) => Promise<void>
  /** follows what unhealthy workloads own in a namespace */
  readonly namespace: (namespace: string, onChange: () => void) => NamespaceHealth
  /** called when the summary may differ */
  readonly onChange: () => void
  /** by the API server */
  readonly clock: Clock
  readonly log: Logger
}

/** Object of the source, of a kind that can be unhealthy. */
interface Followed {
  readonly key: ObjectKey
  version: string
  /** of the manifest applied last; empty: the running round has applied it */
  digest: string
  kind: ClusterKind
  /** number of the update that brought this digest: earlier reads do not count */
  since: number
  /** a Job that the cluster deletes after its end */
  runsOnce: boolean
  /** a round for a new commit runs, and has not come to it */
  isPending: boolean
  /** undefined: it was not read yet */
  verdict: HealthVerdict | undefined
  /** it has failed since it was applied: a Job that is gone then has not done its work */
  hasFailed: boolean
  /** `metadata.resourceVersion` that was read; empty: none */
  resourceVersion: string
  /** the same of the last one that a watch has sent, and its place in the order of events and reads */
  seenVersion: string
  seenAt: number
  /** place of its last read in that order */
  readFrom: number
  readAt: number
  /** it was healthy at its last two reads */
  isSteady: boolean
  /** a change has come while it was read */
  isDue: boolean
  isReading: boolean
  cancelRead: (() => void) | undefined
}

/** Reason of an object that cannot be read. */
const notReadable = 'NotReadable'

/** Verdicts, the worst first: a missing object does not come by itself. */
const order: readonly ArgoStatus[] = ['Degraded', 'Missing', 'Progressing', 'Unknown', 'Suspended', 'Healthy']

const unread = {
  isPending: false,
  verdict: undefined,
  hasFailed: false,
  resourceVersion: '',
  seenVersion: '',
  seenAt: 0,
  readFrom: 0,
  readAt: 0,
  isSteady: false,
  isDue: false,
  isReading: false,
  cancelRead: undefined,
} as const

/** Health of the objects of one source: each is read when it changes, and judged by itself and by what it owns. */
export class SourceHealth {
  readonly #components: SourceHealthComponents
  readonly #options: SourceOptions
  readonly #signal: AbortSignal
  /** by `keyText` */
  readonly #objects = new Map<string, Followed>()
  readonly #namespaces = new Map<string, NamespaceHealth>()
  #updates = 0
  /** number of the last event or read */
  #sequence = 0
  /** objects of kinds that nobody serves now */
  #unserved = 0
  /** reason of the last failure that was logged */
  #warned = ''
  #readAgain = false
  /** the next read is of all objects */
  #readSoonAll = false
  #isReadingPages = false
  #cancelRetry: (() => void) | undefined
  /** by `keyText`: objects that the running round has applied, and that are not followed yet */
  readonly #written = new Map<string, ObjectKey>()
  #cancelIdle: (() => void) | undefined

  constructor(components: SourceHealthComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
    signal.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /** Follows the objects of these entries, and no others. @param runOnce - Jobs that the cluster deletes, by `keyText` */
  update(entries: Iterable<InventoryEntry>, kinds: ClusterKinds, runOnce: ReadonlySet<string>): void {
    this.#updates += 1
    this.#unserved = 0
    const left = new Set(this.#objects.keys())
    for (const entry of entries) {
      const text = keyText(entry.key)
      const kind = kinds.find(entry.key, entry.version)
      if (!kind && entry.digest !== '') this.#unserved += 1
      if (!kind || entry.digest === '' || !isJudgedKind(kind)) continue
      left.delete(text)
      const { key, version, digest } = entry
      const known = this.#objects.get(text) ?? this.#follow(key, kind)
      if (known.digest !== '' && known.digest !== digest) this.#forgetVerdict(known)
      Object.assign(known, { version, digest, kind, isPending: false, runsOnce: runOnce.has(text) })
    }
    for (const text of left) this.#drop(text)
    this.#stopIdle()
    this.#readUnread()
  }

  /** A round for a new commit begins: no object counts until it has come to it. */
  roundBegins(): void {
    for (const followed of this.#objects.values()) followed.isPending = true
  }

  /** The round has failed: objects that it has not written are as before. */
  roundFailed(): void {
    for (const followed of this.#objects.values()) followed.isPending = false
    this.#stopIdle()
    this.#readUnread()
    this.#components.onChange()
  }

  /** The round has come to an object. @param isWritten - it has applied it */
  stepEnded(key: ObjectKey, isWritten: boolean): void {
    const text = keyText(key)
    const followed = this.#objects.get(text)
    if (followed) followed.isPending = false
    if (isWritten && !followed) this.#written.set(text, key)
    else if (isWritten && followed) {
      followed.digest = ''
      this.#forgetVerdict(followed)
    }
    this.#cancelIdle?.()
    this.#cancelIdle = this.#components.clock.after(idleMs, () => void this.#roundWaits())
  }

  /** Reads the objects that the round has written so far. Never rejects. */
  async #roundWaits(): Promise<void> {
    try {
      const kinds = this.#written.size > 0 ? await this.#components.kinds.current(this.#signal) : undefined
      for (const key of this.#written.values()) {
        const kind = kinds?.find(key)
        if (kind && isJudgedKind(kind) && !this.#objects.has(keyText(key))) this.#follow(key, kind)
      }
      this.#written.clear()
      this.#readUnread()
    } catch (error) {
      this.#warn(error)
    }
  }

  #follow(key: ObjectKey, kind: ClusterKind): Followed {
    const { version } = kind
    this.#updates += 1
    const followed = { ...unread, key, version, digest: '', kind, since: this.#updates, runsOnce: false }
    this.#objects.set(keyText(key), followed)
    return followed
  }

  /** Earlier reads of the object do not count any more. */
  #forgetVerdict(followed: Followed): void {
    this.#updates += 1
    this.#namespaces.get(followed.key.namespace)?.delete(keyText(followed.key))
    Object.assign(followed, { verdict: undefined, hasFailed: false, since: this.#updates })
  }

  #stopIdle(): void {
    this.#written.clear()
    this.#cancelIdle?.()
    this.#cancelIdle = undefined
  }

  /** An object of the source has changed, or was seen. @param version - its `metadata.resourceVersion` */
  seen(key: ObjectKey, version: string): void {
    this.#changed(this.#objects.get(keyText(key)), version)
  }

  /** An object does not exist any more, or has lost the source's label. */
  left(key: ObjectKey): void {
    this.#changed(this.#objects.get(keyText(key)), '')
  }

  #changed(followed: Followed | undefined, version: string): void {
    if (!followed) return
    followed.seenVersion = version
    followed.seenAt = this.#next()
    if (followed.verdict && followed.resourceVersion !== version) this.#readSoon(followed)
  }

  #next(): number {
    this.#sequence += 1
    return this.#sequence
  }

  /** Reads all objects again, by pages: no watch reports their changes. */
  refresh(): void {
    this.#readSoonAll = true
    this.#readUnread()
  }

  get summary(): SourceHealthSummary {
    const counts = { Healthy: 0, Progressing: 0, Degraded: 0, Suspended: 0, Missing: 0, Unknown: 0 }
    const unhealthy: HealthVerdict[] = []
    let unread = this.#unserved
    for (const { verdict, isPending } of this.#objects.values()) {
      if (!verdict || isPending) unread += 1
      else counts[verdict.word] += 1
      if (verdict && !isPending && verdict.word !== 'Healthy') unhealthy.push(verdict)
    }
    unhealthy.sort((one, other) => order.indexOf(one.word) - order.indexOf(other.word))
    const unlisted = [...new Set([...this.#namespaces.values()].flatMap((one) => one.unlisted))].sort()
    return { counts, unread, unhealthy, unlisted }
  }

  /** Reads the objects that were not read yet, by pages. */
  #readUnread(): void {
    if (this.#signal.aborted) return
    if (this.#isReadingPages) {
      this.#readAgain = true
      return
    }
    const wanted = [...this.#objects.values()].filter(({ verdict }) => !verdict || this.#readSoonAll)
    if (wanted.length === 0) return
    this.#readSoonAll = false
    this.#isReadingPages = true
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    void this.#readPages(wanted)
      .catch((error: unknown) => {
        this.#warn(error)
      })
      .finally(() => {
        this.#isReadingPages = false
        if (this.#signal.aborted) return
        const isAny = [...this.#objects.values()].some(({ verdict }) => !verdict)
        if (this.#readAgain) {
          this.#readAgain = false
          this.#readUnread()
        } else if (isAny) this.#cancelRetry ??= this.#components.clock.after(retryMs, () => this.#readUnread())
      })
  }

  async #readPages(wanted: readonly Followed[]): Promise<void> {
    const { namespaces } = this.#options
    const pathOf = ({ kind, key }: Followed) => collectionPath(kind, namespaces ? key.namespace : '')
    for (const [path, followed] of Map.groupBy(wanted, pathOf)) {
      const [{ kind }] = followed as [Followed]
      await this.#components.rulesReady(keyOfKind(kind))
      const found = await this.#readCollection(path, kind)
      // an object that no list has does not exist, or has lost its label; without a list each is read
      for (const one of followed) if (!found?.has(one) && this.#isCurrent(one)) await this.#read(one)
    }
  }

  /** @returns the objects that the list has; undefined: it may not be read */
  async #readCollection(path: string, kind: ClusterKind): Promise<ReadonlySet<Followed> | undefined> {
    const { id } = this.#options
    const listed = withQuery(path, { labelSelector: `${inventoryLabel}=${id}` })
    const options = { path: listed, accept: undefined, pageSize, timeoutMs: pageTimeoutMs }
    const list = new ObjectList(this.#components.lane, options)
    const since = this.#updates
    const from = this.#next()
    const found = new Set<Followed>()
    for (;;) {
      const page = await list.page(this.#signal)
      if (!('items' in page)) return undefined
      for (const item of page.items) {
        const followed = this.#followedBy(kind, item as KubernetesObject)
        if (!followed || followed.since > since) continue // it was written after the list began
        found.add(followed)
        if (followed.readFrom <= from && !followed.isReading) this.#judge(followed, item as KubernetesObject, from)
      }
      if (page.isLast) return found
    }
  }

  #followedBy({ group, kind }: ClusterKind, item: KubernetesObject): Followed | undefined {
    const [namespace, name] = [textAt(item, 'metadata.namespace'), textAt(item, 'metadata.name')]
    return this.#objects.get(keyText({ group, kind, namespace, name }))
  }

  #readSoon(followed: Followed): void {
    if (followed.isReading) {
      followed.isDue = true
      return
    }
    const pauseMs = pauseAfter(followed)
    const waitMs = Math.max(0, Math.ceil(followed.readAt + pauseMs - this.#components.clock.now()))
    // the clock may have been set back
    followed.cancelRead ??= this.#components.clock.after(Math.min(waitMs, pauseMs), () => {
      followed.cancelRead = undefined
      void this.#read(followed)
    })
  }

  /** Reads one object. Never rejects. */
  async #read(followed: Followed): Promise<void> {
    const { lane, clock } = this.#components
    const { key, kind, since } = followed
    const from = this.#next()
    followed.isReading = true
    followed.isDue = false
    try {
      const path = objectPath(kind, key)
      const { status, body } = await lane.json('GET', path, undefined, this.#signal, { maxBytes: maxEventBytes })
      if (!this.#isCurrent(followed)) return
      if (followed.since !== since) followed.isDue = true
      else if (status === 200) this.#judge(followed, body as KubernetesObject, from)
      else if (status === 404) this.#judgeAbsent(followed)
      else this.#unreadable(followed, `the API server answered ${status}`)
    } catch (error) {
      this.#warn(error)
      followed.isDue = true
    } finally {
      followed.isReading = false
      followed.readAt = clock.now()
      if (followed.isDue && !this.#signal.aborted) this.#readSoon(followed)
    }
  }

  /** @param from - place of the read in the order of events and reads */
  #judge(followed: Followed, read: KubernetesObject, from: number): void {
    const { kind, key, version } = followed
    followed.resourceVersion = textAt(read, 'metadata.resourceVersion')
    followed.readFrom = from
    followed.readAt = this.#components.clock.now()
    if (kind.group === 'batch' && kind.kind === 'Job' && numberAt(read, 'spec.ttlSecondsAfterFinished') !== undefined)
      followed.runsOnce = true
    const before = followed.verdict?.word
    const verdict = this.#namespaceOf(key.namespace).put(
      { key, version },
      slimObject({ apiVersion: apiVersionOf(kind), kind: kind.kind }, read),
    )
    followed.isSteady = before === 'Healthy' && verdict.word === 'Healthy'
    this.#set(followed, verdict)
    const hasChanged = followed.seenAt > from && followed.seenVersion !== followed.resourceVersion
    if (hasChanged) this.#readSoon(followed) // the read may be older than the event
  }

  #judgeAbsent(followed: Followed): void {
    const { key, version, runsOnce, hasFailed } = followed
    followed.resourceVersion = ''
    this.#namespaces.get(key.namespace)?.delete(keyText(key))
    const word = runsOnce && !hasFailed ? 'Healthy' : 'Missing'
    this.#set(followed, { key, version, word, cause: undefined })
  }

  #unreadable(followed: Followed, text: string): void {
    const { key, version } = followed
    this.#namespaces.get(key.namespace)?.delete(keyText(key))
    const cause = { culprit: key, reason: notReadable, text, since: undefined }
    this.#set(followed, { key, version, word: 'Unknown', cause })
    followed.isDue = true
  }

  #namespaceOf(name: string): NamespaceHealth {
    let namespace = this.#namespaces.get(name)
    if (!namespace) {
      namespace = this.#components.namespace(name, () => this.#judged(name))
      this.#namespaces.set(name, namespace)
    }
    return namespace
  }

  /** Takes the verdicts of a namespace, but not on objects that are to be read first. */
  #judged(name: string): void {
    for (const [text, verdict] of this.#namespaces.get(name)?.verdicts ?? []) {
      const followed = this.#objects.get(text)
      if (followed?.verdict) this.#note(followed, verdict)
    }
    this.#components.onChange()
  }

  #set(followed: Followed, verdict: HealthVerdict): void {
    this.#note(followed, verdict)
    this.#components.onChange()
  }

  #note(followed: Followed, verdict: HealthVerdict): void {
    followed.verdict = verdict
    followed.hasFailed ||= verdict.word === 'Degraded'
  }

  #isCurrent(followed: Followed): boolean {
    return !this.#signal.aborted && this.#objects.get(keyText(followed.key)) === followed
  }

  #drop(text: string): void {
    const followed = this.#objects.get(text)
    followed?.cancelRead?.()
    this.#objects.delete(text)
    const name = followed?.key.namespace ?? ''
    const namespace = this.#namespaces.get(name)
    namespace?.delete(text)
    if (!namespace || namespace.verdicts.size > 0) return
    namespace.stop()
    this.#namespaces.delete(name)
  }

  #warn(error: unknown): void {
    const reason = errorText(error)
    if (this.#signal.aborted || reason === this.#warned) return
    this.#warned = reason
    this.#components.log.warn({ source: this.#options.id, reason }, 'Health cannot be read')
  }

  #stop(): void {
    this.#cancelRetry?.()
    this.#stopIdle()
    for (const { cancelRead } of this.#objects.values()) cancelRead?.()
    for (const namespace of this.#namespaces.values()) namespace.stop()
    this.#namespaces.clear()
  }
}

function pauseAfter({ verdict, isSteady }: Followed): number {
  if (verdict?.word === 'Unknown' && verdict.cause?.reason === notReadable) return readMs.unreadable
  return isSteady ? readMs.healthy : readMs.soon
}

const keyOfKind = ({ group, kind }: ClusterKind) => kindKey(group, kind)
