import { maxHoldMs } from '../../../../proto/gitops/limits.ts'
import type { Finding } from '../finding.ts'
import { maxCorrections, recentCorrections } from '../inventory/corrections.ts'
import type { RecordedDrift } from '../round.ts'
import type { DriftPolicy } from '../source-options.ts'

/** Time until a deleted object is made again: `kubectl replace --force` makes it by itself. ms */
export const deletedAfterMs = 10_000

/** Decision on one object that has drifted. */
export type Decision =
  /** it is to be written now */
  | { readonly kind: 'write' }
  /** it is written at this time: ms since the epoch */
  | { readonly kind: 'later'; readonly at: number }
  /** it is left as it is */
  | { readonly kind: 'left'; readonly because: LeftBecause }

/**
 * Reasons for which drift is left as it is.
 *
 * - `mode`: the source's mode is `report` or `none`
 * - `added`: people's tools have added fields, and the source does not set `added_by`: an apply leaves them
 * - `unknown`: it is not compared, or nobody has changed it
 * - `hold`: an annotation of the object asks for it, until `until`: ms since the epoch
 * - `fight`: `by` has changed it back after each of the last corrections
 * - `paused`: the source writes nothing
 */
export type LeftBecause =
  | { readonly kind: 'mode' | 'added' | 'unknown' }
  | { readonly kind: 'hold'; readonly until: number }
  | { readonly kind: 'fight'; readonly by: string }
  | { readonly kind: 'paused' }

export interface DriftFacts {
  readonly policy: Pick<DriftPolicy, 'mode' | 'afterMs' | 'removesAdded'>
  /** as earlier pods have recorded it */
  readonly recorded: RecordedDrift | undefined
  /** this pod has led for less than `settleMs`: calls of a frozen leader may still arrive */
  readonly isSettling: boolean
  readonly isPaused: boolean
  /** wall clock: ms since the epoch */
  readonly now: number
}

/** Decides what happens to an object that has drifted. */
export function decide(finding: Finding, facts: DriftFacts): Decision {
  const { policy, recorded, isSettling, isPaused, now } = facts
  if (finding.kind !== 'drifted') return { kind: 'left', because: { kind: 'unknown' } }
  if (isPaused) return { kind: 'left', because: { kind: 'paused' } }
  if (isSettling && isOfFrozenLeader(finding, recorded)) return { kind: 'write' }
  if (policy.mode !== 'correct') return { kind: 'left', because: { kind: 'mode' } }
  const { holdUntil } = finding
  if (holdUntil !== undefined && holdUntil > now && holdUntil <= now + maxHoldMs) {
    return { kind: 'left', because: { kind: 'hold', until: holdUntil } }
  }
  if (!policy.removesAdded && isOnlyAdded(finding)) return { kind: 'left', because: { kind: 'added' } }
  const by = finding.by?.manager
  if (by !== undefined && by === recorded?.by && recentCorrections(recorded, now).length >= maxCorrections) {
    return { kind: 'left', because: { kind: 'fight', by } }
  }
  const at = finding.since + (finding.isDeleted ? deletedAfterMs : policy.afterMs)
  return at <= now ? { kind: 'write' } : { kind: 'later', at }
}

/** True for what a leader of before may have done late: an apply as the source's manager, or a deletion. */
function isOfFrozenLeader({ isDeleted, isAppliedSince }: Finding, recorded: RecordedDrift | undefined): boolean {
  return isDeleted ? recorded?.isDeleted !== true : isAppliedSince === true
}

/** True if all that differs are fields that people's tools have added. */
function isOnlyAdded({ differences, more, isDeleted }: Finding): boolean {
  return !isDeleted && more === 0 && differences.length > 0 && differences.every(({ kind }) => kind === 'added')
}
