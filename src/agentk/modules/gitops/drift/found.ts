import type { ChangeAuthor, Finding, FindingKind } from '../finding.ts'
import type { RecordedDrift } from '../round.ts'
import { isOnlyAdded } from './drift-policy.ts'
import type { Explanation } from './explanation.ts'
import type { ComparedManifest } from './kept-manifests.ts'

/** Limit of the time by which a change may be ahead of the clock, in ms: somebody has forged a later one. */
export const maxAheadMs = 5000

/** Facts beside a comparison. */
export interface Before {
  /** as the inventory has it */
  readonly recorded: RecordedDrift | undefined
  /** finding of an earlier comparison */
  readonly before: Finding | undefined
  /** ms since the epoch */
  readonly now: number
}

/**
 * Returns the finding of a comparison. The time since which it holds is that of the first change that is known: further
 * changes do not put a correction off.
 */
export function findingOf(
  { key, version, file, line }: ComparedManifest,
  explanation: Exclude<Explanation, { kind: 'same' | 'beingDeleted' }>,
  { recorded, before, now }: Before,
): Finding {
  const isDeleted = explanation.kind === 'deleted'
  const isPossible = (time: number) => time > 0 && time <= now + maxAheadMs
  const isRecorded = recorded !== undefined && isPossible(recorded.since) && (recorded.isDeleted ?? false) === isDeleted
  const kind = kindOf(explanation)
  const of = explanation.kind === 'deleted' ? undefined : explanation.of
  const {
    differences,
    more,
    by: said,
  } = 'by' in explanation ? explanation : { differences: [], more: 0, by: undefined }
  const by = said && authorWith(said, isPossible)
  const isOneDrift =
    before?.isDeleted === isDeleted &&
    before.kind === kind &&
    isOnlyAdded(before) === isOnlyAdded({ differences, more, isDeleted })
  const earlier = isOneDrift ? before.since : undefined
  const changed = by?.time === undefined ? undefined : Math.min(by.time, earlier ?? by.time)
  return {
    key,
    version,
    file,
    line,
    kind,
    isDeleted,
    differences,
    more,
    by,
    since: changed ?? (isRecorded ? recorded.since : earlier) ?? now,
    reason: explanation.kind === 'notCompared' ? explanation.reason : '',
    ...(of?.isRewritten && { isRewritten: true as const }),
    holdUntil: of?.holdUntil,
    resourceVersion: of?.live.resourceVersion ?? '',
  }
}

/** Leaves a time out that no change can have: whoever may write an object can forge its managedFields. */
function authorWith({ time, ...author }: ChangeAuthor, isPossible: (time: number) => boolean): ChangeAuthor {
  return { ...author, ...(time !== undefined && isPossible(time) && { time }) }
}

function kindOf(explanation: Exclude<Explanation, { kind: 'same' | 'beingDeleted' }>): FindingKind {
  if (explanation.kind === 'deleted') return 'drifted'
  if (explanation.kind === 'notCompared') return explanation.isProven ? 'drifted' : 'notCompared'
  return explanation.kind
}
