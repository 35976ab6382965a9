import type { Finding, FindingKind } from '../finding.ts'
import type { RecordedDrift } from '../round.ts'
import type { Explanation } from './explanation.ts'
import type { ComparedManifest } from './kept-manifests.ts'

/** Facts beside a comparison. */
export interface Before {
  /** as the inventory has it */
  readonly recorded: RecordedDrift | undefined
  /** finding of an earlier comparison */
  readonly before: Finding | undefined
  /** ms since the epoch */
  readonly now: number
}

/** Returns the finding of a comparison: the time since which it holds is the earliest that is known. */
export function findingOf(
  { key, version, file, line }: ComparedManifest,
  explanation: Exclude<Explanation, { kind: 'same' | 'beingDeleted' }>,
  { recorded, before, now }: Before,
): Finding {
  const isDeleted = explanation.kind === 'deleted'
  const isRecorded = recorded !== undefined && recorded.since > 0 && (recorded.isDeleted ?? false) === isDeleted
  const kind = kindOf(explanation)
  const earlier = before?.isDeleted === isDeleted && before.kind === kind ? before.since : undefined
  const of = explanation.kind === 'deleted' ? undefined : explanation.of
  const { differences, more, by } = 'by' in explanation ? explanation : { differences: [], more: 0, by: undefined }
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
    since: by?.time ?? (isRecorded ? recorded.since : earlier) ?? now,
    reason: explanation.kind === 'notCompared' ? explanation.reason : '',
    holdUntil: of?.holdUntil,
    ...(of?.isAppliedSince && { isAppliedSince: true }),
    resourceVersion: of?.live.resourceVersion ?? '',
  }
}

function kindOf(explanation: Exclude<Explanation, { kind: 'same' | 'beingDeleted' }>): FindingKind {
  if (explanation.kind === 'deleted') return 'drifted'
  if (explanation.kind === 'notCompared') return explanation.isProven ? 'drifted' : 'notCompared'
  return explanation.kind
}
