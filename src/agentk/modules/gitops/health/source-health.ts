import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { apiVersionOf, kindKey } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { severityOf } from '../../../health/kas/finding.ts'
import type { RuleVerdicts } from '../../../health/kas/opinion.ts'
import type { HealthVerdict, SourceHealthSummary } from '../health-verdict.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { isJudgedKind } from './judged-kinds.ts'
import type { NamespaceHealth } from './namespace-health.ts'

/** An object that changes is read so often; seldom while it stays healthy, whatever writes its status. ms */
const readMs = { soon: 2000, healthy: 10_000 }
/** Objects in a page: whole objects, some 4 KiB each. */
const pageSize = 100
/** Limit for a page. ms */
const pageTimeoutMs = 60_000
/** After a failure, objects that were not read are read again. ms */
const retryMs = 10_000

export interface SourceHealthComponents {
  /** acts as the source's account; all other requests go first */
  readonly lane: ApiLane
  readonly verdictsOf: (object: KubernetesObject) => RuleVerdicts
  /** prepares the rules of a kind (`group/Kind`) */
  readonly rulesReady: (kind: string) => Promise<void>
  /** follows what unhealthy workloads own in a namespace */
  readonly namespace: (namespace: string, onChange: () => void) => NamespaceHealth
  /** called when the summary differs */
  readonly onChange: () => void
  /** by the API server */
  readonly clock: Clock
  readonly log: Logger
}

/** Object of the source, of a kind that can be unhealthy. */
interface Followed {
  entry: InventoryEntry
  kind: ClusterKind
  /** number of the update that brought this digest: earlier reads do not count */
  since: number
  /** a Job that the cluster deletes after its end */
  runsOnce: boolean
  /** undefined: it was not read yet */
  verdict: HealthVerdict | undefined
  /** `metadata.resourceVersion` that was read; empty: none */
  version: string
  readAt: number
  /** it was healthy at its last two reads */
  isSteady: boolean
  /** a change has come while it was read */
  isDue: boolean
  isReading: boolean
  cancelRead: (() => void) | undefined
}

const unread = {
  verdict: undefined,
  version: '',
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
  /** the next read is of all objects */
  #readSoonAll = false
  #isReadingPages = false
  #cancelRetry: (() => void) | undefined

  constructor(components: SourceHealthComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
    signal.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /** Follows the objects of these entries, and no others. @param runOnce - Jobs that the cluster deletes, by `keyText` */
  update(entries: Iterable<InventoryEntry>, kinds: ClusterKinds, runOnce: ReadonlySet<string>): void {
    this.#updates += 1
    const left = new Set(this.#objects.keys())
    for (const entry of entries) {
      const kind = kinds.find(entry.key, entry.version)
      if (!kind || entry.digest === '' || !isJudgedKind(kind)) continue
      const text = keyText(entry.key)
      left.delete(text)
      const known = this.#objects.get(text)
      const followed = known ?? { ...unread, entry, kind, since: this.#updates }
      if (known && known.entry.digest !== entry.digest)
        Object.assign(known, { verdict: undefined, since: this.#updates })
      this.#objects.set(text, Object.assign(followed, { entry, kind, runsOnce: runOnce.has(text) }))
    }
    for (const text of left) this.#drop(text)
    this.#readUnread()
  }

  /** An object of the source has changed, or was seen. @param version - its `metadata.resourceVersion` */
  seen(key: ObjectKey, version: string): void {
    const followed = this.#objects.get(keyText(key))
    if (followed?.verdict && followed.version !== version) this.#readSoon(followed)
  }

  /** An object of the source does not exist any more. */
  left(key: ObjectKey): void {
    const followed = this.#objects.get(keyText(key))
    if (followed?.verdict) this.#judgeAbsent(followed)
  }

  /** Reads all objects again, by pages: nobody tells when they change. */
  refresh(): void {
    this.#readSoonAll = true
    this.#readUnread()
  }

  get summary(): SourceHealthSummary {
    const counts = { Healthy: 0, Progressing: 0, Degraded: 0, Suspended: 0, Missing: 0, Unknown: 0 }
    const unhealthy: HealthVerdict[] = []
    let unread = 0
    for (const { verdict } of this.#objects.values()) {
      if (!verdict) unread += 1
      else counts[verdict.word] += 1
      if (verdict && verdict.word !== 'Healthy') unhealthy.push(verdict)
    }
    unhealthy.sort((one, other) => severityOf(other.word) - severityOf(one.word))
    const unlisted = [...new Set([...this.#namespaces.values()].flatMap((one) => one.unlisted))].sort()
    return { counts, unread, unhealthy, unlisted }
  }

  /** Reads the objects that were not read yet, by pages. */
  #readUnread(): void {
    if (this.#isReadingPages || this.#signal.aborted) return
    const wanted = [...this.#objects.values()].filter(({ verdict }) => !verdict || this.#readSoonAll)
    if (wanted.length === 0) return
    this.#readSoonAll = false
    this.#isReadingPages = true
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    void this.#readPages(wanted)
      .catch((error: unknown) => {
        if (this.#signal.aborted) return
        this.#components.log.warn({ source: this.#options.id, reason: errorText(error) }, 'Health cannot be read')
      })
      .finally(() => {
        this.#isReadingPages = false
        if (this.#signal.aborted) return
        const isAny = [...this.#objects.values()].some(({ verdict }) => !verdict)
        if (isAny) this.#cancelRetry ??= this.#components.clock.after(retryMs, () => this.#readUnread())
      })
  }

  async #readPages(wanted: readonly Followed[]): Promise<void> {
    const { namespaces } = this.#options
    const pathOf = ({ kind, entry }: Followed) => collectionPath(kind, namespaces ? entry.key.namespace : '')
    for (const [path, followed] of Map.groupBy(wanted, pathOf)) {
      const [{ kind }] = followed as [Followed]
      await this.#components.rulesReady(keyOfKind(kind))
      const found = await this.#readCollection(path, kind)
      // what the list does not have does not exist, or has lost its label; where there is no list, each is read
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
    const found = new Set<Followed>()
    for (;;) {
      const page = await list.page(this.#signal)
      if (!('items' in page)) return undefined
      for (const item of page.items) {
        const followed = this.#followedBy(kind, item as KubernetesObject)
        if (!followed || followed.since > since) continue // it was written after the list began
        found.add(followed)
        this.#judge(followed, item as KubernetesObject)
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
    const pauseMs = followed.isSteady ? readMs.healthy : readMs.soon
    const waitMs = Math.max(0, Math.ceil(followed.readAt + pauseMs - this.#components.clock.now()))
    followed.cancelRead ??= this.#components.clock.after(waitMs, () => {
      followed.cancelRead = undefined
      void this.#read(followed)
    })
  }

  /** Reads one object. Never rejects. */
  async #read(followed: Followed): Promise<void> {
    const { lane, clock, log } = this.#components
    const { entry, kind, since } = followed
    followed.isReading = true
    followed.isDue = false
    try {
      const path = objectPath(kind, entry.key)
      const { status, body } = await lane.json('GET', path, undefined, this.#signal, { maxBytes: maxEventBytes })
      if (!this.#isCurrent(followed)) return
      if (followed.since !== since) followed.isDue = true
      else if (status === 200) this.#judge(followed, body as KubernetesObject)
      else if (status === 404) this.#judgeAbsent(followed)
      else this.#unreadable(followed, `the API server answered ${status}`)
    } catch (error) {
      if (this.#signal.aborted) return
      log.warn({ source: this.#options.id, reason: errorText(error) }, 'The health of an object cannot be read')
      followed.isDue = true
    } finally {
      followed.isReading = false
      followed.readAt = clock.now()
      if (followed.isDue && !this.#signal.aborted) this.#readSoon(followed)
    }
  }

  #judge(followed: Followed, read: KubernetesObject): void {
    const { kind, entry } = followed
    followed.version = textAt(read, 'metadata.resourceVersion')
    followed.readAt = this.#components.clock.now()
    if (numberAt(read, 'spec.ttlSecondsAfterFinished') !== undefined) followed.runsOnce = kind.kind === 'Job'
    const text = keyText(entry.key)
    const before = followed.verdict?.word
    const verdict = this.#namespaceOf(entry.key.namespace).put(text, { entry, object: slim(kind, read) })
    followed.isSteady = before === 'Healthy' && verdict.word === 'Healthy'
    this.#set(followed, verdict)
  }

  #judgeAbsent(followed: Followed): void {
    const { entry, verdict, runsOnce } = followed
    followed.version = ''
    this.#namespaces.get(entry.key.namespace)?.delete(keyText(entry.key))
    const word = runsOnce && verdict?.word !== 'Degraded' ? 'Healthy' : 'Missing'
    this.#set(followed, { key: entry.key, version: entry.version, word, cause: undefined })
  }

  #unreadable(followed: Followed, text: string): void {
    const { entry } = followed
    const cause = { culprit: entry.key, reason: 'NotReadable', text, since: undefined }
    this.#set(followed, { key: entry.key, version: entry.version, word: 'Unknown', cause })
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
      if (followed?.verdict) followed.verdict = verdict
    }
    this.#components.onChange()
  }

  #set(followed: Followed, verdict: HealthVerdict): void {
    followed.verdict = verdict
    this.#components.onChange()
  }

  #isCurrent(followed: Followed): boolean {
    return !this.#signal.aborted && this.#objects.get(keyText(followed.entry.key)) === followed
  }

  #drop(text: string): void {
    const followed = this.#objects.get(text)
    followed?.cancelRead?.()
    this.#objects.delete(text)
    if (followed) this.#namespaces.get(followed.entry.key.namespace)?.delete(text)
  }

  #stop(): void {
    this.#cancelRetry?.()
    for (const { cancelRead } of this.#objects.values()) cancelRead?.()
    for (const namespace of this.#namespaces.values()) namespace.stop()
    this.#namespaces.clear()
  }
}

const keyOfKind = ({ group, kind }: ClusterKind) => kindKey(group, kind)

/** Returns an object with its kind, which objects of a list lack, and without what rules do not read. */
function slim(kind: ClusterKind, object: KubernetesObject): KubernetesObject {
  const { managedFields: _, ...metadata } = (at(object, 'metadata') ?? {}) as Record<string, unknown>
  return { ...object, apiVersion: apiVersionOf(kind), kind: kind.kind, metadata }
}
