import type { Finding } from '../finding.ts'
import type { RecordedDrift } from '../round.ts'

/** Corrections of one object, of changes by one manager, after which it is left to that manager. */
export const maxCorrections = 3
/** Time in which these corrections count. ms */
export const correctionsMs = 3600_000

/**
 * Returns the times of the corrections that count for a change: none that is far ahead of it, since the clock may have
 * been set back.
 *
 * @param at - its time: ms since the epoch
 */
export function recentCorrections(recorded: RecordedDrift | undefined, at: number): readonly number[] {
  return (recorded?.corrections ?? []).filter((corrected) => Math.abs(at - corrected) < correctionsMs)
}

/** Returns what is recorded of an object after a correction. */
export function recordCorrection(before: RecordedDrift | undefined, { by }: Finding, now: number): RecordedDrift {
  const manager = by?.manager
  if (manager === undefined) return { since: 0 }
  const earlier = before?.by === manager ? recentCorrections(before, now) : []
  return { since: 0, by: manager, corrections: [...earlier, now].slice(-maxCorrections) }
}

/** Returns what stays recorded of an object that is as in Git again; undefined: nothing. */
export function keptCorrections({ by, corrections }: RecordedDrift): RecordedDrift | undefined {
  return by === undefined || corrections === undefined ? undefined : { since: 0, by, corrections }
}
