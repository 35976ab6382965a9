import { create } from '@bufbuild/protobuf'
import { keyName, keyText } from '../../../../kubernetes/key.ts'
import {
  type Counts,
  CountsSchema,
  type LeavingObject,
  LeavingObjectSchema,
  Left,
  type LeftField,
  LeftFieldSchema,
  type ObjectTrouble,
  ObjectTroubleSchema,
  Phase,
  type SourceState,
  SourceStateSchema,
} from '../../../../proto/gen/gitops_states_pb.ts'
import { maxListed } from '../../../../proto/gitops/limits.ts'
import { refText } from '../../../../proto/gitops/ref-text.ts'
import type { KnownFinding } from '../drift/known-findings.ts'
import type { SourceHealthSummary } from '../health-verdict.ts'
import { type ManifestProblem, problemText } from '../manifests/manifest.ts'
import { isParent } from '../manifests/parents.ts'
import { isApplied } from '../outcome.ts'
import type { ApplyEnd, DryRun, InventoryEntry, LastGood, Outcome, RoundDone, RoundEnd, Step } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { driftCounts, stateOfDrift } from './drift-state.ts'
import { stateOfHealth } from './health-state.ts'
import { keyOf } from './state-key.ts'

/** Limit of a text. */
const maxTextLength = 1000
/** Limit of a path, a manager or a rule. */
const maxFieldLength = 150
/** Limit of a text about the objects that are deleted with another one: a field of a state may have 16 KiB. */
const maxDependentsLength = 14_000
/** Report about a source, from which its state follows. */
export type Report =
  /** a commit has come, and waits for its round */
  | { readonly kind: 'received'; readonly commit: string }
  /** nothing is written */
  | { readonly kind: 'suspended'; readonly commit: string }
  | { readonly kind: 'step'; readonly commit: string; readonly step: Step }
  | { readonly kind: 'outcome'; readonly commit: string; readonly outcome: Outcome }
  /** the round failed, and is tried again */
  | { readonly kind: 'failed'; readonly commit: string; readonly text: string }
  /** the source has left the configuration, and its objects are being read */
  | { readonly kind: 'removalBegun' }
  | { readonly kind: 'removalFailed'; readonly text: string }
  | { readonly kind: 'removal'; readonly done: RoundDone }
  /** differences between the cluster and the commit that was applied */
  | { readonly kind: 'drift'; readonly known: Iterable<KnownFinding>; readonly unwatched: readonly string[] }
  | { readonly kind: 'health'; readonly summary: SourceHealthSummary }

/** Names of a source for people. */
export type SourceNames = Pick<SourceOptions, 'id' | 'project' | 'name' | 'environments' | 'ref'>

/** Returns the state of a source of which nothing is known yet. */
export function firstState(options: SourceNames, now: number): SourceState {
  const state = create(SourceStateSchema, { phase: Phase.WAITING, counts: {}, atMs: BigInt(now) })
  return withNames(state, options)
}

/** Sets the names that the configuration has now. */
export function withNames(state: SourceState, options: SourceNames): SourceState {
  const { id: source, project, name = '', environments, ref } = options
  return { ...state, source, project, name, ref: refText(ref), environment: [...environments] }
}

/** Returns the state of a source after a report. */
export function stateAfter(before: SourceState, report: Report, options: SourceOptions, now: number): SourceState {
  const isOfOther = 'commit' in report && report.commit !== before.wanted
  const state = isOfOther ? { ...before, failedRounds: 0 } : before
  if (report.kind === 'removalBegun') return afterRemovalBegun(state, now)
  const at = { ...state, ...ofConfiguration, atMs: BigInt(now) }
  if (report.kind === 'drift') return stateOfDrift({ ...state, atMs: BigInt(now) }, report, options)
  if (report.kind === 'health') return stateOfHealth({ ...state, atMs: BigInt(now) }, report.summary)
  if (report.kind === 'received') return afterReceived(state, report.commit, now)
  if (report.kind === 'suspended') {
    // a pause does not bring failed objects into the cluster
    const isRefused = state.phase === Phase.REFUSED && state.commit === report.commit // by another configuration
    const commit = state.phase === Phase.FAILING || isRefused ? '' : state.commit
    return { ...at, phase: Phase.PAUSED, commit, wanted: report.commit }
  }
  if (report.kind === 'failed') {
    const failedRounds = state.failedRounds + 1
    return { ...at, phase: Phase.FAILING, failedRounds, wanted: report.commit, problem: report.text }
  }
  if (report.kind === 'removal') return afterRemoval(at, report.done)
  if (report.kind === 'removalFailed')
    return { ...afterRemovalBegun(at, now), problem: `${leftConfiguration}: ${report.text}` }
  if (report.kind === 'step') return afterStep(at, report.commit, report.step)
  const { commit, outcome } = report
  const wanted = { ...at, wanted: commit }
  if (outcome.kind === 'suspended') return wanted
  if (outcome.kind === 'refused') return refused(wanted, outcome.problems, outcome.lastGood)
  const compared = { ...wanted, comparedAtMs: BigInt(now) }
  if (outcome.kind === 'dryRun') return triedOut(compared, outcome, options)
  return done(compared, commit, outcome)
}

/** Drops facts of another commit: they do not hold for this one, which was not checked. */
function afterReceived(state: SourceState, commit: string, now: number): SourceState {
  if (commit === state.wanted) return state
  const begun = { phase: Phase.READING, wanted: commit, failedRounds: 0, atMs: BigInt(now) }
  return { ...state, ...nothingKnown, ...ofConfiguration, ...begun }
}

/** Fields of a source that is followed without an obstacle. */
const ofConfiguration = { left: Left.LEFT_UNSPECIFIED, isWaitingForOthers: false, reason: '' }
const noPlan = { plan: '', planned: [], leaving: [] }
const nothingKnown = { ...noPlan, problem: '', trouble: [], kept: [] }

/** Facts about objects that nobody follows. */
export const noHealth = { health: undefined, unhealthy: [], unlisted: [], failedRounds: 0 }

/** Returns the state while a commit is applied, or its objects are deleted. */
function afterStep(state: SourceState, commit: string, step: Step): SourceState {
  if (step.kind === 'began') {
    const counts = create(CountsSchema, { objects: step.objects, ...driftCounts(state) })
    return { ...state, ...nothingKnown, phase: Phase.APPLYING, wanted: commit, counts }
  }
  if (step.kind === 'pruned') return { ...state, phase: Phase.PRUNING }
  return { ...state, counts: counted(state.counts, step.end) }
}

function counted(counts: Counts | undefined, end: ApplyEnd): Counts {
  const next = create(CountsSchema, counts ?? {})
  if (end.kind === 'applied' || end.kind === 'unchanged') next[end.kind] += 1
  else if (end.kind === 'drifted') next.unchanged += 1
  else if (end.kind === 'failed') next.failed += 1
  return next
}

/**
 * Returns the state after a refusal: the last commit stays in effect, and its plan is void.
 *
 * @param lastGood - for a state without a commit
 */
function refused(
  state: SourceState,
  problems: readonly ManifestProblem[],
  lastGood: LastGood | undefined,
): SourceState {
  const isNew = lastGood !== undefined && state.commit === '' && !state.counts?.objects
  const counts = isNew && create(CountsSchema, { objects: lastGood.objects, unchanged: lastGood.applied })

  const [first] = problems
  const problem = first ? problemText(first).slice(0, maxTextLength) : ''
  const trouble = problems
    .slice(0, maxListed)
    .map(({ file, line, text }) => create(ObjectTroubleSchema, { file, line, text: text.slice(0, maxTextLength) }))
  const known = counts ? { commit: lastGood?.commit ?? '', counts } : {}
  return { ...state, ...known, ...noPlan, phase: Phase.REFUSED, problem, trouble }
}

/** Returns the state after a dry run, with the objects that would change. */
function triedOut(state: SourceState, { ends, leaving }: DryRun, { dryRunStrategy }: SourceOptions): SourceState {
  const count = (...kinds: ApplyEnd['kind'][]) => ends.filter(({ end }) => kinds.includes(end.kind)).length
  const failed = count('failed')
  const waiting = count('applied', 'waits', 'left')
  const isSynced = failed + waiting + leaving.length === 0
  return {
    ...state,
    phase: failed > 0 ? Phase.FAILING : Phase.PAUSED,
    commit: isSynced ? state.wanted : '',
    problem: `dry_run_strategy: ${dryRunStrategy}: nothing is written`,
    counts: create(CountsSchema, {
      objects: ends.length,
      unchanged: count('unchanged'),
      failed,
      waiting,
      ...driftCounts(state),
    }),
    trouble: ends
      .filter(({ end }) => end.kind !== 'unchanged')
      .slice(0, maxListed)
      .map(troubleOf),
    plan: '',
    planned: leaving.slice(0, maxListed).map(keyOf),
    leaving: [],
    kept: [],
  }
}

function done(state: SourceState, commit: string, result: RoundDone): SourceState {
  const { ends, entries, pruned, planDigest, reasons, orphans, notes } = result
  // objects with contents come first, since people read these first
  const awaitingApproval = result.awaitingApproval.toSorted((one, other) => weightOf(other) - weightOf(one))
  const wanted = new Set(ends.map(({ manifest }) => keyText(manifest.key)))
  const survivors = [...entries].filter(([text, { state: is }]) => !wanted.has(text) && is !== 'detached')
  const bad = ends.filter((one) => !isApplied(one))
  const isWhole = bad.length === 0
  const phase = phaseOf(result, bad)
  const count = (kind: ApplyEnd['kind']) => ends.filter(({ end }) => end.kind === kind).length
  return {
    ...state,
    ...phase,
    failedRounds: failedRounds(state, phase.phase, bad),
    commit: isWhole ? commit : state.commit,
    appliedAtMs: isWhole ? state.atMs : state.appliedAtMs,
    problem: [...notes, ...notDeleted(survivors, reasons)].join('; ').slice(0, maxTextLength),
    counts: create(CountsSchema, {
      objects: ends.length,
      applied: count('applied'),
      unchanged: count('unchanged') + count('drifted'),
      failed: count('failed'),
      waiting: count('waits') + count('left'),
      pruned: pruned.length,
      survivors: survivors.length,
      orphans: orphans.length,
      ...driftCounts(state),
    }),
    trouble: bad.slice(0, maxListed).map(troubleOf),
    plan: planDigest,
    planned: awaitingApproval.slice(0, maxListed).map(keyOf),
    leaving: awaitingApproval.slice(0, maxListed).map((entry) => leavingOf(entry, reasons)),
    kept: survivors
      .map(([, entry]) => entry)
      .filter((entry) => !awaitingApproval.includes(entry))
      .slice(0, maxListed)
      .map((entry) => leavingOf(entry, reasons)),
    orphan: orphans.slice(0, maxListed).map((key) => keyOf({ key, version: '' })),
    leftToOthers: leftFields(entries.values()),
  }
}

/** Returns the values from Git that rules leave to others. */
function leftFields(entries: Iterable<InventoryEntry>): LeftField[] {
  const all = [...entries].flatMap((entry) => (entry.leftOut ?? []).map((left) => ({ entry, left })))
  return all.slice(0, maxListed).map(({ entry, left: { path, manager, rule } }) =>
    create(LeftFieldSchema, {
      key: keyOf(entry),
      path: path.slice(0, maxFieldLength),
      manager: manager.slice(0, maxFieldLength),
      rule: rule.slice(0, maxFieldLength),
    }),
  )
}

/** Returns the first object that could not be deleted, with the reason, and the number of the others. */
function notDeleted(survivors: readonly [string, InventoryEntry][], reasons: RoundDone['reasons']): string[] {
  const failed = survivors.flatMap(([, entry]) => (entry.state === 'failed' ? [leavingOf(entry, reasons)] : []))
  const [first] = failed
  if (!first?.key) return []
  const others = failed.length > 1 ? `, and ${failed.length - 1} others` : ''
  return [`${keyName(first.key)}${others} could not be deleted: ${first.text}`]
}

/** @param bad - results of objects that are not applied */
function phaseOf(
  { planDigest, entries, isWaitingForOthers }: RoundDone,
  bad: readonly RoundEnd[],
): Pick<SourceState, 'phase' | 'isWaitingForOthers'> {
  const is = (phase: Phase) => ({ phase, isWaitingForOthers: false })
  if (planDigest !== '' && bad.every(({ end }) => end.kind === 'waits' || isAsking(end))) return is(Phase.APPROVAL)
  if (bad.length > 0 || [...entries.values()].some(({ state }) => state === 'failed')) return is(Phase.FAILING)
  return isWaitingForOthers ? { phase: Phase.PRUNING, isWaitingForOthers } : is(Phase.SYNCED)
}

/** Returns the number of failed rounds in a row. A round that a newer commit or request has ended does not count. */
function failedRounds(
  { failedRounds: before }: SourceState,
  phase: Phase | undefined,
  bad: readonly RoundEnd[],
): number {
  if (bad.some(({ end }) => end.kind === 'left')) return before
  return phase === Phase.FAILING ? before + 1 : 0
}

const leftConfiguration = 'the configuration has it no longer'

/** Returns the state when a removal begins. Facts of earlier rounds are void; others stay until they are read again. */
function afterRemovalBegun(state: SourceState, now: number): SourceState {
  if (state.left !== Left.LEFT_UNSPECIFIED) return { ...state, ...noPlan }
  const removing = { phase: Phase.PRUNING, left: Left.REMOVING, wanted: '', digest: '', problem: leftConfiguration }
  return { ...state, ...nothingKnown, ...noHealth, ...ofConfiguration, ...removing, atMs: BigInt(now) }
}

/** Returns the state after a removal: the objects that stay, and the reason. */
function afterRemoval(state: SourceState, result: RoundDone): SourceState {
  const all = [...result.entries.values()]
  const isKept = all.every((entry) => entry.state === 'detached')
  const left = `${leftConfiguration}: ${all.length} objects are left`
  return {
    ...done({ ...state, wanted: '' }, '', result),
    left: isKept ? Left.KEPT : Left.REMOVING,
    problem: isKept ? `${left}, and stay for good` : left,
  }
}

/** True if the object waits for approval. */
function isAsking(end: ApplyEnd): boolean {
  return end.kind === 'failed' && end.problem.replaces !== undefined
}

function troubleOf({ manifest, end }: RoundEnd): ObjectTrouble {
  const { key, version, file, line } = manifest
  const text = textOf(end).slice(0, maxTextLength)
  return create(ObjectTroubleSchema, { key: keyOf({ key, version }), text, file, line })
}

function textOf(end: ApplyEnd): string {
  if (end.kind === 'failed') return end.problem.text
  if (end.kind === 'waits') return end.text
  if (end.kind !== 'applied') return 'a newer commit has come'
  if (end.uncompared === undefined) return 'it would be applied'
  return `it would be applied as Git has it, and was not compared: ${end.uncompared}`
}

function leavingOf(entry: InventoryEntry, reasons: RoundDone['reasons']): LeavingObject {
  const { code, text } = reasons.get(keyText(entry.key)) ?? { code: '', text: entry.reason }
  const whole = text || entry.reason
  // a text with names of others is already limited, in bytes
  const isShort = isParent(entry.key) && Buffer.byteLength(whole) <= maxDependentsLength
  return create(LeavingObjectSchema, { key: keyOf(entry), code, text: isShort ? whole : whole.slice(0, maxTextLength) })
}

function weightOf({ key }: InventoryEntry): number {
  return isParent(key) ? 1 : 0
}
