import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Counter } from '../../../../lib/counter.ts'
import { Listeners } from '../../../../lib/listeners.ts'
import type { Judgement } from '../store/judgement.ts'
import type {
  EventChange,
  FollowStates,
  ObjectRecord,
  ReadonlyEvents,
  ReadonlyRecords,
  RecordChange,
} from '../store/record.ts'
import { eventKind, namingKinds } from './list-rights.ts'

/** What went is of interest so long: what comes and goes is nothing new to ask about each time. ms */
const keptMs = 30_000

interface Counted {
  kind: ResourceKind
  /** objects, by namespace; 0: none, and yet it is of interest */
  readonly namespaces: Map<string, number>
}

/** Which kinds there are in which namespaces: what there is to ask about. */
export class PresentKinds {
  readonly #kinds = new Map<string, Counted>()
  readonly #clock: Clock
  /** namespaces of which the last object of a kind went, the longest ago first */
  readonly #emptied = new Map<string, { readonly at: number; readonly key: string; readonly namespace: string }>()
  readonly #listeners = new Listeners()
  /** objects that name a Service, by their kind and the namespace of that */
  readonly #serving = new Map<string, Counter<string>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  kinds(): Iterable<{ readonly kind: ResourceKind; readonly namespaces: ReadonlyMap<string, number> }> {
    this.#forget()
    return this.#kinds.values()
  }

  /** Called when there is more to ask about, until the returned function is called. */
  onMore(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /** Where there are objects of it. */
  *namespacesOf(kind: ResourceKind): Iterable<string> {
    for (const [namespace, count] of this.#kinds.get(kind.key)?.namespaces ?? []) if (count > 0) yield namespace
  }

  /** There is an object of it. @returns whether it is the only one there */
  add(kind: ResourceKind, namespace: string): boolean {
    this.note(kind, namespace)
    const { namespaces } = this.#kinds.get(kind.key) as Counted
    const count = (namespaces.get(namespace) ?? 0) + 1
    namespaces.set(namespace, count)
    return count === 1
  }

  /** It is of interest, though there may be none of it. @param namespace - undefined: of the kind alone */
  note(kind: ResourceKind, namespace?: string): void {
    const known = this.#kinds.get(kind.key)
    const isNew = !known || (namespace !== undefined && !known.namespaces.has(namespace))
    const counted = known ?? { kind, namespaces: new Map() }
    counted.kind = kind
    if (!isNew) return
    this.#kinds.set(kind.key, counted)
    if (namespace !== undefined) counted.namespaces.set(namespace, 0)
    this.#listeners.notify()
  }

  /** One object fewer. @returns whether it was the only one there */
  delete(kind: ResourceKind, namespace: string): boolean {
    const namespaces = this.#kinds.get(kind.key)?.namespaces
    const count = (namespaces?.get(namespace) ?? 0) - 1
    namespaces?.set(namespace, Math.max(0, count))
    if (count > 0) return false
    const place = `${kind.key} ${namespace}`
    this.#emptied.delete(place)
    this.#emptied.set(place, { at: this.#clock.now(), key: kind.key, namespace })
    return true
  }

  /** Namespaces of the Services that objects of a kind name which is in none. */
  servingFor({ key }: Pick<ResourceKind, 'key'>): Iterable<string> {
    return this.#serving.get(key)?.counts.keys() ?? []
  }

  /** An object has come that names Services, or has gone. */
  serves({ kind, references }: Pick<ObjectRecord, 'kind' | 'references'>, by: 1 | -1): void {
    if (kind.isNamespaced) return
    const namespaces = this.#serving.get(kind.key) ?? new Counter<string>()
    for (const { kind: named, namespace } of references) {
      if (named !== 'Service' || namespace === '') continue
      if (namespaces.add(namespace, by) !== 1 || by < 0) continue
      this.#serving.set(kind.key, namespaces)
      this.#listeners.notify()
    }
  }

  #forget(): void {
    for (const [place, { at, key, namespace }] of this.#emptied) {
      if (at + keptMs > this.#clock.now()) return
      this.#emptied.delete(place)
      const namespaces = this.#kinds.get(key)?.namespaces
      if (namespaces?.get(namespace) === 0) namespaces.delete(namespace)
    }
  }
}

export interface PresentFeedComponents {
  readonly records: ReadonlyRecords
  readonly states: FollowStates
  readonly events: ReadonlyEvents
  readonly present: PresentKinds
}

/** Keeps what there is to ask rights about: of records and what is said of them, of events, and of what is left out. */
export class PresentFeed {
  readonly #components: PresentFeedComponents

  /** With all that is there. */
  constructor(components: PresentFeedComponents) {
    const { records, events, present } = components
    this.#components = components
    for (const record of records.all()) {
      present.add(record.kind, record.namespace)
      present.serves(record, 1)
      this.#noteNeeds(records.judged(record.uid))
    }
    for (const { ns } of events.all()) present.add(eventKind, ns)
  }

  /** @returns whether a kind is in a namespace now where there was none of it, or the last of it is gone */
  change({ before, after, judged }: RecordChange): boolean {
    const { present } = this.#components
    this.#noteNeeds(judged?.after)
    if (before === after) return false
    if (after) present.serves(after, 1)
    if (before) present.serves(before, -1)
    const isNew = after && present.add(after.kind, after.namespace)
    const isLast = before && present.delete(before.kind, before.namespace)
    return isNew === true || isLast === true
  }

  eventChange({ before, after }: EventChange): void {
    const { present } = this.#components
    if (after) present.add(eventKind, after.ns)
    if (before) present.delete(eventKind, before.ns)
  }

  /** What is not followed, or left out, is shown to who may list it. */
  noteStates(): void {
    const { states, events, present } = this.#components
    for (const [kind, { refusedNamespaces, leftOut }] of [...states.all(), ...events.states.all()]) {
      present.note(kind)
      for (const { namespace } of leftOut) present.note(kind, namespace)
      for (const namespace of refusedNamespaces) {
        for (const one of [kind, ...namingKinds]) present.note(one, namespace)
      }
    }
  }

  /** What somebody must be able to list to get why an object is not well. */
  #noteNeeds(judgement: Judgement | undefined): void {
    const { records, present } = this.#components
    for (const { needs } of judgement ?? []) {
      for (const [key, namespace] of needs) {
        const kind = key === eventKind.key ? eventKind : records.kindOf(key)
        if (kind) present.note(kind, namespace || undefined)
      }
    }
  }
}
