import type { Clock } from '../../../../lib/clock.ts'
import type { ArgoWord } from '../../../../proto/views-json.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import type { TimeSlices } from '../store/time-slices.ts'
import type { Below } from './below-walk.ts'
import { Opinions } from './opinions.ts'
import { isSameToClaims, maxAbove, Owners, saysOtherOwner } from './owners.ts'
import { type RunInTurns, Scans } from './scans.ts'
import { kasSeverityOf, severityOf, type VerdictSide } from './severity.ts'

/** What is to be placed anew after a change. */
export interface Moved {
  readonly uids: readonly string[]
  readonly below: readonly Below[]
  /** namespaces in which a verdict has changed */
  readonly namespaces: readonly string[]
  /** something may be linked otherwise */
  readonly isLinked: boolean
}

export interface VisibleRecordsComponents {
  readonly records: ReadonlyRecords
  readonly clock: Clock
  readonly turns: TimeSlices
}

/** Records that one visibility shows, as all of its forests share them: whoever may list the same. */
export class VisibleRecords {
  readonly visibility: Visibility
  readonly owners: Owners
  readonly opinions: Opinions
  readonly scans: Scans
  readonly #records: ReadonlyRecords
  readonly #turns: TimeSlices
  #linksVersion = 0

  /** Another number once something has come, has gone, or names or selects others. */
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

  /** The word of causes; '': of a kind that is followed without its status nothing is shown while it is well. */
  wordOf(record: ObjectRecord): ArgoWord {
    const { word } = this.opinions.of(record)
    return word === 'Healthy' && !record.health ? '' : word
  }

  severityOf(record: ObjectRecord, side: VerdictSide): number {
    return side === 'kas' ? kasSeverityOf(this.wordOf(record)) : severityOf(record.health, side)
  }

  /** Long work, in its turn (`TimeSlices.run`). */
  readonly run: RunInTurns = (step, done) => this.#turns.run(this.visibility.key, step, done)

  /** @returns undefined: nothing of it is seen */
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
 * Of what is below an object, the levels at which owners are too many with so many above it and not with as many as it
 * had. Of cycles that is not known: all.
 */
function levelsOf(before: number, now: number): { first: number; last: number } {
  const [fewer, more] = [Math.min(before, now), Math.max(before, now)]
  if (more === Number.POSITIVE_INFINITY) return { first: 1, last: maxAbove + 1 }
  return { first: maxAbove + 1 - more, last: fewer === more ? 0 : maxAbove - fewer }
}

/** Whether what it is linked with may be otherwise. */
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
