import { create } from '@bufbuild/protobuf'
import {
  CountsSchema,
  type DriftedObject,
  DriftedObjectSchema,
  type SourceState,
} from '../../../../proto/gen/gitops_states_pb.ts'
import { maxListed } from '../../../../proto/gitops/limits.ts'
import type { KnownFinding } from '../drift/known-findings.ts'
import type { FindingKind } from '../finding.ts'
import type { SourceOptions } from '../source-options.ts'
import { keyOf } from './state-key.ts'

/** Objects whose paths a state has: a state of 64 KiB has room for these. */
const maxWithPaths = 10
/** Paths of one object. */
const maxPaths = 20
/** Limit of a path: kas takes 16 KiB of one object, and a character may have 3 bytes. */
const maxPathLength = 150
/** Limit of kinds that are not watched. */
const maxUnwatched = 20
/** Limit of a manager, a reason or a file. */
const maxTextLength = 300

const words: Readonly<Record<FindingKind, string>> = {
  drifted: 'drifted',
  notCompared: 'not_compared',
  wouldChange: 'would_change',
}
const order: readonly FindingKind[] = ['drifted', 'notCompared', 'wouldChange']

/** Returns the state with what is known of drift. Drifted objects stand first, the newest before the others. */
export function stateOfDrift(
  state: SourceState,
  { known, unwatched }: { readonly known: Iterable<KnownFinding>; readonly unwatched: readonly string[] },
  { drift: { mode } }: Pick<SourceOptions, 'drift'>,
): SourceState {
  const all = [...known].sort((one, other) => rankOf(one) - rankOf(other) || other.finding.since - one.finding.since)
  const count = (kind: FindingKind) => all.filter(({ finding }) => finding.kind === kind).length
  const differing = { drifted: count('drifted'), notCompared: count('notCompared'), wouldChange: count('wouldChange') }
  const counts = { ...create(CountsSchema, state.counts ?? {}), ...differing }
  const drifted = all.slice(0, maxListed).map((one, i) => driftedObject(one, i < maxWithPaths ? maxPaths : 0))
  const texts = unwatched.slice(0, maxUnwatched).map((text) => text.slice(0, maxTextLength))
  return { ...state, counts, drifted, driftMode: mode, unwatched: texts }
}

/** Returns the numbers that a round does not count. They stay until drift is reported again. */
export function driftCounts({ counts }: SourceState) {
  const { drifted = 0, notCompared = 0, wouldChange = 0 } = counts ?? {}
  return { drifted, notCompared, wouldChange }
}

function rankOf({ finding }: KnownFinding): number {
  return order.indexOf(finding.kind)
}

/** Returns what is known of one object. @param paths - limit of its paths */
export function driftedObject({ finding, decision }: KnownFinding, paths: number): DriftedObject {
  const { kind, isDeleted, differences, more, by, since, reason, file, line } = finding
  const left = decision.kind === 'left' && kind === 'drifted' ? decision.because : undefined
  const correctAt = decision.kind === 'later' ? decision.at : since
  return create(DriftedObjectSchema, {
    key: keyOf(finding),
    kind: words[kind],
    deleted: isDeleted,
    path: differences.slice(0, paths).map(({ path }) => path.slice(0, maxPathLength)),
    morePaths: more + Math.max(0, differences.length - paths),
    manager: by?.manager.slice(0, maxTextLength) ?? '',
    operation: by?.operation ?? '',
    changedAtMs: BigInt(by?.time ?? 0),
    sinceMs: BigInt(since),
    correctAtMs: BigInt(decision.kind === 'left' ? 0 : correctAt),
    left: left?.kind ?? '',
    holdUntilMs: BigInt(left?.kind === 'hold' ? left.until : 0),
    text: reason.slice(0, maxTextLength),
    file: file.slice(0, maxTextLength),
    line,
  })
}
