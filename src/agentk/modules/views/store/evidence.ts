import { placeKey } from '../../../../kubernetes/key.ts'
import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { Counter } from '../../../../lib/counter.ts'
import { countsForMs, type Evidence, evidenceOf, subjectOf } from '../../../health/kas/evidence.ts'
import { bounded } from '../../../health/kas/text.ts'
import type { ObjectSink } from './record.ts'

/** bound of the events of one object: the latest stay */
const maxPerObject = 16
/** bound of all events: past it, the oldest of the namespace with the most are removed */
const maxEvidences = 10_000
/** Share of events that are removed at once when there are too many. */
const shedShare = 0.1

/** Object that an event names. */
export interface Subject {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

interface Kept {
  readonly evidence: Evidence
  readonly key: string
  readonly subject: Subject
  /** namespace of the event: callers who may list events there may see it */
  readonly namespace: string
}

export interface EvidencesOptions {
  /** ms since 1970 */
  readonly now: () => number
  /** called when there is more about an object, or less */
  readonly onChange: (subject: Subject) => void
}

/** Evidence from events why objects are not well. It outlives the events, which the API server deletes soon. */
export class Evidences implements ObjectSink {
  readonly #options: EvidencesOptions
  /** by the event's own uid, in order of arrival */
  readonly #kept = new Map<string, Kept>()
  /** uids of events, by subject */
  readonly #bySubject = new Map<string, Set<string>>()
  /** uids of subjects, by kind, namespace and name */
  readonly #uids = new Map<string, Set<string>>()
  readonly #byNamespace = new Counter<string>()

  constructor(options: EvidencesOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#kept.size
  }

  /** Returns the evidence that counts for an object now, also of events that name no uid. */
  of({ kind, namespace, name, uid }: Subject): readonly Evidence[] {
    if (this.#kept.size === 0) return []
    const now = this.#options.now()
    const keys = [keyOf({ kind, namespace, name, uid }), keyOf({ kind, namespace, name, uid: '' })]
    const events = keys.flatMap((key) => [...(this.#bySubject.get(key) ?? [])])
    const found = events.map((event) => (this.#kept.get(event) as Kept).evidence)
    return found.filter(({ last }) => now - last <= countsForMs)
  }

  /** Returns the evidence for all objects that have had a name, one after the other, each with its uid. */
  ofName(kind: string, namespace: string, name: string): readonly (readonly [uid: string, evidence: Evidence])[] {
    const uids = this.#uids.get(placeKey(kind, namespace, name)) ?? []
    return [...uids].flatMap((uid) => this.of({ kind, namespace, name, uid }).map((one) => [uid, one] as const))
  }

  /** Removes evidence that no longer counts. */
  expire(): void {
    const now = this.#options.now()
    for (const [event, { evidence }] of this.#kept) if (now - evidence.last > countsForMs) this.#forget(event)
  }

  put(_: ResourceKind, object: KubernetesObject): void {
    const event = textAt(object, 'metadata.uid')
    const evidence = event === '' ? undefined : evidenceOf(object, this.#options.now())
    if (!evidence) return
    const namespace = textAt(object, 'metadata.namespace')
    const subject = subjectOf(object)
    // events of a cluster-scoped object are in any namespace that its controller chooses
    const isNear = subject.namespace === namespace || subject.namespace === ''
    if (!isNear || [subject.kind, subject.name, subject.uid].some((text) => text.length > 253)) return
    this.#forget(event, false)
    const key = keyOf(subject)
    const own = this.#bySubject.get(key) ?? new Set()
    this.#bySubject.set(key, own.add(event))
    const place = placeKey(subject.kind, subject.namespace, subject.name)
    this.#uids.set(place, (this.#uids.get(place) ?? new Set()).add(subject.uid))
    this.#kept.set(event, { evidence: copyOf(evidence), key, subject, namespace })
    this.#byNamespace.add(namespace)
    if (own.size > maxPerObject) this.#forget(this.#oldestOf(own), false)
    if (this.#kept.size > maxEvidences) this.#makeRoom()
    this.#options.onChange(subject)
  }

  deleted(): void {}
  listing(): void {}
  listed(): void {}
  dropped(): void {}
  state(): void {}

  #oldestOf(events: Iterable<string>): string {
    let oldest: readonly [event: string, last: number] | undefined
    for (const event of events) {
      const { last } = (this.#kept.get(event) as Kept).evidence
      if (!oldest || last < oldest[1]) oldest = [event, last]
    }
    return oldest?.[0] ?? ''
  }

  /** Removes the oldest of the namespace with the most: a noisy namespace takes no room from others. */
  #makeRoom(): void {
    const most = this.#byNamespace.most()
    let left = Math.ceil(maxEvidences * shedShare)
    for (const [event, { namespace }] of this.#kept) {
      if (namespace !== most) continue
      this.#forget(event)
      if (--left === 0) return
    }
  }

  #forget(event: string, notifies = true): void {
    const known = this.#kept.get(event)
    if (!known) return
    this.#kept.delete(event)
    const own = this.#bySubject.get(known.key)
    own?.delete(event)
    if (own?.size === 0) this.#forgetSubject(known)
    this.#byNamespace.add(known.namespace, -1)
    if (notifies) this.#options.onChange(known.subject)
  }

  #forgetSubject({ key, subject: { kind, namespace, name, uid } }: Kept): void {
    this.#bySubject.delete(key)
    const place = placeKey(kind, namespace, name)
    const uids = this.#uids.get(place)
    uids?.delete(uid)
    if (uids?.size === 0) this.#uids.delete(place)
  }
}

function keyOf({ kind, namespace, name, uid }: Subject): string {
  return `${placeKey(kind, namespace, name)}\n${uid}`
}

/** Copies the text that is kept, so that the rest is freed. */
function copyOf(evidence: Evidence): Evidence {
  return { ...evidence, message: Buffer.from(bounded(evidence.message)).toString() }
}
