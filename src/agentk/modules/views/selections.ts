import type { FairTurns } from './fair-turns.ts'
import type { LabelSelector, ObjectRecord, ReadonlyRecords, RecordChange } from './record.ts'
import { compileSelector, type Selects } from './selectors.ts'

export interface SelectionsOptions {
  /** that are kept, of all views */
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
  readonly turns: FairTurns
}

const pod = 'Pod'
const keyOf = (selector: LabelSelector) => JSON.stringify(selector)

/** Pods of one namespace that one selector selects. Whose it is gives it back to `Selections.release`. */
export class Selection {
  readonly key: string
  readonly namespace: string
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

interface Shared {
  readonly selection: Selection
  /** a name for each that took it; undefined: the agent */
  readonly users: (string | undefined)[]
  readonly listeners: Set<() => void>
}

/** Selections of one namespace, and what is still to be asked of its Pods. */
interface Place {
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
  readonly #places = new Map<string, Place>()
  readonly #byUser = new Map<string, number>()
  #size = 0

  constructor(components: SelectionsComponents, options: SelectionsOptions = selectionsDefaults) {
    this.#components = components
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /**
   * The caller gives it back by `release`, with the same `user` and `onChange`. It fills by itself.
   *
   * @param user - undefined: the agent
   * @param onChange - its members are others
   * @returns undefined: there is no room for one more
   */
  take(
    namespace: string,
    selector: LabelSelector,
    user: string | undefined,
    onChange: () => void,
  ): Selection | undefined {
    const known = this.#places.get(namespace)?.shared.get(keyOf(selector))
    if (!this.#hasRoom(user, known)) return undefined
    const shared = known ?? this.#make(namespace, selector)
    if (user !== undefined && !shared.users.includes(user)) this.#count(user, 1)
    shared.users.push(user)
    shared.listeners.add(onChange)
    return shared.selection
  }

  /** @param user - as whom it was taken */
  release(selection: Selection, user: string | undefined, onChange: () => void): void {
    const place = this.#places.get(selection.namespace)
    const shared = place?.shared.get(selection.key)
    if (!place || !shared) return
    shared.listeners.delete(onChange)
    shared.users.splice(shared.users.indexOf(user), 1)
    if (user !== undefined && !shared.users.includes(user)) this.#count(user, -1)
    if (shared.users.length > 0) return
    this.#size--
    place.shared.delete(selection.key)
    place.filling.delete(shared)
    if (place.shared.size > 0) return
    place.cancel?.()
    this.#places.delete(selection.namespace)
  }

  change({ before, after }: RecordChange): void {
    const { uid, kind, namespace } = (after ?? before) as ObjectRecord
    if (kind.key !== pod || before?.labels === after?.labels) return
    const place = this.#places.get(namespace)
    if (!place) return
    place.changed.add(uid)
    this.#work(namespace, place)
  }

  #hasRoom(user: string | undefined, known: Shared | undefined): boolean {
    const { maxSelections, maxSelectionsPerUser } = this.#options
    if (!known && this.#size >= maxSelections) return false
    return user === undefined || known?.users.includes(user) || (this.#byUser.get(user) ?? 0) < maxSelectionsPerUser
  }

  #count(user: string, by: 1 | -1): void {
    const count = (this.#byUser.get(user) ?? 0) + by
    if (count > 0) this.#byUser.set(user, count)
    else this.#byUser.delete(user)
  }

  #make(namespace: string, selector: LabelSelector): Shared {
    const selection = new Selection(namespace, selector, this.#options.maxMembers)
    const shared: Shared = { selection, users: [], listeners: new Set() }
    const place = this.#places.get(namespace) ?? {
      shared: new Map(),
      filling: new Map(),
      changed: new Set(),
      cancel: undefined,
    }
    this.#places.set(namespace, place)
    place.shared.set(selection.key, shared)
    this.#size++
    this.#fill(namespace, place, shared)
    return shared
  }

  #fill(namespace: string, place: Place, shared: Shared): void {
    place.filling.set(shared, this.#components.records.inNamespace(pod, namespace)[Symbol.iterator]())
    this.#work(namespace, place)
  }

  #work(namespace: string, place: Place): void {
    if (place.cancel) return
    place.cancel = () => undefined
    let isDone = false
    const cancel = this.#components.turns.run(`selections of ${namespace}`, this.#stepsOf(namespace, place), () => {
      isDone = true
      place.cancel = undefined
    })
    if (!isDone) place.cancel = cancel
  }

  /** Each compares one Pod with one selector. */
  #stepsOf(namespace: string, place: Place): () => boolean {
    let uid: string | undefined
    let left: Iterator<Shared> | undefined
    return () => {
      const { value: shared } = left?.next() ?? {}
      if (shared && uid !== undefined) return this.#place(namespace, place, shared, uid)
      left = undefined
      ;[uid] = place.changed
      if (uid !== undefined) {
        place.changed.delete(uid)
        left = place.shared.values()
        return true
      }
      return this.#fillNext(namespace, place)
    }
  }

  #fillNext(namespace: string, place: Place): boolean {
    const [first] = place.filling
    if (!first) return false
    const [shared, pods] = first
    const { value: record } = pods.next()
    if (record) return this.#place(namespace, place, shared, record.uid)
    place.filling.delete(shared)
    this.#refill(namespace, place, shared) // members went meanwhile
    return true
  }

  #place(namespace: string, place: Place, shared: Shared, uid: string): true {
    const record = this.#components.records.get(uid)
    const isInPlace = record?.namespace === namespace && record.kind.key === pod
    if (shared.selection.place(uid, isInPlace ? record : undefined)) for (const listener of shared.listeners) listener()
    this.#refill(namespace, place, shared)
    return true
  }

  /** Where it is short, and is not being filled. */
  #refill(namespace: string, place: Place, shared: Shared): void {
    if (!shared.selection.isShort || place.filling.has(shared)) return
    shared.selection.refill()
    place.filling.set(shared, this.#components.records.inNamespace(pod, namespace)[Symbol.iterator]())
  }
}
