import { Counter } from '../../../../lib/counter.ts'
import type { LabelSelector } from '../projection/projector.ts'
import { compileSelector, type Selects } from '../projection/selectors.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange } from './record.ts'
import type { TimeSlices } from './time-slices.ts'

export interface SelectionsOptions {
  /** that are kept, of all views; one with much in it counts as several (`partsOfOne`) */
  readonly maxSelections: number
  /** of one user: others find room. Those that are let in as the agent are many, and no one of them */
  readonly maxSelectionsPerUser: number
  /** uids that one keeps: the least */
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

/** Who has selections. It is one and the same from `take` to `release`. */
export interface Taker {
  readonly user: string
  /** members of one are others */
  readonly onChange: () => void
  /** one was refused since it was called last, and there is room now */
  readonly onRoom: () => void
}

/** Labels and values of a selector that counts as one: to keep them takes as much as to keep its members does. */
const partsOfOne = 512

const pod = 'Pod'
const keyOf = (selector: LabelSelector) => JSON.stringify(selector)

/** Pods of one namespace that one selector selects. Whose it is gives it back to `Selections.release`. */
export class Selection {
  readonly key: string
  readonly namespace: string
  /** selections that it counts as */
  readonly weight: number
  readonly #selects: Selects
  readonly #maxMembers: number
  /** in order */
  readonly #members: string[] = []
  /** it selects more than it keeps */
  #isCut = false
  #version = 0

  constructor(namespace: string, selector: LabelSelector, maxMembers: number) {
    this.key = keyOf(selector)
    this.namespace = namespace
    this.weight = weightOf(selector)
    this.#selects = compileSelector(selector)
    this.#maxMembers = maxMembers
  }

  /** The least uids, in order. */
  get members(): readonly string[] {
    return this.#members
  }

  /** Another one where the members are others. */
  get version(): number {
    return this.#version
  }

  /** So many went that some which it does not keep would have room. */
  get isShort(): boolean {
    return this.#isCut && this.#members.length < this.#maxMembers / 2
  }

  /** From now on all are asked again. */
  refill(): void {
    this.#isCut = false
  }

  /** @param record - undefined: it is gone. @returns whether the members are others now */
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

  /** Where it is, or would be. */
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
  /** how many times each has it */
  readonly takers: Counter<Taker>
}

/** Selections of one namespace, and what is still to be asked of its Pods. */
interface OfNamespace {
  readonly shared: Map<string, Shared>
  /** those that are being filled, each with the Pods that it was not asked about yet */
  readonly filling: Map<Shared, Iterator<ObjectRecord>>
  /** uids of Pods that came, changed or went */
  readonly changed: Set<string>
  cancel: (() => void) | undefined
}

/**
 * What selectors select, for all views: each Pod is compared with each selector once, when either comes or the Pod's
 * labels change, however many show it. It is done in slices, in turns by namespace.
 */
export class Selections {
  readonly #components: SelectionsComponents
  readonly #options: SelectionsOptions
  readonly #namespaces = new Map<string, OfNamespace>()
  readonly #byUser = new Counter<string>()
  /** those that were refused one, and were not called since */
  readonly #refused = new Set<Taker>()
  #size = 0

  constructor(components: SelectionsComponents, options: SelectionsOptions = selectionsDefaults) {
    this.#components = components
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** Nobody has one, and nobody waits for one. */
  get isEmpty(): boolean {
    return this.#namespaces.size + this.#byUser.total + this.#refused.size + this.#size === 0
  }

  /**
   * The caller gives it back by `release`. It fills by itself.
   *
   * @returns undefined: there is no room for one more. `onRoom` is called once when there is
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

  /** It asks for no more. */
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

  /** Whoever may have one now asks again, and who comes first has it. @param user - who had one */
  #callRefused(user: string): void {
    const isRoom = this.#hasRoom(1)
    for (const taker of [...this.#refused]) {
      // one of his own that is shared leaves room for him alone
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

  /** Each compares one Pod with one selector. */
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
    this.#refill(namespace, own, shared) // members went meanwhile
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

  /** Where it is short, and is not being filled. */
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
