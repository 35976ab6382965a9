import type { ArgoStatus } from '../../../health/argo/health.ts'
import { countedOf, siblingKinds, wordAbove } from '../../../health/kas/choice/counting.ts'
import { lesser, type Need, severityOf } from '../../../health/kas/finding.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import { uidOf } from '../../../health/kas/read.ts'
import type { KubernetesObject } from '../../../health/object.ts'
import { type Choice, chosenOf, isSameChoice, type Judgement } from '../store/judgement.ts'
import { customParentsOf, traitObject } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import type { Owners } from './owners.ts'

/** children below an object, one below the other, that count for it */
const maxDepth = 64

/** How an object is with what counts below it. */
export interface Known {
  readonly word: ArgoStatus
  /** the worst of what it counts */
  readonly below: ArgoStatus
}

interface Found extends Known {
  /** something below was not looked at: it is too far down */
  readonly isCut: boolean
}

const well: Found = { word: 'Healthy', below: 'Healthy', isCut: false }
const noneBelow: Omit<Found, 'word'> = { below: 'Healthy', isCut: false }

export interface OpinionsComponents {
  readonly records: ReadonlyRecords
  readonly visibility: Visibility
  readonly owners: Owners
  readonly sees: (record: Pick<ObjectRecord, 'kind' | 'namespace'>) => boolean
}

/**
 * How objects are, as one caller is told: of each the first choice whose needs hold, and the worst of what counts below
 * it. Found when it is asked for; kept of what is not well or has something below it, until something below changes.
 */
export class Opinions {
  readonly #components: OpinionsComponents
  readonly #known = new Map<string, Found>()
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
    if (isPlaced && (isSick || this.#isSickBelow(after))) return true
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
    const { owners, records } = this.#components
    yield record
    yield* above(record, owners)
    if (!isPlaced) return
    // of those that have a parent by custom another one may be it now
    for (const child of records.claimingByCustom(record)) {
      for (const { kind, name } of customParentsOf(child)) {
        const other = records.named(kind, child.namespace, name)
        if (other && this.#components.sees(other)) yield* [other, ...above(other, owners)]
      }
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

  #findBelow(record: ObjectRecord, depth: number, met: Set<string>): Omit<Found, 'word'> {
    const parent = traitObject(record)
    const siblings: KubernetesObject[] = []
    const words = new Map<string, ArgoStatus>()
    const found: { below: ArgoStatus; isCut: boolean } = { below: 'Healthy', isCut: false }
    const count = (children: readonly KubernetesObject[]) => {
      for (const { child, atMost } of countedOf(parent, children, Number.POSITIVE_INFINITY)) {
        found.below = worse(found.below, lesser(words.get(uidOf(child)) ?? 'Healthy', atMost))
      }
    }
    for (const child of this.#childrenOf(record)) {
      if (met.has(child.uid)) {
        found.isCut = true
        continue
      }
      const { word, isCut } = this.#find(child, depth + 1, met)
      found.isCut ||= isCut
      const isSibling = siblingKinds.has(child.kind.key)
      if (word === 'Healthy' && !isSibling) continue
      words.set(child.uid, word)
      if (isSibling) siblings.push(traitObject(child))
      else count([traitObject(child)])
      if (found.below === 'Degraded' && siblings.length === 0) break
    }
    count(siblings)
    return found
  }

  *#childrenOf(record: ObjectRecord): Iterable<ObjectRecord> {
    const { records, owners, sees } = this.#components
    for (const child of records.claiming(record)) {
      if (sees(child) && owners.believed(child)?.uid === record.uid) yield child
    }
  }

  /** Of one that is well it is kept where it had to be looked for below. */
  #keep(record: ObjectRecord, opinion: Opinion, counted: Omit<Found, 'word'>): Found {
    const { below, isCut } = counted
    const word = below === 'Healthy' ? opinion.word : wordAbove(traitObject(record), opinion, below)
    const isWell = word === 'Healthy' && below === 'Healthy' && !isCut
    const found = isWell ? well : { word, below, isCut }
    if (!isCut && (!isWell || counted !== noneBelow)) this.#known.set(record.uid, found)
    return found
  }
}

const worse = (one: ArgoStatus, other: ArgoStatus) => (severityOf(other) > severityOf(one) ? other : one)

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
