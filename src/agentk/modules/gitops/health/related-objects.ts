import { type KubernetesObject, listAt, textAt, textField, uidOf } from '../../../../kubernetes/object.ts'
import { withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Counter } from '../../../../lib/counter.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { countsForMs, type Evidence, evidenceOf, subjectOf } from '../../../health/kas/evidence.ts'
import { type RelatedKind, relatedKinds } from './related-kinds.ts'
import { maxObjectChars, sizeOf, slimObject } from './slim-object.ts'

/** Limit of objects of one kind that are kept of one namespace: some 6 KiB each. */
const maxKept = 200
/** The same for objects whose owner is not known yet. */
const maxStrays = 200
/** Limit of events that are kept of one namespace: some 1 KiB each. */
const maxEvents = 500
/** objects in a page */
const pageSize = 100
/** A kind that may not be watched is listed again after this. ms */
const listAgainMs = 10_000
/** Statuses of a collection that may not be read, does not exist, or cannot be watched. */
const refusals: ReadonlySet<number> = new Set([403, 404, 405])

export interface RelatedObjectsComponents {
  /** acts as the source's account */
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly onChange: () => void
  /** limits the objects that are kept, in characters */
  readonly room: Pick<Counter<string>, 'enter'>
  readonly clock: Clock
  readonly random: () => number
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

  /** Sets the workloads that are to be explained. @param roots - their uids */
  explain(roots: ReadonlySet<string>): void {
    this.#roots = roots
    this.#adopt()
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
      deleted: (object) => this.#delete(kind, uidOf(object)),
      listing: () => {
        listed = new Set()
        this.#cut.delete(kind.kind)
      },
      listed: () => {
        this.#deleteAll(kind, (uid) => !listed?.has(uid))
        listed = undefined
        if (kind.isNamed && !this.#cut.has(kind.kind)) this.#whole.add(kind.kind)
      },
      refused: () => this.#deleteAll(kind, () => true),
    })
  }

  #followEvents(): void {
    const path = withQuery(`/api/v1/namespaces/${this.#namespace}/events`, { fieldSelector: 'type=Warning' })
    // the API server deletes them soon; they count until they are too old
    this.#watch(path, 'Event', { put: (event) => this.#putEvent(event) })
  }

  #watch(path: string, word: string, to: Followed): void {
    const { client, clock, random } = this.#components
    let isListed = false
    const sink: WatchSink = {
      put: (object) => to.put(object as KubernetesObject),
      deleted: (object) => to.deleted?.(object as KubernetesObject),
      listing: () => to.listing?.(),
      listed: () => {
        isListed = true
        to.listed?.()
        this.#changed()
      },
      following: (is) => {
        if (is && !this.#cut.has(word)) this.#setTrouble(word, undefined)
      },
      ended: ({ status }) => {
        if (!refusals.has(status)) return
        if (!isListed) {
          this.#whole.delete(word)
          to.refused?.()
        }
        const often = `every ${listAgainMs / 1000} s`
        const text = isListed ? `read ${often}: agentk may not watch them` : 'agentk may not list them'
        this.#setTrouble(word, `${text} (${status})`)
        isListed = false
      },
      leftOut: () => this.#leaveOut(word),
    }
    const options = { path, pageSize, leavesOut: true, resumes: true, times: { deniedMs: listAgainMs } }
    void new ObjectWatch({ client, sink, clock, random }, options).run(this.#ended.signal)
  }

  #put(kind: RelatedKind, read: KubernetesObject): void {
    const object = slimObject(kind, read)
    const uid = uidOf(object)
    if (uid === '') return
    if (kind.isIdle(object) || !this.#takeRoom(kind, uid, object)) this.#delete(kind, uid)
    else if (kind.isNamed || this.#isOwned(object)) this.#keep(kind, uid, object)
    else this.#stray(uid, object)
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
      if (object.kind === kind.kind && hasLeft(uid)) this.#delete(kind, uid)
    }
  }

  /** Keeps an object whose owner may come. The oldest makes room. */
  #stray(uid: string, object: KubernetesObject): void {
    this.#strays.delete(uid)
    this.#strays.set(uid, object)
    const [oldest] = this.#strays.keys()
    if (oldest === undefined || this.#strays.size <= maxStrays) return
    this.#strays.delete(oldest)
    this.#releases.get(oldest)?.()
    this.#releases.delete(oldest)
  }

  /** Keeps the strays whose owner is known now. */
  #adopt(): void {
    for (const [uid, object] of this.#strays) {
      const kind = relatedKinds.find((one) => one.kind === object.kind)
      if (kind && this.#isOwned(object)) this.#keep(kind, uid, object)
    }
  }

  #isOwned(object: KubernetesObject): boolean {
    return listAt(object, 'metadata.ownerReferences').some((owner) => {
      const uid = textField(owner, 'uid')
      return this.#roots.has(uid) || this.#kept.has(uid)
    })
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

/** Receives the objects of one kind. */
interface Followed {
  put(object: KubernetesObject): void
  deleted?(object: KubernetesObject): void
  listing?(): void
  listed?(): void
  /** They may not be listed. */
  refused?(): void
}
