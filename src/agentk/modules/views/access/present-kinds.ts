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

/**
 * A namespace stays of interest this long after the last object of a kind left: short-lived objects cause no new
 * questions. ms
 */
const keptMs = 30_000

interface Counted {
  kind: ResourceKind
  /** number of objects by namespace; 0: none, but the namespace is of interest */
  readonly namespaces: Map<string, number>
}

/** Counts objects by kind and namespace: the kinds and namespaces to ask rights about. */
export class PresentKinds {
  readonly #kinds = new Map<string, Counted>()
  readonly #clock: Clock
  /** namespaces that the last object of a kind left, the oldest first */
  readonly #emptied = new Map<string, { readonly at: number; readonly key: string; readonly namespace: string }>()
  readonly #listeners = new Listeners()
  /** numbers of references to Services, by the referring kind and the Service's namespace */
  readonly #serving = new Map<string, Counter<string>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  kinds(): Iterable<{ readonly kind: ResourceKind; readonly namespaces: ReadonlyMap<string, number> }> {
    this.#forget()
    return this.#kinds.values()
  }

  /** Calls the listener when there is more to ask about, until the returned function is called. */
  onMore(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /** Yields namespaces with objects of the kind. */
  *namespacesOf(kind: ResourceKind): Iterable<string> {
    for (const [namespace, count] of this.#kinds.get(kind.key)?.namespaces ?? []) if (count > 0) yield namespace
  }

  /**
   * Adds an object.
   *
   * @returns true if it is the only one of its kind there
   */
  add(kind: ResourceKind, namespace: string): boolean {
    this.note(kind, namespace)
    const { namespaces } = this.#kinds.get(kind.key) as Counted
    const count = (namespaces.get(namespace) ?? 0) + 1
    namespaces.set(namespace, count)
    return count === 1
  }

  /**
   * Marks a kind as of interest, even without objects.
   *
   * @param namespace - undefined: the kind alone
   */
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

  /**
   * Removes an object.
   *
   * @returns true if it was the only one of its kind there
   */
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

  /** Namespaces of the Services that objects of a cluster-scoped kind name. */
  servingFor({ key }: Pick<ResourceKind, 'key'>): Iterable<string> {
    return this.#serving.get(key)?.counts.keys() ?? []
  }

  /**
   * Counts the Services that an object names.
   *
   * @param by - 1: the object was added; -1: it was removed
   */
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

/** Feeds `PresentKinds` from records, their judgements, events, and objects that are left out. */
export class PresentFeed {
  readonly #components: PresentFeedComponents

  /** Adds all current records and events. */
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

  /** @returns true if the first object of a kind came to a namespace, or the last one left it */
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

  /** Notes kinds that are not followed and objects that are left out: callers who may list them see their names. */
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

  /** Notes the kinds that a caller must be able to list to see why an object is not well. */
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
