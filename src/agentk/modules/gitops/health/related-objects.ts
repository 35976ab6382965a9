import {
  isBeingDeleted,
  type KubernetesObject,
  listAt,
  nameOf,
  textAt,
  textField,
  uidOf,
} from '../../../../kubernetes/object.ts'
import { withQuery } from '../../../../kubernetes/path.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { countsForMs, type Evidence, evidenceOf, subjectOf } from '../../../health/kas/evidence.ts'
import { type RelatedKind, relatedKinds } from './related-kinds.ts'
import { type RelatedSink, RelatedWatch, type RelatedWatchComponents } from './related-watch.ts'
import { maxObjectChars, sizeOf, slimObject } from './slim-object.ts'

/** Limit of objects of one kind that are kept of one namespace: some 6 KiB each. */
const maxKept = 200
/** The same for objects whose owner is not known yet. */
const maxStrays = 200
/** Limit of events that are kept of one namespace: some 1 KiB each. */
const maxEvents = 500
/** Reasons of the many events that explain nothing. Some Normal ones do: `Killing` says which probe has failed. */
const idleReasons = [
  'Scheduled',
  'Pulling',
  'Pulled',
  'Created',
  'Started',
  'Completed',
  'SuccessfulCreate',
  'SuccessfulDelete',
  'ScalingReplicaSet',
  'SuccessfulRescale',
]
/** Limit of deleted Pods that are remembered of one namespace. */
const maxDeletedPods = 200

export interface RelatedObjectsComponents extends RelatedWatchComponents {
  readonly onChange: () => void
  /** limits the objects that are kept, in characters */
  readonly room: Pick<Counter<string>, 'enter'>
}

/** Kinds that cannot be listed, or only listed: `Pod: agentk may not list them (403)`. */
export type Trouble = ReadonlyMap<string, string>

/** Objects of one namespace that workloads own, and their events, as one account sees them. */
export class RelatedObjects {
  readonly #components: RelatedObjectsComponents
  readonly #namespace: string
  readonly #ended = new AbortController()
  /** uids of the workloads that are to be explained */
  #roots: ReadonlySet<string> = new Set()
  /** by uid */
  readonly #kept = new Map<string, KubernetesObject>()
  /** by uid: functions that give the room of kept objects and strays back */
  readonly #releases = new Map<string, () => void>()
  /** objects of owners that are not kept: these may come, or become roots */
  readonly #strays = new Map<string, KubernetesObject>()
  readonly #events = new Map<string, { readonly about: string; readonly evidence: Evidence }>()
  readonly #counts = new Map<string, number>()
  readonly #whole = new Set<string>()
  /** kinds of which some objects are not kept, since their last list began */
  readonly #cut = new Set<string>()
  /** by kind */
  readonly #watches = new Map<string, RelatedWatch>()
  /** kinds of which an object without a known owner was dropped, since their last list began */
  readonly #dropped = new Set<string>()
  /** by name: times at which Pods were deleted, in ms since 1970 */
  readonly #deletedPods = new Map<string, number>()
  readonly #trouble = new Map<string, string>()

  constructor(components: RelatedObjectsComponents, namespace: string) {
    this.#components = components
    this.#namespace = namespace
    for (const kind of relatedKinds) this.#follow(kind)
    this.#followEvents()
  }

  get objects(): Iterable<KubernetesObject> {
    return this.#kept.values()
  }

  get trouble(): Trouble {
    return this.#trouble
  }

  /** True if all objects of a kind (`group/Kind`) were read. */
  isWhole(kind: string): boolean {
    return this.#whole.has(kind)
  }

  /** Events that count now, by the uid of the object that they are about. */
  evidence(): ReadonlyMap<string, readonly Evidence[]> {
    const now = this.#components.clock.now()
    const all = new Map<string, Evidence[]>()
    for (const { about, evidence } of this.#events.values()) {
      if (now - evidence.last > countsForMs) continue
      const known = all.get(about)
      if (known) known.push(evidence)
      else all.set(about, [evidence])
    }
    return all
  }

  /** True if Pods of a workload are not ready, as a watch shows them. @param root - its uid */
  awaitsPods(root: string): boolean {
    if (this.#trouble.has('Pod')) return false
    const isOf = (uid: string): boolean => uid === root || ownersOf(this.#kept.get(uid)).includes(root)
    const pods = [...this.#kept.values()].filter((one) => one.kind === 'Pod' && !isBeingDeleted(one))
    return pods.some((pod) => ownersOf(pod).some(isOf))
  }

  /** Returns the time at which a Pod of a workload was deleted, in ms since 1970; undefined: it was not, or long ago. */
  deletedAt(pod: string): number | undefined {
    return this.#deletedPods.get(pod)
  }

  /** Sets the workloads that are to be explained. @param roots - their uids */
  explain(roots: ReadonlySet<string>): void {
    const isNew = [...roots].some((uid) => !this.#roots.has(uid))
    this.#roots = roots
    this.#adopt()
    // dropped objects may be theirs
    if (isNew) for (const kind of this.#dropped) this.#watches.get(kind)?.relist('wanted')
  }

  stop(): void {
    this.#ended.abort()
    for (const release of this.#releases.values()) release()
    this.#releases.clear()
  }

  #follow(kind: RelatedKind): void {
    const { apiVersion, plural } = kind
    const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    /** uids of the list that is being read; undefined: none is */
    let listed: Set<string> | undefined
    this.#watch(`${base}/namespaces/${this.#namespace}/${plural}`, kind.kind, {
      put: (object) => {
        listed?.add(uidOf(object))
        this.#put(kind, object)
      },
      deleted: (object) => this.#deleted(kind, uidOf(object)),
      listing: () => {
        listed = new Set()
        this.#cut.delete(kind.kind)
        this.#dropped.delete(kind.kind)
      },
      listed: () => {
        this.#deleteAll(kind, (uid) => !listed?.has(uid))
        listed = undefined
        if (kind.isNamed && !this.#cut.has(kind.kind)) this.#whole.add(kind.kind)
        this.#changed()
      },
      refused: () => {
        this.#whole.delete(kind.kind)
        this.#deleteAll(kind, () => true)
      },
    })
  }

  #followEvents(): void {
    const fieldSelector = idleReasons.map((reason) => `reason!=${reason}`).join(',')
    const path = withQuery(`/api/v1/namespaces/${this.#namespace}/events`, { fieldSelector })
    // the API server deletes them soon; they count until they are too old
    this.#watch(path, 'Event', {
      put: (event) => this.#putEvent(event),
      deleted: () => undefined,
      listing: () => this.#cut.delete('Event'),
      listed: () => this.#changed(),
      refused: () => undefined,
    })
  }

  #watch(path: string, word: string, to: Omit<RelatedSink, 'trouble' | 'leftOut'>): void {
    const sink: RelatedSink = {
      ...to,
      leftOut: () => this.#leaveOut(word),
      trouble: (text) => {
        if (text !== undefined || !this.#cut.has(word)) this.#setTrouble(word, text)
      },
    }
    this.#watches.set(word, new RelatedWatch(this.#components, path, sink, this.#ended.signal))
  }

  #put(kind: RelatedKind, read: KubernetesObject): void {
    const object = slimObject(kind, read)
    const uid = uidOf(object)
    if (uid === '') return
    if (kind.isIdle(object) || !this.#takeRoom(kind, uid, object)) this.#delete(kind, uid)
    else if (kind.isNamed || this.#isOwned(object)) this.#keep(kind, uid, object)
    else this.#stray(kind, uid, object)
  }

  #keep(kind: RelatedKind, uid: string, object: KubernetesObject): void {
    const isNew = !this.#kept.has(uid)
    const count = this.#counts.get(kind.kind) ?? 0
    if (isNew && count >= maxKept) {
      this.#leaveOut(kind.kind)
      this.#delete(kind, uid)
      return
    }
    if (isNew) this.#counts.set(kind.kind, count + 1)
    this.#strays.delete(uid)
    this.#kept.set(uid, object)
    if (isNew && kind.isOwner) this.#adopt()
    this.#changed()
  }

  /** @returns false: there is no room for the object */
  #takeRoom({ kind }: RelatedKind, uid: string, object: KubernetesObject): boolean {
    this.#releases.get(uid)?.()
    this.#releases.delete(uid)
    const size = sizeOf(object)
    const release = size > maxObjectChars ? undefined : this.#components.room.enter(this.#namespace, size)
    if (release) this.#releases.set(uid, release)
    else this.#leaveOut(kind)
    return release !== undefined
  }

  /** Some objects of a kind are not kept. */
  #leaveOut(kind: string): void {
    this.#whole.delete(kind)
    this.#cut.add(kind)
    this.#watches.get(kind)?.relist('cut') // some may have gone by then
    this.#setTrouble(kind, 'there are too many of them, or too large ones, to read all')
  }

  #delete({ kind }: RelatedKind, uid: string): void {
    this.#releases.get(uid)?.()
    this.#releases.delete(uid)
    this.#strays.delete(uid)
    if (!this.#kept.delete(uid)) return
    this.#counts.set(kind, (this.#counts.get(kind) ?? 1) - 1)
    this.#changed()
  }

  #deleteAll(kind: RelatedKind, hasLeft: (uid: string) => boolean): void {
    for (const [uid, object] of [...this.#kept, ...this.#strays]) {
      if (object.kind === kind.kind && hasLeft(uid)) this.#deleted(kind, uid)
    }
  }

  /** Takes an object that does not exist any more. */
  #deleted(kind: RelatedKind, uid: string): void {
    const pod = kind.kind === 'Pod' ? this.#kept.get(uid) : undefined
    if (pod) {
      this.#deletedPods.delete(nameOf(pod))
      this.#deletedPods.set(nameOf(pod), this.#components.clock.now())
      const [oldest] = this.#deletedPods.keys()
      if (oldest !== undefined && this.#deletedPods.size > maxDeletedPods) this.#deletedPods.delete(oldest)
    }
    this.#delete(kind, uid)
  }

  /** Keeps an object whose owner may come. The oldest makes room. */
  #stray({ kind }: RelatedKind, uid: string, object: KubernetesObject): void {
    if (this.#kept.delete(uid)) this.#counts.set(kind, (this.#counts.get(kind) ?? 1) - 1) // its workload is well
    this.#strays.delete(uid)
    this.#strays.set(uid, object)
    const [oldest] = this.#strays
    if (!oldest || this.#strays.size <= maxStrays) return
    const [first, { kind: dropped }] = oldest
    this.#strays.delete(first)
    this.#releases.get(first)?.()
    this.#releases.delete(first)
    this.#dropped.add(String(dropped))
  }

  /** Keeps the strays whose owner is known now. */
  #adopt(): void {
    for (const [uid, object] of this.#strays) {
      const kind = relatedKinds.find((one) => one.kind === object.kind)
      if (kind && this.#isOwned(object)) this.#keep(kind, uid, object)
    }
  }

  #isOwned(object: KubernetesObject): boolean {
    return ownersOf(object).some((uid) => this.#roots.has(uid) || this.#kept.has(uid))
  }

  #putEvent(event: KubernetesObject): void {
    const evidence = evidenceOf(event, this.#components.clock.now())
    const about = subjectOf(event).uid
    const uid = textAt(event, 'metadata.uid')
    if (!evidence || about === '' || uid === '') return
    this.#events.delete(uid)
    this.#events.set(uid, { about, evidence })
    const [oldest] = this.#events.keys()
    if (oldest !== undefined && this.#events.size > maxEvents) this.#events.delete(oldest)
    if (this.#kept.has(about) || this.#roots.has(about)) this.#changed()
  }

  #setTrouble(word: string, text: string | undefined): void {
    if (this.#trouble.get(word) === text) return
    if (text === undefined) this.#trouble.delete(word)
    else this.#trouble.set(word, text)
    this.#changed()
  }

  #changed(): void {
    if (!this.#ended.signal.aborted) this.#components.onChange()
  }
}

/** Returns the uids of an object's owners. */
function ownersOf(object: KubernetesObject | undefined): readonly string[] {
  return listAt(object, 'metadata.ownerReferences').map((owner) => textField(owner, 'uid'))
}
