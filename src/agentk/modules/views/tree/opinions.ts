import type { Need } from '../../../health/kas/finding.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import { siblingKinds, wordAbove } from '../../../health/kas/root-causes/counting.ts'
import { type Choice, chosenOf, isSameChoice, type Judgement } from '../store/judgement.ts'
import { customParentsOf, traitObject } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import { ChildrenWords, type Found, type Known } from './children-words.ts'
import type { Owners } from './owners.ts'

/** children below an object, one below the other, that count for it */
const maxDepth = 64

/** Of an object with more children than this it is kept what they say: few are asked anew when one of them changes. */
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
 * How objects are, as one caller gets it: of each the first choice whose needs hold, and the worst of what counts below
 * it. Found when it is asked for; kept of what is not well or has something below it, until something below changes.
 */
export class Opinions {
  readonly #components: OpinionsComponents
  readonly #known = new Map<string, Found>()
  /** of those with many children */
  readonly #children = new Map<string, ChildrenWords>()
  /** by namespace: another number once anything is said otherwise there */
  readonly #versions = new Map<string, number>()
  #version = 0

  constructor(components: OpinionsComponents) {
    this.#components = components
  }

  of(record: ObjectRecord): Known {
    return this.#find(record, 0, new Set())
  }

  /** Of the object alone. */
  ofOne({ uid, health }: Pick<ObjectRecord, 'uid' | 'health'>): Opinion {
    return this.#chosen(this.#components.records.judged(uid)) ?? bare(health)
  }

  /** Of one with many children those of which anything is to be said. @returns undefined: it has few */
  notableOf(record: ObjectRecord): Iterable<string> | undefined {
    this.of(record)
    return this.#children.get(record.uid)?.notable()
  }

  /** Another number once anything is said otherwise. */
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
   * A change of what is seen.
   *
   * @returns what may be said otherwise now: the object, and what is above it; undefined: all is as before
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

  /** Whether it matters to what is said of others. */
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

  /** What is gone, or was well with all below it, is not known. */
  #isSickBelow(record: ObjectRecord | undefined): boolean {
    return record !== undefined && this.of(record).below !== 'Healthy'
  }

  /** @param isPlaced - it came, went, or is named otherwise */
  *#withAbove(record: ObjectRecord, isPlaced: boolean): Iterable<ObjectRecord> {
    const { records } = this.#components
    yield* this.#upFrom(record)
    if (!isPlaced) return
    // of those that have a parent by custom another one may be it now
    for (const child of records.claimingByCustom(record)) {
      for (const { kind, name } of customParentsOf(child)) {
        const other = records.named(kind, child.namespace, name)
        if (!other || !this.#components.sees(other)) continue
        this.#children.delete(other.uid)
        yield* this.#upFrom(other)
      }
    }
  }

  /** It, and what is above it. */
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

  /** @param met - those of which it is found out already: whatever goes round ends there */
  #find(record: ObjectRecord, depth: number, met: Set<string>): Found {
    const known = this.#known.get(record.uid)
    if (known) return known
    const opinion = this.ofOne(record)
    if (opinion.by === 'users' || !this.#components.records.isClaimed(record))
      return this.#keep(record, opinion, noneBelow)
    if (depth === maxDepth) return { word: opinion.word, below: 'Healthy', isCut: true }
    met.add(record.uid)
    const below = this.#findBelow(record, depth, met)
    met.delete(record.uid)
    return this.#keep(record, opinion, below)
  }

  #findBelow(parent: ObjectRecord, depth: number, met: Set<string>): Omit<Found, 'word'> {
    const { records } = this.#components
    /** those that are asked twice, each of which would ask its own twice */
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

  /** Of one that is well it is kept where it had to be searched below. */
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
  for (let at = owners.believed(record); at && met.size <= maxDepth && !met.has(at.uid); at = owners.believed(at)) {
    met.add(at.uid)
    yield at
  }
}
