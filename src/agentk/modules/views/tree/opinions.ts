import type { Need } from '../../../health/kas/finding.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import { siblingKinds, wordAbove } from '../../../health/kas/root-causes/counting.ts'
import { type Choice, chosenOf, isSameChoice, type Judgement } from '../store/judgement.ts'
import { customParentsOf, traitObject } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import { ChildrenWords, type Found, type Known } from './children-words.ts'
import { maxAbove, type Owners } from './owners.ts'

/** If an object has more children, their words are kept: when one child changes, few are asked again. */
const fewChildren = 64

const well: Found = { word: 'Healthy', below: 'Healthy', isCut: false }
const noneBelow: Omit<Found, 'word'> = { below: 'Healthy', isCut: false }

export interface OpinionsComponents {
  readonly records: ReadonlyRecords
  readonly visibility: Visibility
  readonly owners: Owners
  readonly sees: (record: Pick<ObjectRecord, 'kind' | 'namespace'>) => boolean
}

/**
 * Opinions on objects, as one caller gets them: for each the first choice whose needs hold, and the worst of what
 * counts below it. They are found when they are asked for. For an object that is not well, or has something below it,
 * they are kept until something below changes.
 */
export class Opinions {
  readonly #components: OpinionsComponents
  readonly #known = new Map<string, Found>()
  /** words of the children of objects with many */
  readonly #children = new Map<string, ChildrenWords>()
  /** by namespace: a number that differs once an opinion has changed there */
  readonly #versions = new Map<string, number>()
  #version = 0

  constructor(components: OpinionsComponents) {
    this.#components = components
  }

  of(record: ObjectRecord): Known {
    return this.#find(record, 0, new Set())
  }

  /** Opinion on the object alone. */
  ofOne({ uid, health }: Pick<ObjectRecord, 'uid' | 'health'>): Opinion {
    return this.#chosen(this.#components.records.judged(uid)) ?? bare(health)
  }

  /**
   * Children that may matter to an object with many.
   *
   * @returns undefined: it has few
   */
  notableOf(record: ObjectRecord): Iterable<string> | undefined {
    this.of(record)
    return this.#children.get(record.uid)?.notable()
  }

  /** Number that differs once an opinion has changed. */
  get version(): number {
    return this.#version
  }

  versionOf(namespace: string): number {
    return this.#versions.get(namespace) ?? 0
  }

  readonly holds = ([kind, namespace]: Need): boolean => {
    const { visibility, records } = this.#components
    if (kind === 'Event') return visibility.mayListEvents(namespace)
    const known = records.kindOf(kind)
    return known !== undefined && visibility.mayList(known, namespace)
  }

  /**
   * Takes in a change of what is seen.
   *
   * @returns objects on which opinions may have changed: the object, and those above it; undefined: all is as before
   */
  change({ before, after, judged }: RecordChange): readonly ObjectRecord[] | undefined {
    const isOther = judged !== undefined && !isSameChoice(this.#chosen(judged.before), this.#chosen(judged.after))
    const isSick = this.#isSick((after ?? before) as ObjectRecord, judged)
    if (!isOther && !this.#mayCount(before, after, isSick)) return undefined
    const changed = new Map<string, ObjectRecord>()
    this.#version++
    const isPlaced = !before || !after || before.name !== after.name
    if (after && !isPlaced) this.#children.get(after.uid)?.become(after)
    else this.#children.delete(((after ?? before) as ObjectRecord).uid)
    for (const record of before === after ? [after] : [before, after]) {
      if (!record) continue
      for (const one of this.#withAbove(record, isPlaced)) changed.set(one.uid, one)
    }
    for (const namespace of new Set([...changed.values()].map((one) => one.namespace))) {
      this.#versions.set(namespace, this.versionOf(namespace) + 1)
    }
    for (const uid of changed.keys()) this.#known.delete(uid)
    return [...changed.values()]
  }

  /** True if the change may matter to opinions on others. */
  #mayCount(before: ObjectRecord | undefined, after: ObjectRecord | undefined, isSick: boolean): boolean {
    if (before === after) return false
    if (!before || !after) {
      return isSick || (after ?? before)?.traits !== undefined || this.#isSickBelow(after)
    }
    if (before.traits !== after.traits || before.health?.by !== after.health?.by) return true
    if (before.selector !== after.selector) return true
    const isPlaced =
      before.name !== after.name || before.owner !== after.owner || before.customParent !== after.customParent
    if (isPlaced && (isSick || siblingKinds.has(after.kind.key) || this.#isSickBelow(after))) return true
    return (
      isSick && (before.references !== after.references || before.node !== after.node || before.labels !== after.labels)
    )
  }

  /** True if something below the object is not well; false for an object that is gone. */
  #isSickBelow(record: ObjectRecord | undefined): boolean {
    return record !== undefined && this.of(record).below !== 'Healthy'
  }

  /**
   * Yields the objects on which opinions may have changed.
   *
   * @param isPlaced - it came, went, or has another name
   */
  *#withAbove(record: ObjectRecord, isPlaced: boolean): Iterable<ObjectRecord> {
    const { records } = this.#components
    yield* this.#upFrom(record)
    if (!isPlaced) return
    // objects that have a parent by custom may have another one now
    for (const child of records.claimingByCustom(record)) {
      for (const { kind, name } of customParentsOf(child)) {
        const other = records.named(kind, child.namespace, name)
        if (!other || !this.#components.sees(other)) continue
        this.#children.delete(other.uid)
        yield* this.#upFrom(other)
      }
    }
  }

  /** Yields the object, and what is above it. */
  *#upFrom(record: ObjectRecord): Iterable<ObjectRecord> {
    yield record
    let below = record
    for (const one of above(record, this.#components.owners)) {
      this.#children.get(one.uid)?.touch(below.uid)
      yield one
      below = one
    }
  }

  #isSick(record: ObjectRecord, judged: RecordChange['judged']): boolean {
    return (
      judged !== undefined || this.#known.has(record.uid) || this.#components.records.judged(record.uid) !== undefined
    )
  }

  #chosen(judgement: Judgement | undefined): Choice | undefined {
    return chosenOf(judgement, this.holds)
  }

  /** @param met - objects that are being found: a cycle ends there */
  #find(record: ObjectRecord, depth: number, met: Set<string>): Found {
    const known = this.#known.get(record.uid)
    if (known) return known
    const opinion = this.ofOne(record)
    if (opinion.by === 'users' || !this.#components.records.isClaimed(record))
      return this.#keep(record, opinion, noneBelow)
    if (depth === maxAbove) return { word: opinion.word, below: 'Healthy', isCut: true }
    met.add(record.uid)
    const below = this.#findBelow(record, depth, met)
    met.delete(record.uid)
    return this.#keep(record, opinion, below)
  }

  #findBelow(parent: ObjectRecord, depth: number, met: Set<string>): Omit<Found, 'word'> {
    const { records } = this.#components
    /** results of children that are not kept (`isCut`): a child that is asked twice would ask all below it twice */
    const cut = new Map<string, Found>()
    const find = (child: ObjectRecord): Found | undefined => {
      if (met.has(child.uid)) return undefined
      const found = cut.get(child.uid) ?? this.#find(child, depth + 1, met)
      if (found.isCut) cut.set(child.uid, found)
      return found
    }
    const known = this.#children.get(parent.uid)
    if (known) return known.worst(find)
    const isChild = (child: ObjectRecord) => this.#isChild(child, parent)
    const words = new ChildrenWords({ parent, record: (uid) => records.get(uid), isChild })
    let children = 0
    for (const child of records.claiming(parent)) {
      if (!isChild(child)) continue
      children++
      words.add(child, find)
    }
    if (children > fewChildren) this.#children.set(parent.uid, words)
    return words.worst(find)
  }

  #isChild(child: ObjectRecord, parent: ObjectRecord): boolean {
    const { owners, sees } = this.#components
    return sees(child) && owners.believed(child)?.uid === parent.uid
  }

  /** Keeps an opinion, also on an object that is well if objects below it had to be searched. */
  #keep(record: ObjectRecord, opinion: Opinion, counted: Omit<Found, 'word'>): Found {
    const { below, isCut } = counted
    const word = below === 'Healthy' ? opinion.word : wordAbove(traitObject(record), opinion, below)
    const isWell = word === 'Healthy' && below === 'Healthy' && !isCut
    const found = isWell ? well : { word, below, isCut }
    if (!isCut && (!isWell || counted !== noneBelow)) this.#known.set(record.uid, found)
    return found
  }
}

const bares: Readonly<Record<Opinion['by'], Opinion>> = {
  users: { word: 'Healthy', finding: undefined, by: 'users' },
  rules: { word: 'Healthy', finding: undefined, by: 'rules' },
  nobody: { word: 'Healthy', finding: undefined, by: 'nobody' },
}

const bare = (health: ObjectRecord['health']) => bares[health?.by ?? 'nobody']

function* above(record: ObjectRecord, owners: Owners): Iterable<ObjectRecord> {
  const met = new Set([record.uid])
  for (let at = owners.believed(record); at && met.size <= maxAbove && !met.has(at.uid); at = owners.believed(at)) {
    met.add(at.uid)
    yield at
  }
}
