import type { Clock } from '../../../../lib/clock.ts'
import type { ResourceKind } from '../../../cluster/api-kinds.ts'
import type { KubernetesObject } from '../../../health/object.ts'
import { Environments } from '../projection/environments.ts'
import { isMetadataAlone, metadataOf } from '../projection/metadata.ts'
import { DueVerdicts } from './due-verdicts.ts'
import { Extras, type ExtrasOptions, extrasDefaults } from './extras.ts'
import type { Interned } from './interned.ts'
import { addShared, areEqual, customParentsOf, recordOf } from './object-record.ts'
import { OpenLists } from './open-lists.ts'
import { Places } from './places.ts'
import type {
  FollowState,
  FollowStates,
  Health,
  ObjectRecord,
  ObjectSink,
  ReadonlyRecords,
  RecordChange,
} from './record.ts'
import type { Rules } from './rules.ts'
import { UidIndex } from './uid-index.ts'

export interface RecordsComponents {
  /** since 1970 */
  readonly clock: Clock
  readonly rules: Pick<Rules, 'judge' | 'wantsStatus'>
  /** swept of what no record has */
  readonly interned: Interned
  /** default: labels alone say them */
  readonly environments?: Environments
}

export interface RecordsOptions {
  /** in the cluster; past them the largest kinds without rules go */
  readonly maxObjects: number
  readonly extras: ExtrasOptions
}

export const recordsDefaults: RecordsOptions = { maxObjects: 200_000, extras: extrasDefaults }

/** A kind that went for want of room is kept again, when it is listed anew, while no more than this is taken. */
const roomyShare = 0.75

/** A sweep looks at each record: not while tables grow with what lives. */
const leastShedShare = 1 / 16

/** what other records are found by */
const indexed = ['owner', 'customParent', 'claim'] as const

const place = (...texts: readonly string[]) => JSON.stringify(texts)

/**
 * What is kept of the objects of a cluster. An object is read as it passes, and dropped.
 *
 * One uid is one object: a kind that serves it too, as another group may, adds nothing. What takes another's name takes
 * its place.
 */
export class Records implements ObjectSink, ReadonlyRecords {
  readonly #components: RecordsComponents
  readonly #options: RecordsOptions
  readonly #records = new Map<string, ObjectRecord>()
  readonly #places = new Places()
  /** by the uid of the owner */
  readonly #owned = new UidIndex()
  /** by kind, namespace and name of each custom parent */
  readonly #customChildren = new UidIndex()
  /** by kind, namespace and name of what stands for the application */
  readonly #claims = new UidIndex()
  readonly #lists = new OpenLists()
  readonly #extras: Extras
  readonly #interned: Interned
  readonly #environments: Environments
  /** records that went since the last sweep: what they alone had is still interned */
  #shed = 0
  readonly #due: DueVerdicts
  readonly #states = new Map<string, readonly [kind: ResourceKind, state: FollowState]>()
  /** kinds that went for want of room, and when */
  readonly #refused = new Map<string, { readonly kind: ResourceKind; readonly since: number }>()
  readonly #listeners = new Set<(change: RecordChange) => void>()
  readonly #stateListeners = new Set<() => void>()
  /** How far each kind is followed; a kind that went for want of room is refused. */
  readonly states: FollowStates = {
    all: () => this.#allStates(),
    onChange: (listener) => {
      this.#stateListeners.add(listener)
      return () => this.#stateListeners.delete(listener)
    },
  }

  constructor(components: RecordsComponents, options: Partial<RecordsOptions> = {}) {
    this.#components = components
    this.#options = { ...recordsDefaults, ...options }
    this.#extras = new Extras(this.#options.extras)
    this.#interned = components.interned
    this.#environments = components.environments ?? new Environments([])
    this.#due = new DueVerdicts(components.clock, (uid, health) => this.#judgeAnew(uid, health))
  }

  get size(): number {
    return this.#records.size
  }

  get(uid: string): ObjectRecord | undefined {
    return this.#records.get(uid)
  }

  all(): Iterable<ObjectRecord> {
    return this.#records.values()
  }

  named(kind: string, namespace: string, name: string): ObjectRecord | undefined {
    const uid = this.#places.find(kind, namespace, name)
    return uid === undefined ? undefined : this.#records.get(uid)
  }

  *claiming({ uid, kind, namespace, name }: ObjectRecord): Iterable<ObjectRecord> {
    yield* this.#those(this.#owned.get(uid))
    yield* this.#those(this.#customChildren.get(place(kind.key, namespace, name)))
    yield* this.#those(this.#claims.get(place(kind.key, namespace, name)))
  }

  *places(): ReturnType<ReadonlyRecords['places']> {
    for (const [namespace, uids] of this.#places.all()) {
      const [first] = this.#those(uids.values())
      if (first) yield { kind: first.kind, namespace, size: uids.size }
    }
  }

  inNamespace(kind: string, namespace: string): Iterable<ObjectRecord> {
    return this.#those(this.#places.uids(kind, namespace))
  }

  onChange(listener: (change: RecordChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Verdicts do not change any more by time alone. */
  stop(): void {
    this.#due.stop()
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    const isRoomy = this.size <= roomyShare * this.#options.maxObjects
    if (namespace === undefined && isRoomy && this.#refused.delete(kind.key)) this.#tellStates()
    this.#lists.begin(kind, namespace, this.#places.uids(kind.key, namespace))
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    for (const uid of this.#lists.end(kind, namespace)) this.gone(kind, uid)
  }

  put(kind: ResourceKind, object: KubernetesObject): void {
    if (this.#refused.has(kind.key)) return
    const metadata = metadataOf(object)
    if (!metadata) return
    const { uid, namespace, name } = metadata
    const known = this.#records.get(uid)
    if (known && known.kind.key !== kind.key) return
    this.#lists.see(kind, namespace, uid)
    const sameName = this.named(kind.key, namespace, name)
    if (sameName && sameName !== known) this.#remove(sameName)
    if (known && sameName !== known) this.#remove(known)
    const before = this.#records.get(uid)
    if (!before && !this.#makeRoom(kind)) return
    const environments = this.#environments
    const health = this.#judge(kind, object, uid)
    const whole = recordOf({ kind, object, metadata, health, environments }, this.#interned)
    const after = this.#extras.fit(whole, before)
    if (before) this.#replace(before, after)
    else this.#add(after)
    if (!this.#interned.isFull) return
    if (this.#shed < leastShedShare * this.#interned.size) this.#interned.letGrow()
    else this.#sweep()
  }

  gone(kind: ResourceKind, uid: string): void {
    const record = this.#records.get(uid)
    if (record?.kind.key === kind.key) this.#remove(record)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    this.#lists.forget(kind, namespace)
    this.#removeAll(kind.key, namespace)
    if (namespace !== undefined) return
    this.#refused.delete(kind.key)
    if (this.#states.delete(kind.key)) this.#tellStates()
  }

  state(kind: ResourceKind, state: FollowState): void {
    this.#states.set(kind.key, [kind, state])
    this.#tellStates()
  }

  #allStates(): Iterable<readonly [kind: ResourceKind, state: FollowState]> {
    const states = new Map(this.#states)
    const why = `the cluster has more than ${this.#options.maxObjects} objects`
    for (const [key, { kind, since }] of this.#refused) {
      const { refusedNamespaces = [], leftOut = [] } = states.get(key)?.[1] ?? {}
      states.set(key, [kind, { is: 'refused', since, why, refusedNamespaces, leftOut }])
    }
    return states.values()
  }

  /** @returns undefined: there is metadata alone */
  #judge(kind: ResourceKind, object: KubernetesObject, uid: string): Health | undefined {
    this.#due.delete(uid)
    if (isMetadataAlone(object)) return undefined
    const { clock, rules } = this.#components
    // objects of a list do not say what they are
    const apiVersion = kind.group === '' ? kind.version : `${kind.group}/${kind.version}`
    const whole = { ...object, apiVersion, kind: kind.key.slice(kind.key.indexOf('/') + 1) }
    const { health, dueAt } = rules.judge(whole, clock.now())
    if (dueAt !== undefined) this.#due.set(uid, dueAt, this.#interned.value(rules.judge(whole, dueAt).health))
    return health
  }

  #judgeAnew(uid: string, health: Health): void {
    const before = this.#records.get(uid)
    if (before) this.#replace(before, { ...before, health })
  }

  #add(record: ObjectRecord): void {
    this.#records.set(record.uid, record)
    this.#places.add(record)
    this.#extras.change(undefined, record)
    this.#index(record)
    this.#tell({ before: undefined, after: record })
  }

  #replace(before: ObjectRecord, after: ObjectRecord): void {
    if (areEqual(before, after)) return
    this.#shed++
    this.#records.set(after.uid, after)
    this.#extras.change(before, after)
    if (indexed.some((field) => before[field] !== after[field])) {
      this.#unindex(before)
      this.#index(after)
    }
    this.#tell({ before, after })
  }

  #remove(record: ObjectRecord): void {
    this.#shed++
    this.#records.delete(record.uid)
    this.#due.delete(record.uid)
    this.#places.delete(record)
    this.#extras.change(record, undefined)
    this.#unindex(record)
    this.#tell({ before: record, after: undefined })
  }

  #removeAll(kind: string, namespace: string | undefined): void {
    for (const record of [...this.#those(this.#places.uids(kind, namespace))]) this.#remove(record)
  }

  #index(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.add(owner.uid, uid)
    if (claim?.kind) this.#claims.add(place(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record)) this.#customChildren.add(place(kind, namespace, name), uid)
  }

  #unindex(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.delete(owner.uid, uid)
    if (claim?.kind) this.#claims.delete(place(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record)) this.#customChildren.delete(place(kind, namespace, name), uid)
  }

  /** @returns whether there is room for one more of the kind */
  #makeRoom({ key }: ResourceKind): boolean {
    if (this.size < this.#options.maxObjects) return true
    const largestFirst = [...this.#places.sizes].sort(([, one], [, other]) => other - one).map(([kind]) => kind)
    const largest =
      largestFirst.find((kind) => !this.#components.rules.wantsStatus(kind)) ?? (largestFirst[0] as string)
    const [record] = this.#those(this.#places.uids(largest, undefined))
    if (record) this.#refused.set(largest, { kind: record.kind, since: this.#components.clock.now() })
    this.#removeAll(largest, undefined)
    this.#tellStates()
    return key !== largest
  }

  #sweep(): void {
    this.#shed = 0
    const live = new Set<string | object>(this.#due.healths())
    for (const record of this.#records.values()) addShared(record, live)
    this.#interned.sweep(live)
  }

  *#those(uids: Iterable<string>): Iterable<ObjectRecord> {
    for (const uid of uids) {
      const record = this.#records.get(uid)
      if (record) yield record
    }
  }

  #tell(change: RecordChange): void {
    for (const listener of this.#listeners) listener(change)
  }

  #tellStates(): void {
    for (const listener of this.#stateListeners) listener()
  }
}
