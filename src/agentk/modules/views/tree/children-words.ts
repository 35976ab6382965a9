import { uidOf } from '../../../../kubernetes/object.ts'
import { Counter } from '../../../../lib/counter.ts'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import { lesser, severityOf } from '../../../health/kas/finding.ts'
import { countedOf } from '../../../health/kas/root-causes/counting.ts'
import { traitObject } from '../store/object-record.ts'
import type { ObjectRecord } from '../store/record.ts'

/** State of an object, with what counts below it. */
export interface Known {
  readonly word: ArgoStatus
  /** the worst of what counts below it */
  readonly below: ArgoStatus
}

export interface Found extends Known {
  /** something below was not read: it is too far down */
  readonly isCut: boolean
}

export interface ChildrenComponents {
  readonly parent: ObjectRecord
  readonly record: (uid: string) => ObjectRecord | undefined
  /** true if the object is a child */
  readonly isChild: (record: ObjectRecord) => boolean
}

/** @returns undefined: the child is also above the object */
export type FindChild = (child: ObjectRecord) => Found | undefined

/** By the kind of a parent: the kind of those children that count or not, depending on each other. */
const siblings: Readonly<Record<string, string>> = {
  'apps/Deployment': 'apps/ReplicaSet',
  'batch/CronJob': 'batch/Job',
}

/**
 * Words (`Healthy`, `Degraded`, …) of the children of one object. Each child is asked once, and again once its word may
 * have changed.
 */
export class ChildrenWords {
  readonly #record: ChildrenComponents['record']
  readonly #isChild: ChildrenComponents['isChild']
  #parent: ObjectRecord
  /**
   * children that are not well, or have something below that is not: their words, and the words that these give the
   * parent
   */
  readonly #known = new Map<string, { readonly word: ArgoStatus; readonly makes: ArgoStatus }>()
  /** number of children by the word that they give the parent */
  readonly #making = new Counter<ArgoStatus>()
  readonly #siblings = new Set<string>()
  /** children below which something was not read: they are asked each time */
  readonly #cut = new Set<string>()
  /** children whose words may have changed */
  readonly #touched = new Set<string>()

  constructor({ parent, record, isChild }: ChildrenComponents) {
    this.#parent = parent
    this.#record = record
    this.#isChild = isChild
  }

  /** Yields the children that may matter to the parent. */
  *notable(): Iterable<string> {
    yield* this.#siblings
    yield* this.#known.keys()
    yield* this.#cut
  }

  /** Notes that a child's word may have changed, or that it is no child any more. */
  touch(uid: string): void {
    this.#touched.add(uid)
  }

  /** Takes the parent's new record: other children may count now. */
  become(parent: ObjectRecord): void {
    if (parent.traits === this.#parent.traits) return
    this.#parent = parent
    for (const [uid, { word }] of [...this.#known]) this.#learn(uid, word)
  }

  /** Adds a child. */
  add(child: ObjectRecord, find: FindChild): void {
    if (siblings[this.#parent.kind.key] === child.kind.key) {
      this.#siblings.add(child.uid)
      return
    }
    const found = find(child)
    if (!found || found.isCut) this.#cut.add(child.uid)
    else if (found.word !== 'Healthy' || found.below !== 'Healthy') this.#learn(child.uid, found.word)
  }

  /** Returns the worst of what counts now. */
  worst(find: FindChild): Omit<Found, 'word'> {
    for (const uid of this.#touched) this.#askAnew(uid, find)
    this.#touched.clear()
    let below: ArgoStatus = 'Healthy'
    for (const word of this.#making.counts.keys()) below = worse(below, word)
    let isCut = false
    const ask = (child: ObjectRecord, atMost: ArgoStatus) => {
      const found = find(child)
      isCut ||= !found || found.isCut
      below = worse(below, lesser(found?.word ?? 'Healthy', atMost))
    }
    for (const { child, atMost } of this.#counted(this.#cut)) ask(child, atMost)
    for (const { child, atMost } of this.#counted(this.#siblings)) ask(child, atMost)
    return { below, isCut }
  }

  #askAnew(uid: string, find: FindChild): void {
    this.#forget(uid)
    this.#siblings.delete(uid)
    this.#cut.delete(uid)
    const child = this.#record(uid)
    if (child && this.#isChild(child)) this.add(child, find)
  }

  #learn(uid: string, word: ArgoStatus): void {
    this.#forget(uid)
    const [counted] = this.#counted([uid])
    const makes = counted ? lesser(word, counted.atMost) : 'Healthy'
    this.#known.set(uid, { word, makes })
    this.#making.add(makes)
  }

  #forget(uid: string): void {
    const known = this.#known.get(uid)
    if (!known) return
    this.#known.delete(uid)
    this.#making.add(known.makes, -1)
  }

  *#counted(uids: Iterable<string>): Iterable<{ readonly child: ObjectRecord; readonly atMost: ArgoStatus }> {
    const children = Array.from(uids, (uid) => this.#record(uid)).filter((one) => one !== undefined)
    if (children.length === 0) return
    const byUid = new Map(children.map((one) => [one.uid, one]))
    for (const { child, atMost } of countedOf(traitObject(this.#parent), children.map(traitObject), Infinity)) {
      yield { child: byUid.get(uidOf(child)) as ObjectRecord, atMost }
    }
  }
}

const worse = (one: ArgoStatus, other: ArgoStatus) => (severityOf(other) > severityOf(one) ? other : one)
