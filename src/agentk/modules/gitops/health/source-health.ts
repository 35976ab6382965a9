import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { apiVersionOf, kindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import { isSummary } from '../../../health/kas/opinion.ts'
import type { HealthVerdict, SourceHealthSummary } from '../health-verdict.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { type FollowedObject, notReadable, unreadObject } from './followed-object.ts'
import type { NamespaceHealth } from './namespace-health.ts'
import { ObjectReads, type ObjectReadsComponents } from './object-reads.ts'
import { slimObject } from './slim-object.ts'

/** A round that makes no step for so long waits, perhaps for the health of what it has applied. ms */
const idleMs = 1000

export interface SourceHealthComponents extends Pick<ObjectReadsComponents, 'lane' | 'rulesReady' | 'clock' | 'log'> {
  readonly kinds: Pick<SharedKinds, 'current'>
  /** true if objects of a kind (`group/Kind`) can be unhealthy */
  readonly isJudged: (kind: string) => boolean
  /** follows what unhealthy workloads own in a namespace */
  readonly namespace: (namespace: string, onChange: () => void) => NamespaceHealth
  /** called when the summary may differ */
  readonly onChange: () => void
}

/** Metadata of an object that a watch has sent, or a list. */
export interface SeenMetadata {
  /** `metadata.resourceVersion` */
  readonly version: string
  /** `metadata.generation`; undefined: the kind has none */
  readonly generation: number | undefined
}

/** Verdicts, the worst first: a missing object does not come by itself. */
const order: readonly ArgoStatus[] = ['Degraded', 'Missing', 'Progressing', 'Unknown', 'Suspended', 'Healthy']

/** Health of the objects of one source: each is read when it changes, and judged by itself and by what it owns. */
export class SourceHealth {
  readonly #components: SourceHealthComponents
  readonly #signal: AbortSignal
  readonly #reads: ObjectReads
  /** by `keyText` */
  readonly #objects = new Map<string, FollowedObject>()
  readonly #namespaces = new Map<string, NamespaceHealth>()
  #updates = 0
  /** objects of kinds that nobody serves now */
  #unserved = 0
  /** by `keyText`: objects that the running round has applied, and that are not followed yet */
  readonly #written = new Map<string, ObjectKey>()
  #cancelIdle: (() => void) | undefined

  constructor(components: SourceHealthComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#signal = signal
    const reads: Omit<ObjectReadsComponents, keyof SourceHealthComponents> = {
      objects: () => this.#objects.values(),
      find: ({ group, kind }, namespace, name) => this.#objects.get(keyText({ group, kind, namespace, name })),
      isCurrent: (followed) => this.#isCurrent(followed),
      updates: () => this.#updates,
      onRead: (followed, object, from) => this.#judge(followed, object, from),
      onAbsent: (followed, from) => this.#judgeAbsent(followed, from),
      onUnreadable: (followed, text) => this.#judgeUnreadable(followed, text),
    }
    this.#reads = new ObjectReads({ ...components, ...reads }, options, signal)
    signal.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /** Follows the objects of these entries, and no others. @param runOnce - Jobs that the cluster deletes, by `keyText` */
  update(entries: Iterable<InventoryEntry>, kinds: ClusterKinds, runOnce: ReadonlySet<string>): void {
    this.#updates += 1
    this.#unserved = 0
    const left = new Set(this.#objects.keys())
    for (const { key, version, digest } of entries) {
      const text = keyText(key)
      const kind = kinds.find(key, version)
      if (!kind && digest !== '') this.#unserved += 1
      if (!kind || digest === '' || !this.#isJudged(kind)) continue
      left.delete(text)
      const known = this.#objects.get(text) ?? this.#follow(key, kind)
      if (known.digest !== '' && known.digest !== digest) this.#forgetVerdict(known)
      Object.assign(known, { version, digest, kind, isPending: false, runsOnce: runOnce.has(text) })
    }
    for (const text of left) this.#drop(text)
    this.#stopIdle()
    this.#reads.readUnread()
  }

  /** A round for a new commit begins: no object counts until it has come to it. */
  roundBegins(): void {
    for (const followed of this.#objects.values()) followed.isPending = true
  }

  /** The round has failed: objects that it has not written are as before. */
  roundFailed(): void {
    for (const followed of this.#objects.values()) followed.isPending = false
    this.#stopIdle()
    this.#reads.readUnread()
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

  /** An object of the source has changed, or was seen. */
  seen(key: ObjectKey, { version, generation = 0 }: SeenMetadata): void {
    const followed = this.#objects.get(keyText(key))
    if (!this.#changed(followed, version)) return
    if (generation > followed.generation) this.#specChanged(followed)
    this.#readChange(followed)
  }

  #readChange(followed: FollowedObject): void {
    if (this.#awaitsPods(followed)) this.#reads.readAwaiting(followed)
    else this.#reads.readSoon(followed)
  }

  #awaitsPods({ key }: FollowedObject): boolean {
    return this.#namespaces.get(key.namespace)?.awaitsPods(keyText(key)) === true
  }

  /** A rollout has begun: a workload is not healthy until it was read, and it is read soon. */
  #specChanged(followed: FollowedObject): void {
    const { key, kind, version, verdict } = followed
    followed.isSteady = false
    followed.cancelRead?.()
    Object.assign(followed, { cancelRead: undefined, isAwaiting: false })
    if (verdict?.word !== 'Healthy' || !isSummary(kindKey(kind.group, kind.kind))) return
    this.#namespaces.get(key.namespace)?.delete(keyText(key))
    this.#set(followed, { key, version, word: 'Progressing', cause: undefined })
  }

  /** An object does not exist any more, or has lost the source's label. */
  left(key: ObjectKey): void {
    const followed = this.#objects.get(keyText(key))
    if (this.#changed(followed, '')) this.#reads.readLater(followed)
  }

  /**
   * Takes a whole object that others have received, if it is newer than the one that was read. An object that was not
   * read since its apply is read: only then is it known to be of this commit.
   */
  taken(key: ObjectKey, object: KubernetesObject): void {
    const followed = this.#objects.get(keyText(key))
    if (!followed?.verdict || !isNewer(textAt(object, 'metadata.resourceVersion'), followed.resourceVersion)) return
    this.#judge(followed, object, this.#reads.next())
  }

  /** Reads all objects again, by pages: no watch reports their changes. */
  refresh(): void {
    this.#reads.refresh()
  }

  get summary(): SourceHealthSummary {
    const counts = { Healthy: 0, Progressing: 0, Degraded: 0, Suspended: 0, Missing: 0, Unknown: 0 }
    const unhealthy: HealthVerdict[] = []
    let unread = this.#unserved
    for (const { verdict, isPending } of this.#objects.values()) {
      if (!verdict || isPending) {
        unread += 1
        continue
      }
      counts[verdict.word] += 1
      if (verdict.word !== 'Healthy') unhealthy.push(verdict)
    }
    unhealthy.sort((one, other) => order.indexOf(one.word) - order.indexOf(other.word))
    const unlisted = [...new Set([...this.#namespaces.values()].flatMap((one) => one.unlisted))].sort()
    return { counts, unread, unhealthy, unlisted }
  }

  /** Reads the objects that the round has written so far. Never rejects. */
  async #roundWaits(): Promise<void> {
    try {
      const kinds = this.#written.size > 0 ? await this.#components.kinds.current(this.#signal) : undefined
      for (const key of this.#written.values()) {
        const kind = kinds?.find(key)
        if (kind && this.#isJudged(kind) && !this.#objects.has(keyText(key))) this.#follow(key, kind)
      }
      this.#written.clear()
      this.#reads.readUnread()
    } catch (error) {
      this.#reads.warn(error)
    }
  }

  #isJudged({ group, kind }: ClusterKind): boolean {
    return this.#components.isJudged(kindKey(group, kind))
  }

  #follow(key: ObjectKey, kind: ClusterKind): FollowedObject {
    this.#updates += 1
    const followed = unreadObject(key, kind, this.#updates)
    this.#objects.set(keyText(key), followed)
    return followed
  }

  /** Earlier reads of the object do not count any more. */
  #forgetVerdict(followed: FollowedObject): void {
    this.#updates += 1
    this.#namespaces.get(followed.key.namespace)?.delete(keyText(followed.key))
    Object.assign(followed, { verdict: undefined, hasFailed: false, since: this.#updates })
  }

  /** @returns true: it is to be read again */
  #changed(followed: FollowedObject | undefined, version: string): followed is FollowedObject {
    if (!followed) return false
    followed.seenVersion = version
    followed.seenAt = this.#reads.next()
    return followed.verdict !== undefined && followed.resourceVersion !== version
  }

  /** @param from - place of the read in the order of events and reads */
  #judge(followed: FollowedObject, read: KubernetesObject, from: number): void {
    const { kind, key, version } = followed
    followed.resourceVersion = textAt(read, 'metadata.resourceVersion')
    followed.generation = numberAt(read, 'metadata.generation') ?? 0
    followed.readFrom = from
    followed.readAt = this.#components.clock.now()
    const isCleanedUp = numberAt(read, 'spec.ttlSecondsAfterFinished') !== undefined
    if (kind.group === 'batch' && kind.kind === 'Job' && isCleanedUp) followed.runsOnce = true
    const before = followed.verdict?.word
    const object = slimObject({ apiVersion: apiVersionOf(kind), kind: kind.kind }, read)
    const verdict = this.#namespaceOf(key.namespace).put({ key, version }, object)
    followed.isSteady = before === 'Healthy' && verdict.word === 'Healthy'
    this.#set(followed, verdict)
    const hasChanged = followed.seenAt > from && followed.seenVersion !== followed.resourceVersion
    if (hasChanged) this.#readChange(followed) // the read may be older than the event
  }

  #judgeAbsent(followed: FollowedObject, from: number): void {
    const { key, version, runsOnce, hasFailed } = followed
    followed.resourceVersion = ''
    followed.generation = 0
    this.#namespaces.get(key.namespace)?.delete(keyText(key))
    const word = runsOnce && !hasFailed ? 'Healthy' : 'Missing'
    this.#set(followed, { key, version, word, cause: undefined })
    if (followed.seenAt > from && followed.seenVersion !== '') this.#reads.readSoon(followed) // it was made meanwhile
  }

  #judgeUnreadable(followed: FollowedObject, text: string): void {
    const { key, version } = followed
    this.#namespaces.get(key.namespace)?.delete(keyText(key))
    const cause = { culprit: key, reason: notReadable, text, since: undefined }
    this.#set(followed, { key, version, word: 'Unknown', cause })
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
      if (followed?.isAwaiting && !this.#awaitsPods(followed)) this.#reads.awaitedCame(followed)
      if (followed?.verdict) this.#note(followed, verdict)
    }
    this.#components.onChange()
  }

  #set(followed: FollowedObject, verdict: HealthVerdict): void {
    this.#note(followed, verdict)
    this.#components.onChange()
  }

  #note(followed: FollowedObject, verdict: HealthVerdict): void {
    followed.verdict = verdict
    followed.hasFailed ||= verdict.word === 'Degraded'
  }

  #isCurrent(followed: FollowedObject): boolean {
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

  #stopIdle(): void {
    this.#written.clear()
    this.#cancelIdle?.()
    this.#cancelIdle = undefined
  }

  #stop(): void {
    this.#reads.stop()
    this.#stopIdle()
    for (const { cancelRead } of this.#objects.values()) cancelRead?.()
    for (const namespace of this.#namespaces.values()) namespace.stop()
    this.#namespaces.clear()
  }
}

const decimal = /^[1-9]\d{0,39}$/

/** True if a resourceVersion is known to be later than another one of the same object. */
function isNewer(version: string, than: string): boolean {
  return decimal.test(version) && decimal.test(than) && BigInt(version) > BigInt(than)
}
