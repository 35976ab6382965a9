import { apiVersionOf, parseKindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import { isBeingDeleted, type KubernetesObject } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Listeners } from '../../../../lib/listeners.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import { Environments } from '../projection/environments.ts'
import { isMetadataAlone, metadataOf } from '../projection/metadata.ts'
import { DueVerdicts } from './due-verdicts.ts'
import { Extras, type ExtrasOptions, extrasDefaults } from './extras.ts'
import { Findings, type JudgementChange } from './findings.ts'
import { Links, Places } from './indexes.ts'
import type { Interned } from './interned.ts'
import type { Judgement } from './judgement.ts'
import { KindStates } from './kind-states.ts'
import { addShared, areEqual, CommonRecordParts, recordOf, recordWith, traitObject } from './object-record.ts'
import { OpenLists } from './open-lists.ts'
import type { FollowState, Health, ObjectRecord, ObjectSink, Place, ReadonlyRecords, RecordChange } from './record.ts'
import type { Rules } from './rules.ts'
import { TimeSlices } from './time-slices.ts'

export interface RecordsComponents {
  /** ms since 1970 */
  readonly clock: Clock
  readonly rules: Pick<Rules, 'judge' | 'wantsStatus'>
  /** values that no record has are swept */
  readonly interned: Interned
  /** default: labels alone decide */
  readonly environments?: Environments
  /** default: its own */
  readonly turns?: TimeSlices
}

export interface RecordsOptions {
  /** bound of objects in the cluster; past it, the largest kinds without rules are dropped */
  readonly maxObjects: number
  readonly extras: ExtrasOptions
}

export const recordsDefaults: RecordsOptions = { maxObjects: 200_000, extras: extrasDefaults }

/** A kind that was dropped for want of room is kept again at its next list, if no more than this share is taken. */
const roomyShare = 0.75

/** A sweep reads each record: it waits until this share of values may be unused. */
const leastShedShare = 1 / 16

/**
 * Records of the objects of a cluster. An object is read as it passes, and not kept.
 *
 * One uid is one object: another kind that serves it, as of another group, adds nothing. An object that takes the name
 * of another replaces it.
 */
export class Records implements ObjectSink, ReadonlyRecords {
  readonly #components: RecordsComponents
  readonly #options: RecordsOptions
  readonly #records = new Map<string, ObjectRecord>()
  readonly #places = new Places()
  readonly #links = new Links()
  readonly #lists = new OpenLists()
  readonly #extras: Extras
  readonly #interned: Interned
  readonly #common = new CommonRecordParts()
  readonly #environments: Environments
  /** records that were removed or replaced since the last sweep: their values are still interned */
  #shed = 0
  readonly #due: DueVerdicts<Health>
  readonly #findings: Findings
  readonly #listeners = new Listeners<RecordChange>()
  /** State of each kind that is followed. */
  readonly states: KindStates

  constructor(components: RecordsComponents, options: Partial<RecordsOptions> = {}) {
    this.#components = components
    this.#options = { ...recordsDefaults, ...options }
    this.#extras = new Extras(this.#options.extras)
    this.#interned = components.interned
    this.#environments = components.environments ?? new Environments([])
    this.#due = new DueVerdicts(components.clock, (uid, health) => this.#judgeAnew(uid, health))
    const { clock, turns = new TimeSlices(clock) } = components
    const onLive = (kind: string) => this.#findings.liveChanged(kind)
    this.states = new KindStates({ clock, onLive }, `the cluster has more than ${this.#options.maxObjects} objects`)
    this.#findings = new Findings({
      clock,
      turns,
      records: this,
      isLive: (kind) => this.states.isWhole(kind),
      listTroubleOf: (kind) => this.states.troubleOf(kind),
      isSettled: () => this.states.isSettled,
      onJudged: (uid, judged) => this.#judgedAnew(uid, judged),
    })
  }

  /** Receives events that show why objects are not well. */
  get evidence(): ObjectSink {
    return this.#findings.evidence
  }

  get evidenceSize(): number {
    return this.#findings.evidence.size
  }

  /** Number of objects of which more than their records is kept. */
  get judgedSize(): number {
    return this.#findings.size
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

  judged(uid: string): Judgement | undefined {
    return this.#findings.get(uid)
  }

  objectOf(record: ObjectRecord): KubernetesObject {
    return this.#findings.keptOf(record.uid) ?? traitObject(record)
  }

  kindOf(kind: string): ResourceKind | undefined {
    return this.states.kindOf(kind)
  }

  naming(kind: string, namespace: string, name: string): Iterable<ObjectRecord> {
    return this.#those(this.#links.naming(kind, namespace, name))
  }

  isClaimed(parent: Place): boolean {
    return this.#links.isClaimed(parent)
  }

  claiming(parent: Place): Iterable<ObjectRecord> {
    return this.#those(this.#links.claiming(parent))
  }

  claimingByCustom(parent: Place): Iterable<ObjectRecord> {
    return this.#those(this.#links.claimingByCustom(parent))
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
    return this.#listeners.add(listener)
  }

  /** Stops changes of verdicts by time alone. */
  stop(): void {
    this.#due.stop()
    this.#findings.stop()
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    const isRoomy = this.size <= roomyShare * this.#options.maxObjects
    if (namespace === undefined && isRoomy) this.states.readmit(kind.key)
    this.#lists.begin(kind, namespace, this.#places.uids(kind.key, namespace))
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    for (const uid of this.#lists.end(kind, namespace)) this.deleted(kind, uid)
  }

  put(kind: ResourceKind, object: KubernetesObject): void {
    if (this.states.isRefused(kind.key)) return
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
    const [environments, interned] = [this.#environments, this.#interned]
    const { health, judged } = this.#judge(kind, object, uid)
    const whole = recordOf({ kind, object, metadata, health, environments }, { interned, common: this.#common })
    const after = this.#extras.fit(whole, before)
    if (before) this.#replace(before, after, judged)
    else this.#add(after, judged)
    if (!this.#interned.isFull) return
    if (this.#shed < leastShedShare * this.#interned.size) this.#interned.letGrow()
    else this.#sweep()
  }

  deleted(kind: ResourceKind, uid: string): void {
    const record = this.#records.get(uid)
    if (record?.kind.key === kind.key) this.#remove(record)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    this.#lists.forget(kind, namespace)
    this.#removeAll(kind.key, namespace)
    if (namespace === undefined) this.states.delete(kind.key)
  }

  state(kind: ResourceKind, state: FollowState): void {
    this.states.set(kind, state)
  }

  /** @returns `health` is undefined if there is metadata alone */
  #judge(
    kind: ResourceKind,
    object: KubernetesObject,
    uid: string,
  ): { readonly health: Health | undefined; readonly judged: JudgementChange | undefined } {
    this.#due.delete(uid)
    const isAlone = isMetadataAlone(object)
    if (isAlone && !isBeingDeleted(object)) {
      const before = this.#findings.forget(uid)
      return { health: undefined, judged: before && { before, after: undefined } }
    }
    const { clock, rules } = this.#components
    // objects of a list have no apiVersion and kind
    const whole = { ...object, apiVersion: apiVersionOf(kind), kind: parseKindKey(kind.key).kind }
    const { health, dueAt, verdicts } = rules.judge(whole, clock.now())
    const { by, judged } = this.#findings.pass(
      { uid, kind: kind.key, object: whole },
      verdicts,
      this.states.isLive(kind.key),
    )
    if (dueAt !== undefined)
      this.#due.set(uid, dueAt, this.#interned.value(judgedBy(rules.judge(whole, dueAt).health, by)))
    return { health: judgedBy(health, by), judged }
  }

  #judgeAnew(uid: string, health: Health): void {
    const before = this.#records.get(uid)
    if (before) this.#replace(before, recordWith(before, { health }), undefined)
  }

  #judgedAnew(uid: string, judged: JudgementChange): void {
    const record = this.#records.get(uid)
    if (record) this.#notify({ before: record, after: record, judged })
  }

  #add(record: ObjectRecord, judged: JudgementChange | undefined): void {
    this.#records.set(record.uid, record)
    this.#places.add(record)
    this.#extras.change(undefined, record)
    this.#links.change(undefined, record)
    this.#notify({ before: undefined, after: record, ...(judged ? { judged } : {}) })
  }

  #replace(before: ObjectRecord, after: ObjectRecord, judged: JudgementChange | undefined): void {
    if (areEqual(before, after)) {
      if (judged) this.#judgedAnew(before.uid, judged)
      return
    }
    this.#shed++
    this.#records.set(after.uid, after)
    this.#extras.change(before, after)
    this.#links.change(before, after)
    this.#notify({ before, after, ...(judged ? { judged } : {}) })
  }

  #remove(record: ObjectRecord): void {
    this.#shed++
    this.#records.delete(record.uid)
    this.#due.delete(record.uid)
    this.#places.delete(record)
    this.#extras.change(record, undefined)
    this.#links.change(record, undefined)
    const judgement = this.#findings.forget(record.uid)
    const judged = judgement ? { judged: { before: judgement, after: undefined } } : {}
    this.#notify({ before: record, after: undefined, ...judged })
  }

  #removeAll(kind: string, namespace: string | undefined): void {
    for (const record of [...this.#those(this.#places.uids(kind, namespace))]) this.#remove(record)
  }

  /** @returns true if there is room for one more object of the kind */
  #makeRoom({ key }: ResourceKind): boolean {
    if (this.size < this.#options.maxObjects) return true
    const largestFirst = [...this.#places.sizes].sort(([, one], [, other]) => other - one).map(([kind]) => kind)
    const largest =
      largestFirst.find((kind) => !this.#components.rules.wantsStatus(kind)) ?? (largestFirst[0] as string)
    const [record] = this.#those(this.#places.uids(largest, undefined))
    this.#removeAll(largest, undefined)
    if (record) this.states.refuse(record.kind)
    return key !== largest
  }

  #sweep(): void {
    this.#shed = 0
    const live = new Set<string | object>(this.#due.verdicts())
    for (const record of this.#records.values()) addShared(record, live)
    this.#interned.sweep(live)
    this.#common.sweep(live)
  }

  *#those(uids: Iterable<string>): Iterable<ObjectRecord> {
    for (const uid of uids) {
      const record = this.#records.get(uid)
      if (record) yield record
    }
  }

  #notify(change: RecordChange): void {
    this.#listeners.notify(change)
    this.#findings.change(change) // last, since it leads to changes of its own
  }
}

function judgedBy(health: Health, by: Opinion['by']): Health {
  return by === 'nobody' ? health : { ...health, by }
}
