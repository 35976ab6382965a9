import { KasError } from '../../../lib/errors.ts'
import type { EventRow } from '../../../proto/views-json.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { ResourceKind } from '../../cluster/api-kinds.ts'
import { type KubernetesObject, kindOf, listAt, numberAt, textAt } from '../../health/object.ts'
import { eventKind } from './access/visibility.ts'
import { compareEvents, EventOrder } from './event-order.ts'
import type { FollowedKind } from './part-watch.ts'
import { cut, maxText } from './projection/bounds.ts'
import type { EventChange, FollowState, FollowStates, ObjectSink, ReadonlyEvents } from './record.ts'

export interface WarningsOptions {
  /** of all objects: the oldest of the namespace with the most go first */
  readonly maxEvents?: number
  /** of one object: the latest */
  readonly maxPerObject?: number
}

const defaultMaxEvents = 5000
const defaultMaxPerObject = 10
/** Of all events, those that go at once when there are too many: to find them is a look at each. */
const shedShare = 0.1

/** Of an answer to a question for events. */
const maxAnswerBytes = 4 * 1024 * 1024
/** The API server tells them by name, not by time: so many answers are read to find the latest. */
const maxAnswers = 4

/** What is followed of Events. */
export const warnings: FollowedKind = {
  kind: eventKind,
  isMetadata: false,
  query: `fieldSelector=${encodeURIComponent('type=Warning')}`,
}

/** The latest Warnings of the cluster, whoever may see them. */
export class Warnings implements ObjectSink, ReadonlyEvents {
  readonly #options: Required<WarningsOptions>
  /** by their own uid */
  readonly #events = new Map<string, EventRow>()
  readonly #order = new EventOrder()
  /** own uids by namespace and object that they are about: what they say of it is free text, and theirs alone */
  readonly #byObject = new Map<string, Set<string>>()
  /** own uids that the list that is being read has not told yet, by namespace; `''`: all */
  readonly #untold = new Map<string, Set<string>>()
  readonly #listeners = new Set<(change: EventChange) => void>()
  /** undefined: it has not begun */
  #state: FollowState | undefined
  readonly #stateListeners = new Set<() => void>()
  readonly states: FollowStates = {
    all: () => (this.#state ? [[eventKind, this.#state]] : []),
    onChange: (listener) => {
      this.#stateListeners.add(listener)
      return () => this.#stateListeners.delete(listener)
    },
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

  /** Those of the namespace that are about the same object. */
  *about(event: Pick<EventRow, 'ns' | 'about'>): Iterable<EventRow> {
    for (const own of this.#byObject.get(objectKey(event)) ?? []) yield this.#events.get(own) as EventRow
  }

  /** Called at each change, until the returned function is called. */
  onChange(listener: (change: EventChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  listing(_: ResourceKind, namespace = ''): void {
    const all = [...this.#events.values()].filter(({ ns }) => namespace === '' || ns === namespace)
    this.#untold.set(namespace, new Set(all.map(({ u }) => u)))
  }

  put(_: ResourceKind, object: KubernetesObject): void {
    const event = readEvent(object)
    if (!event) return
    this.#untold.get('')?.delete(event.u)
    this.#untold.get(event.ns)?.delete(event.u)
    const before = this.#events.get(event.u)
    if (before) this.#forget(before)
    this.#keep(event)
    this.#tell({ before, after: event })
    this.#makeRoom(event)
  }

  gone(_: ResourceKind, uid: string): void {
    const before = this.#events.get(uid)
    if (!before) return
    this.#forget(before)
    this.#tell({ before, after: undefined })
  }

  listed(kind: ResourceKind, namespace = ''): void {
    for (const uid of this.#untold.get(namespace) ?? []) this.gone(kind, uid)
    this.#untold.delete(namespace)
  }

  dropped(kind: ResourceKind, namespace = ''): void {
    this.#untold.delete(namespace)
    for (const { u, ns } of [...this.#events.values()]) if (namespace === '' || ns === namespace) this.gone(kind, u)
  }

  state(_: ResourceKind, state: FollowState): void {
    this.#state = state
    for (const listener of this.#stateListeners) listener()
  }

  #makeRoom(last: EventRow): void {
    const { maxEvents, maxPerObject } = this.#options
    const ofObject = [...this.about(last)]
    const tooMany = ofObject.sort(compareEvents).slice(maxPerObject).reverse()
    const all = this.#events.size > maxEvents ? this.#surplus(Math.ceil(maxEvents * shedShare)) : []
    for (const event of [...tooMany, ...all]) this.gone(warnings.kind, event.u)
  }

  /** Of the namespace that has the most: a noisy one takes no other's room. */
  #surplus(count: number): EventRow[] {
    const counts = new Map<string, number>()
    for (const { ns } of this.#events.values()) counts.set(ns, (counts.get(ns) ?? 0) + 1)
    const [[most] = ['']] = [...counts].sort(([, one], [, other]) => other - one)
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

  #tell(change: EventChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}

export interface EventsQuestion {
  /** empty: all */
  readonly namespace: string
  /** uid of the object that they are about; absent: any */
  readonly about?: string
  /** at most, and of one answer */
  readonly limit: number
  /** whom it acts as: `impersonationHeaders` */
  readonly headers: readonly string[]
}

export interface LatestEvents {
  /** the latest first */
  readonly rows: readonly EventRow[]
  /** older ones, and those that were not read: of these one at least */
  readonly more: number
}

/**
 * Events of any type, as the API server tells them to the caller; Warnings alone are followed.
 *
 * @returns the latest of the first `maxAnswers` answers, of fewer events each once one is too large; undefined: the caller
 * may not list them there. @throws KasError UNREACHABLE, or the connection's error
 */
export async function askEvents(
  api: Pick<ApiClient, 'json'>,
  { namespace, about, limit, headers }: EventsQuestion,
  signal: AbortSignal,
): Promise<LatestEvents | undefined> {
  const within = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const selected =
    about === undefined ? '' : `&fieldSelector=${encodeURIComponent(`involvedObject.uid=${escaped(about)}`)}`
  let latest: EventRow[] = []
  let more = 0
  let goOn = ''
  let size = limit
  let unread = 1
  for (let answers = 0; answers < maxAnswers; answers++) {
    const path = `/api/v1${within}/events?limit=${size}${selected}${goOn && `&continue=${encodeURIComponent(goOn)}`}`
    const options = { headers, maxBytes: maxAnswerBytes }
    const answer = await api.json('GET', path, undefined, signal, options).catch((error: unknown) => {
      if (size === 1 || !isTooLarge(error)) throw error
    })
    if (!answer) {
      size = Math.ceil(size / 10)
      continue
    }
    const { status, body } = answer
    if (status === 403) return undefined
    if (status !== 200) {
      const detail = `the API server answered ${status} for events`
      throw new KasError({ code: 'UNREACHABLE', detail, httpStatus: status })
    }
    latest = [...latest, ...listAt(body, 'items').flatMap((item) => readEvent(item) ?? [])].sort(compareEvents)
    more += latest.splice(limit).length
    goOn = textAt(body as KubernetesObject, 'metadata.continue')
    if (goOn === '') return { rows: latest, more }
    unread = numberAt(body as KubernetesObject, 'metadata.remainingItemCount') ?? 1
  }
  return { rows: latest, more: more + unread }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof KasError && error.code === 'MESSAGE_TOO_LARGE'
}

const objectKey = ({ ns, about }: Pick<EventRow, 'ns' | 'about'>) => JSON.stringify([ns, ...about])

/** undefined: it is none */
function readEvent(object: KubernetesObject): EventRow | undefined {
  const u = textAt(object, 'metadata.uid')
  const type = textAt(object, 'type')
  if (u === '' || (type !== 'Normal' && type !== 'Warning')) return undefined
  const about = (object.involvedObject ?? {}) as KubernetesObject
  return {
    u,
    ns: textAt(object, 'metadata.namespace'),
    about: [short(kindOf(about)), short(textAt(about, 'name')), short(textAt(about, 'uid'))],
    type,
    reason: short(textAt(object, 'reason')),
    text: short(textAt(object, 'message')),
    count: numberAt(object, 'count') ?? numberAt(object, 'series.count') ?? 1,
    at: timeOf(object),
  }
}

/** When it was last seen; ms since 1970. */
function timeOf(object: KubernetesObject): number {
  const times = [
    'lastTimestamp',
    'series.lastObservedTime',
    'eventTime',
    'firstTimestamp',
    'metadata.creationTimestamp',
  ]
  const found = times.map((path) => Date.parse(textAt(object, path))).filter((time) => !Number.isNaN(time))
  return found[0] ?? 0
}

const short = (text: string) => cut(text, maxText)

/** In a field selector these have a meaning. */
function escaped(value: string): string {
  return value.replaceAll(/[\\,=]/g, (sign) => `\\${sign}`)
}
