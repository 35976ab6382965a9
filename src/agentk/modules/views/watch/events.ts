import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { Counter } from '../../../../lib/counter.ts'
import { Listeners } from '../../../../lib/listeners.ts'
import type { EventRow } from '../../../../proto/views-json.ts'
import { normalReasons } from '../../../health/kas/evidence.ts'
import { eventKind } from '../access/list-rights.ts'
import { compareEvents, readEvent } from '../projection/event.ts'
import { OpenLists } from '../store/open-lists.ts'
import type { EventChange, FollowState, FollowStates, ObjectSink, ReadonlyEvents } from '../store/record.ts'
import type { FollowedKind } from './part-watch.ts'

export interface WarningsOptions {
  /** bound of all events: past it, the oldest of the namespace with the most are removed */
  readonly maxEvents?: number
  /** bound of the events of one object: the latest stay */
  readonly maxPerObject?: number
}

const defaultMaxEvents = 5000
const defaultMaxPerObject = 10
/** Share of events that are removed at once when there are too many: finding the oldest reads each event. */
const shedShare = 0.1

/** Events of type Warning. */
export const warnings: FollowedKind = {
  kind: eventKind,
  isMetadata: false,
  fieldSelector: 'type=Warning',
}

/** Normal events that show why an object is not well, such as claims without a volume. */
export const normalEvidence: readonly FollowedKind[] = normalReasons.map((reason) => ({
  kind: eventKind,
  isMetadata: false,
  fieldSelector: `type=Normal,reason=${reason}`,
}))

/** Passes everything to both sinks. */
export function bothSinks(one: ObjectSink, other: ObjectSink): ObjectSink {
  const each = (to: (sink: ObjectSink) => void) => {
    for (const sink of [one, other]) to(sink)
  }
  return {
    listing: (...args) => each((sink) => sink.listing(...args)),
    put: (...args) => each((sink) => sink.put(...args)),
    deleted: (...args) => each((sink) => sink.deleted(...args)),
    listed: (...args) => each((sink) => sink.listed(...args)),
    dropped: (...args) => each((sink) => sink.dropped(...args)),
    state: (...args) => each((sink) => sink.state(...args)),
  }
}

/** Latest Warnings of the cluster, without regard to the rights of callers. */
export class Warnings implements ObjectSink, ReadonlyEvents {
  readonly #options: Required<WarningsOptions>
  /** by the event's own uid */
  readonly #events = new Map<string, EventRow>()
  readonly #order = new EventOrder()
  /** uids of events by namespace and named object: its name is free text, and counts in that namespace alone */
  readonly #byObject = new Map<string, Set<string>>()
  readonly #lists = new OpenLists()
  readonly #listeners = new Listeners<EventChange>()
  /** undefined: the watch has not begun */
  #state: FollowState | undefined
  readonly #stateListeners = new Listeners()
  readonly states: FollowStates = {
    all: () => (this.#state ? [[eventKind, this.#state]] : []),
    onChange: (listener) => this.#stateListeners.add(listener),
  }

  constructor({ maxEvents = defaultMaxEvents, maxPerObject = defaultMaxPerObject }: WarningsOptions = {}) {
    this.#options = { maxEvents, maxPerObject }
  }

  get size(): number {
    return this.#events.size
  }

  all(): Iterable<EventRow> {
    return this.#order.all()
  }

  /** Yields the events of the same namespace that are about the same object. */
  *about(event: Pick<EventRow, 'ns' | 'about'>): Iterable<EventRow> {
    for (const own of this.#byObject.get(objectKey(event)) ?? []) yield this.#events.get(own) as EventRow
  }

  /** Calls the listener at each change, until the returned function is called. */
  onChange(listener: (change: EventChange) => void): () => void {
    return this.#listeners.add(listener)
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    this.#lists.begin(kind, namespace, this.#uidsIn(namespace))
  }

  put(kind: ResourceKind, object: KubernetesObject): void {
    const event = readEvent(object)
    if (!event) return
    this.#lists.see(kind, event.ns, event.u)
    const before = this.#events.get(event.u)
    if (before) this.#forget(before)
    this.#keep(event)
    this.#notify({ before, after: event })
    this.#makeRoom(event)
  }

  deleted(_: ResourceKind, uid: string): void {
    const before = this.#events.get(uid)
    if (!before) return
    this.#forget(before)
    this.#notify({ before, after: undefined })
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    for (const uid of this.#lists.end(kind, namespace)) this.deleted(kind, uid)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    this.#lists.forget(kind, namespace)
    for (const uid of this.#uidsIn(namespace)) this.deleted(kind, uid)
  }

  state(_: ResourceKind, state: FollowState): void {
    this.#state = state
    this.#stateListeners.notify()
  }

  /** @param namespace - undefined: all namespaces */
  #uidsIn(namespace: string | undefined): string[] {
    const events = [...this.#events.values()].filter(({ ns }) => namespace === undefined || ns === namespace)
    return events.map(({ u }) => u)
  }

  #makeRoom(last: EventRow): void {
    const { maxEvents, maxPerObject } = this.#options
    const ofObject = [...this.about(last)]
    const tooMany = ofObject.sort(compareEvents).slice(maxPerObject).reverse()
    const all = this.#events.size > maxEvents ? this.#surplus(Math.ceil(maxEvents * shedShare)) : []
    for (const event of [...tooMany, ...all]) this.deleted(warnings.kind, event.u)
  }

  /** Returns the oldest events of the namespace with the most: a noisy namespace takes no room from others. */
  #surplus(count: number): EventRow[] {
    const counts = new Counter<string>()
    for (const { ns } of this.#events.values()) counts.add(ns)
    const most = counts.most()
    return this.#order.oldest(count, ({ ns }) => ns === most)
  }

  #keep(event: EventRow): void {
    const key = objectKey(event)
    const ofObject = this.#byObject.get(key) ?? new Set()
    this.#byObject.set(key, ofObject.add(event.u))
    this.#events.set(event.u, event)
    this.#order.add(event)
  }

  #forget(event: EventRow): void {
    const key = objectKey(event)
    const ofObject = this.#byObject.get(key)
    ofObject?.delete(event.u)
    if (ofObject?.size === 0) this.#byObject.delete(key)
    this.#events.delete(event.u)
    this.#order.delete(event)
  }

  #notify(change: EventChange): void {
    this.#listeners.notify(change)
  }
}

const objectKey = ({ ns, about }: Pick<EventRow, 'ns' | 'about'>) => JSON.stringify([ns, ...about])

/** Events of different uids, in order: all views read them, and changes are few. */
class EventOrder {
  readonly #events: EventRow[] = []

  all(): Iterable<EventRow> {
    return this.#events.values()
  }

  add(event: EventRow): void {
    this.#events.splice(this.#placeOf(event), 0, event)
  }

  delete(event: EventRow): void {
    const place = this.#placeOf(event)
    if (this.#events[place]?.u === event.u) this.#events.splice(place, 1)
  }

  /** Returns at most `count` events that match, the oldest first. */
  oldest(count: number, isIt: (event: EventRow) => boolean): EventRow[] {
    const found: EventRow[] = []
    for (let i = this.#events.length - 1; i >= 0 && found.length < count; i--) {
      const event = this.#events[i] as EventRow
      if (isIt(event)) found.push(event)
    }
    return found
  }

  /** Index at which the event is, or would be. */
  #placeOf(event: EventRow): number {
    let [from, to] = [0, this.#events.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (compareEvents(this.#events[middle] as EventRow, event) < 0) from = middle + 1
      else to = middle
    }
    return from
  }
}
