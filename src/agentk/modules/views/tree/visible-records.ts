import type { Clock } from '../../../../lib/clock.ts'
import type { ArgoWord } from '../../../../proto/views-json.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import type { TimeSlices } from '../store/time-slices.ts'
import type { Below } from './below-walk.ts'
import { Opinions } from './opinions.ts'
import { isSameToClaims, maxAbove, Owners, saysOtherOwner } from './owners.ts'
import { type RunInTurns, Scans } from './scans.ts'
import { kasSeverityOf, severityOf, type VerdictSide } from './severity.ts'

/** Objects to place again after a change. */
export interface Moved {
  readonly uids: readonly string[]
  readonly below: readonly Below[]
  /** namespaces in which a verdict has changed */
  readonly namespaces: readonly string[]
  /** links may have changed */
  readonly isLinked: boolean
}

export interface VisibleRecordsComponents {
  readonly records: ReadonlyRecords
  readonly clock: Clock
  readonly turns: TimeSlices
}

/** Records that one visibility shows, shared by all of its forests. */
export class VisibleRecords {
  readonly visibility: Visibility
  readonly owners: Owners
  readonly opinions: Opinions
  readonly scans: Scans
  readonly #records: ReadonlyRecords
  readonly #turns: TimeSlices
  #linksVersion = 0

  /** Number that differs once an object has come or gone, or names or selects others. */
  get linksVersion(): number {
    return this.#linksVersion
  }

  constructor({ records, clock, turns }: VisibleRecordsComponents, visibility: Visibility) {
    this.visibility = visibility
    this.#records = records
    this.#turns = turns
    this.owners = new Owners(records, this.sees)
    this.opinions = new Opinions({ records, visibility, owners: this.owners, sees: this.sees })
    this.scans = new Scans(clock, this.run)
  }

  readonly sees = ({ kind, namespace }: Pick<ObjectRecord, 'kind' | 'namespace'>): boolean =>
    this.visibility.mayList(kind, namespace)

  /** Word of causes; '': the object is well, and its kind is followed without its status. */
  wordOf(record: ObjectRecord): ArgoWord {
    const { word } = this.opinions.of(record)
    return word === 'Healthy' && !record.health ? '' : word
  }

  severityOf(record: ObjectRecord, side: VerdictSide): number {
    return side === 'kas' ? kasSeverityOf(this.wordOf(record)) : severityOf(record.health, side)
  }

  /** Runs long work, in its turn (`TimeSlices.run`). */
  readonly run: RunInTurns = (step, done) => this.#turns.run(this.visibility.key, step, done)

  /** @returns undefined: nothing of the change is seen */
  moved(change: RecordChange): Moved | undefined {
    const before = change.before && this.sees(change.before) ? change.before : undefined
    const after = change.after && this.sees(change.after) ? change.after : undefined
    const seen = [before, after].filter((record) => record !== undefined)
    const [first, second] = seen
    if (!first) return undefined
    const isLinked = !before || !after || isOtherToLinks(before, after)
    if (isLinked) this.#linksVersion++
    const { judged } = change
    const judgedAnew = this.opinions.change({ before, after, ...(judged ? { judged } : {}) })
    if (before === after && !judgedAnew) return undefined
    const namespaces = [...new Set(judgedAnew?.map(({ namespace }) => namespace))]
    const uids = [...new Set([...seen, ...(judgedAnew ?? [])].map(({ uid }) => uid))]
    const isSame = second !== undefined && isSameToClaims(first, second)
    if (isSame && !saysOtherOwner(first, second)) return { uids, below: [], namespaces, isLinked }
    const levels = levelsOf(this.#countBefore(before), after ? this.owners.countAbove(after) : -1)
    const records = isSame ? [second] : seen
    return { uids, below: records.map((record) => ({ record, claims: !isSame, ...levels })), namespaces, isLinked }
  }

  #countBefore(before: ObjectRecord | undefined): number {
    if (!before) return -1
    return Owners.asOf(before, this.#records, this.sees).countAbove(before)
  }
}

/**
 * Returns the levels below an object at which there are too many owners now and were not before, or the reverse. In a
 * cycle this is not known: all levels.
 */
function levelsOf(before: number, now: number): { first: number; last: number } {
  const [fewer, more] = [Math.min(before, now), Math.max(before, now)]
  if (more === Number.POSITIVE_INFINITY) return { first: 1, last: maxAbove + 1 }
  return { first: maxAbove + 1 - more, last: fewer === more ? 0 : maxAbove - fewer }
}

/** True if the links of an object may have changed. */
function isOtherToLinks(one: ObjectRecord, other: ObjectRecord): boolean {
  return (
    one.name !== other.name ||
    one.node !== other.node ||
    one.labels !== other.labels ||
    one.references !== other.references ||
    one.selector !== other.selector ||
    one.owner !== other.owner ||
    one.otherOwners !== other.otherOwners
  )
}
