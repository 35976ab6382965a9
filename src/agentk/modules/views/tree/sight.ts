import type { Clock } from '../../../../lib/clock.ts'
import type { FairTurns } from '../store/fair-turns.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange, Visibility } from '../store/record.ts'
import type { Below } from './below-walk.ts'
import { isSameToClaims, maxAbove, Owners, saysOtherOwner } from './owners.ts'
import { Scans } from './scans.ts'

/** What is to be placed anew after a change. */
export interface Moved {
  readonly uids: readonly string[]
  readonly below: readonly Below[]
}

export interface SightComponents {
  readonly records: ReadonlyRecords
  readonly clock: Clock
  readonly turns: FairTurns
}

/** What all forests of one visibility share: whoever may list the same. */
export class Sight {
  readonly visibility: Visibility
  readonly owners: Owners
  readonly scans: Scans
  readonly #records: ReadonlyRecords
  readonly #turns: FairTurns

  constructor({ records, clock, turns }: SightComponents, visibility: Visibility) {
    this.visibility = visibility
    this.#records = records
    this.#turns = turns
    this.owners = new Owners(records, this.sees)
    this.scans = new Scans(clock, (step, done) => this.run(step, done))
  }

  readonly sees = ({ kind, namespace }: Pick<ObjectRecord, 'kind' | 'namespace'>): boolean =>
    this.visibility.mayList(kind, namespace)

  /** Long work, in its turn (`FairTurns.run`). */
  run(step: () => boolean, done: () => void): () => void {
    return this.#turns.run(this.visibility.key, step, done)
  }

  /** @returns undefined: nothing of it is seen */
  moved({ before, after }: RecordChange): Moved | undefined {
    const seen = [before, after].filter((record) => record && this.sees(record)) as ObjectRecord[]
    const [first, second] = seen
    if (!first) return undefined
    const uids = seen.map(({ uid }) => uid)
    const isSame = second !== undefined && isSameToClaims(first, second)
    if (isSame && !saysOtherOwner(first, second)) return { uids, below: [] }
    const levels = levelsOf(this.#countBefore(before), after && this.sees(after) ? this.owners.countAbove(after) : -1)
    const records = isSame ? [second] : seen
    return { uids, below: records.map((record) => ({ record, claims: !isSame, ...levels })) }
  }

  #countBefore(before: ObjectRecord | undefined): number {
    if (!before || !this.sees(before)) return -1
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
