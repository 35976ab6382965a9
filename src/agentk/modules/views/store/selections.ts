import { Counter } from '../../../../lib/counter.ts'
import type { LabelSelector } from '../projection/projector.ts'
import { compileSelector, type Selects } from '../projection/selectors.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange } from './record.ts'
import type { TimeSlices } from './time-slices.ts'

export interface SelectionsOptions {
  /** bound of selections of all views; one with a large selector counts as several (`partsOfOne`) */
  readonly maxSelections: number
  /** bound of one user, so that others find room. Callers who act as the agent count as different users */
  readonly maxSelectionsPerUser: number
  /** uids that a selection keeps: the least */
  readonly maxMembers: number
}

export const selectionsDefaults: SelectionsOptions = {
  maxSelections: 1000,
  maxSelectionsPerUser: 400,
  maxMembers: 2000,
}

export interface SelectionsComponents {
  readonly records: Pick<ReadonlyRecords, 'get' | 'inNamespace'>
  readonly turns: TimeSlices
}

/** View that takes selections: the same object from `take` to `release`. */
export interface Taker {
  readonly user: string
  /** called when the members of one of its selections have changed */
  readonly onChange: () => void
  /** called once after a refusal, when there is room */
  readonly onRoom: () => void
}

/** Labels and values of a selector that count as one selection: they take as much memory as its members. */
const partsOfOne = 512

const pod = 'Pod'
const keyOf = (selector: LabelSelector) => JSON.stringify(selector)

/** Pods of one namespace that one selector selects. Its taker gives it back to `Selections.release`. */
export class Selection {
  readonly key: string
  readonly namespace: string
  /** number of selections that it counts as */
  readonly weight: number
  readonly #selects: Selects
  readonly #maxMembers: number
  /** uids in order */
  readonly #members: string[] = []
  /** the selector selects more than is kept */
  #isCut = false
  #version = 0

  constructor(namespace: string, selector: LabelSelector, maxMembers: number) {
    this.key = keyOf(selector)
    this.namespace = namespace
    this.weight = weightOf(selector)
    this.#selects = compileSelector(selector)
    this.#maxMembers = maxMembers
  }

  /** Least uids, in order. */
  get members(): readonly string[] {
    return this.#members
  }

  /** Number that differs after each change of the members. */
  get version(): number {
    return this.#version
  }

  /** True if so many members were removed that others, which are not kept, would have room. */
  get isShort(): boolean {
    return this.#isCut && this.#members.length < this.#maxMembers / 2
  }

  /** Lets all Pods be compared again. */
  refill(): void {
    this.#isCut = false
  }

  /**
   * @param record - undefined: the object is gone
   * @returns true if the members have changed
   */
  place(uid: string, record: ObjectRecord | undefined): boolean {
    const isMember = record !== undefined && this.#selects(record.labels)
    const at = this.#placeOf(uid)
    if ((this.#members[at] === uid) === isMember) return false
    if (!isMember) this.#members.splice(at, 1)
    else if (at >= this.#maxMembers || (this.#isCut && at === this.#members.length)) {
      this.#isCut = true
      return false
    } else {
      this.#members.splice(at, 0, uid)
      if (this.#members.length > this.#maxMembers) {
        this.#members.pop()
        this.#isCut = true
      }
    }
    this.#version++
    return true
  }

  /** Index at which the uid is, or would be. */
  #placeOf(uid: string): number {
    let [from, to] = [0, this.#members.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if ((this.#members[middle] as string) < uid) from = middle + 1
      else to = middle
    }
    return from
  }
}

function weightOf({ labels, expressions }: LabelSelector): number {
  const parts = expressions.reduce((sum, { values }) => sum + 1 + values.length, labels.length)
  return Math.max(1, Math.ceil(parts / partsOfOne))
}

interface Shared {
  readonly selection: Selection
  /** number of times that each taker has it */
  readonly takers: Counter<Taker>
}

/** Selections of one namespace, and the Pods that are still to be compared. */
interface OfNamespace {
  readonly shared: Map<string, Shared>
  /** selections that are being filled, each with the Pods that were not compared yet */
  readonly filling: Map<Shared, Iterator<ObjectRecord>>
  /** uids of Pods that came, changed or went */
  readonly changed: Set<string>
  cancel: (() => void) | undefined
}

/**
 * Selected Pods, for all views. Each Pod is compared with each selector once, when either comes or the Pod's labels
 * change, however many views show it. This is done in slices, in turns by namespace.
 */
export class Selections {
  readonly #components: SelectionsComponents
  readonly #options: SelectionsOptions
  readonly #namespaces = new Map<string, OfNamespace>()
  readonly #byUser = new Counter<string>()
  /** takers that were refused a selection, and were not called since */
  readonly #refused = new Set<Taker>()
  #size = 0

  constructor(components: SelectionsComponents, options: SelectionsOptions = selectionsDefaults) {
    this.#components = components
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** True if nobody has a selection, or waits for one. */
  get isEmpty(): boolean {
    return this.#namespaces.size + this.#byUser.total + this.#refused.size + this.#size === 0
  }

  /**
   * Takes a selection, which fills by itself. The caller gives it back by `release`.
   *
   * @returns undefined: there is no room; `onRoom` is called once when there is
   */
  take(namespace: string, selector: LabelSelector, taker: Taker): Selection | undefined {
    const known = this.#namespaces.get(namespace)?.shared.get(keyOf(selector))
    const { user } = taker
    const isOwn = known !== undefined && isOf(known, user)
    const weight = known?.selection.weight ?? weightOf(selector)
    if ((!known && !this.#hasRoom(weight)) || (!isOwn && !this.#hasRoomOf(user, weight))) {
      this.#refused.add(taker)
      return undefined
    }
    const shared = known ?? this.#make(namespace, selector)
    if (!isOwn) this.#byUser.add(user, weight)
    shared.takers.add(taker)
    return shared.selection
  }

  release(selection: Selection, taker: Taker): void {
    const own = this.#namespaces.get(selection.namespace)
    const shared = own?.shared.get(selection.key)
    if (!own || !shared || shared.takers.of(taker) === 0) return
    if (shared.takers.add(taker, -1) > 0) return
    const isLastOfUser = !isOf(shared, taker.user)
    if (isLastOfUser) this.#byUser.add(taker.user, -selection.weight)
    if (shared.takers.total === 0) this.#drop(own, shared)
    if (isLastOfUser) this.#callRefused(taker.user)
  }

  /** Ends the wait of a taker. */
  leave(taker: Taker): void {
    this.#refused.delete(taker)
  }

  change({ before, after }: RecordChange): void {
    const { uid, kind, namespace } = (after ?? before) as ObjectRecord
    if (kind.key !== pod || before?.labels === after?.labels) return
    const own = this.#namespaces.get(namespace)
    if (!own) return
    own.changed.add(uid)
    this.#work(namespace, own)
  }

  #drop(own: OfNamespace, shared: Shared): void {
    const { key, namespace, weight } = shared.selection
    this.#size -= weight
    own.shared.delete(key)
    own.filling.delete(shared)
    if (own.shared.size > 0) return
    own.cancel?.()
    this.#namespaces.delete(namespace)
  }

  #hasRoom(weight: number): boolean {
    return this.#size + weight <= this.#options.maxSelections
  }

  #hasRoomOf(user: string, weight: number): boolean {
    return this.#byUser.of(user) + weight <= this.#options.maxSelectionsPerUser
  }

  /**
   * Calls takers that may have a selection now: the first to ask gets it.
   *
   * @param user - user who gave one back
   */
  #callRefused(user: string): void {
    const isRoom = this.#hasRoom(1)
    for (const taker of [...this.#refused]) {
      // a shared selection leaves room for its own user alone
      if (!(isRoom || taker.user === user) || !this.#hasRoomOf(taker.user, 1)) continue
      this.#refused.delete(taker)
      taker.onRoom()
    }
  }

  #make(namespace: string, selector: LabelSelector): Shared {
    const selection = new Selection(namespace, selector, this.#options.maxMembers)
    const shared: Shared = { selection, takers: new Counter() }
    const own = this.#namespaces.get(namespace) ?? {
      shared: new Map(),
      filling: new Map(),
      changed: new Set(),
      cancel: undefined,
    }
    this.#namespaces.set(namespace, own)
    own.shared.set(selection.key, shared)
    this.#size += selection.weight
    this.#fill(namespace, own, shared)
    return shared
  }

  #fill(namespace: string, own: OfNamespace, shared: Shared): void {
    own.filling.set(shared, this.#components.records.inNamespace(pod, namespace)[Symbol.iterator]())
    this.#work(namespace, own)
  }

  #work(namespace: string, own: OfNamespace): void {
    if (own.cancel) return
    own.cancel = () => undefined
    let isDone = false
    const cancel = this.#components.turns.run(`selections of ${namespace}`, this.#stepsOf(namespace, own), () => {
      isDone = true
      own.cancel = undefined
    })
    if (!isDone) own.cancel = cancel
  }

  /** Returns a step, which compares one Pod with one selector. */
  #stepsOf(namespace: string, own: OfNamespace): () => boolean {
    let uid: string | undefined
    let left: Iterator<Shared> | undefined
    return () => {
      const { value: shared } = left?.next() ?? {}
      if (shared && uid !== undefined) return this.#place(namespace, own, shared, uid)
      left = undefined
      ;[uid] = own.changed
      if (uid !== undefined) {
        own.changed.delete(uid)
        left = own.shared.values()
        return true
      }
      return this.#fillNext(namespace, own)
    }
  }

  #fillNext(namespace: string, own: OfNamespace): boolean {
    const [first] = own.filling
    if (!first) return false
    const [shared, pods] = first
    const { value: record } = pods.next()
    if (record) return this.#place(namespace, own, shared, record.uid)
    own.filling.delete(shared)
    this.#refill(namespace, own, shared) // members may be gone meanwhile
    return true
  }

  #place(namespace: string, own: OfNamespace, shared: Shared, uid: string): true {
    const record = this.#components.records.get(uid)
    const isInPlace = record?.namespace === namespace && record.kind.key === pod
    if (shared.selection.place(uid, isInPlace ? record : undefined)) {
      for (const { onChange } of shared.takers.counts.keys()) onChange()
    }
    this.#refill(namespace, own, shared)
    return true
  }

  /** Fills a selection that is short, unless it is being filled. */
  #refill(namespace: string, own: OfNamespace, shared: Shared): void {
    if (!shared.selection.isShort || own.filling.has(shared)) return
    shared.selection.refill()
    own.filling.set(shared, this.#components.records.inNamespace(pod, namespace)[Symbol.iterator]())
  }
}

function isOf({ takers }: Shared, user: string): boolean {
  for (const taker of takers.counts.keys()) if (taker.user === user) return true
  return false
}
