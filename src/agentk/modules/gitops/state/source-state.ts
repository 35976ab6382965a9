import { create } from '@bufbuild/protobuf'
import {
  type Counts,
  CountsSchema,
  type Key,
  KeySchema,
  type LeavingObject,
  LeavingObjectSchema,
  type ObjectTrouble,
  ObjectTroubleSchema,
  Phase,
  type SourceState,
  SourceStateSchema,
} from '../../../../proto/gen/gitops_states_pb.ts'
import type { ApplyEnd, RoundEnd } from '../apply/apply-run.ts'
import type { DryRun } from '../dry-run.ts'
import type { InventoryEntry } from '../inventory/entry.ts'
import { type ManifestProblem, problemText } from '../manifests/manifest.ts'
import { keyText } from '../manifests/object-key.ts'
import type { Outcome, RoundDone, Step } from '../reconcile.ts'
import type { SourceOptions } from '../source-options.ts'

/** Objects that a list names, also of a plan. */
const maxListed = 100
/** Of a text. */
const maxTextLength = 1000

/** What there is to say of a source. */
export type Report =
  /** a commit has come, and waits for its round */
  | { readonly kind: 'received'; readonly commit: string }
  /** nothing is to be written */
  | { readonly kind: 'suspended'; readonly commit: string }
  | { readonly kind: 'step'; readonly commit: string; readonly step: Step }
  | { readonly kind: 'outcome'; readonly commit: string; readonly outcome: Outcome }
  /** the round could not be made: it is tried again */
  | { readonly kind: 'failed'; readonly commit: string; readonly text: string }
  /** it has left the configuration */
  | { readonly kind: 'removal'; readonly done: RoundDone }

/** How people know a source. */
export type SourceNames = Pick<SourceOptions, 'id' | 'project' | 'name' | 'environments' | 'ref'>

/** Of a source of which nothing is known yet. */
export function firstState(options: SourceNames, now: number): SourceState {
  const state = create(SourceStateSchema, { phase: Phase.WAITING, counts: {}, atMs: BigInt(now) })
  return withNames(state, options)
}

/** As the configuration calls it now. */
export function withNames(state: SourceState, options: SourceNames): SourceState {
  const { id: source, project, name = '', environments, ref } = options
  return { ...state, source, project, name, ref: refText(ref), environment: [...environments] }
}

/** How a source fares after a report. */
export function stateAfter(state: SourceState, report: Report, options: SourceOptions, now: number): SourceState {
  const at = { ...state, laterPhase: '', atMs: BigInt(now) }
  if (report.kind === 'received') return afterReceived(state, report.commit, now)
  if (report.kind === 'suspended') return { ...at, phase: Phase.PAUSED, wanted: report.commit }
  if (report.kind === 'failed') return { ...at, phase: Phase.FAILING, wanted: report.commit, problem: report.text }
  if (report.kind === 'removal') return afterRemoval(at, report.done)
  if (report.kind === 'step') return afterStep(at, report.commit, report.step)
  const { commit, outcome } = report
  const wanted = { ...at, wanted: commit }
  if (outcome.kind === 'suspended') return wanted
  if (outcome.kind === 'refused') return refused(wanted, outcome.problems)
  const compared = { ...wanted, comparedAtMs: BigInt(now) }
  if (outcome.kind === 'dryRun') return triedOut(compared, outcome, options)
  return done(compared, commit, outcome)
}

/** What is known of another commit is not so of this one: it has not been looked at. */
function afterReceived(state: SourceState, commit: string, now: number): SourceState {
  if (commit === state.wanted) return state
  return { ...state, ...nothingKnown, laterPhase: '', phase: Phase.READING, wanted: commit, atMs: BigInt(now) }
}

const noPlan = { plan: '', planned: [], leaving: [] }
const nothingKnown = { ...noPlan, problem: '', trouble: [], kept: [] }

/** A commit is being brought, or its objects go one by one. */
function afterStep(state: SourceState, commit: string, step: Step): SourceState {
  if (step.kind === 'began') {
    const counts = create(CountsSchema, { objects: step.objects })
    return { ...state, ...nothingKnown, phase: Phase.APPLYING, wanted: commit, counts }
  }
  if (step.kind === 'pruned') return { ...state, phase: Phase.PRUNING }
  return { ...state, counts: counted(state.counts, step.end) }
}

function counted(counts: Counts | undefined, end: ApplyEnd): Counts {
  const next = create(CountsSchema, counts ?? {})
  if (end.is === 'applied' || end.is === 'unchanged') next[end.is] += 1
  else if (end.is === 'failed') next.failed += 1
  return next
}

/** Nothing was done: the last commit holds, and what it had planned is void. */
function refused(state: SourceState, problems: readonly ManifestProblem[]): SourceState {
  const [first] = problems
  const problem = first ? problemText(first).slice(0, maxTextLength) : ''
  const trouble = problems
    .slice(0, maxListed)
    .map(({ file, line, text }) => create(ObjectTroubleSchema, { file, line, text: text.slice(0, maxTextLength) }))
  return { ...state, ...noPlan, phase: Phase.REFUSED, problem, trouble }
}

/** Nothing was written: what would be is listed. */
function triedOut(state: SourceState, { ends, leaving }: DryRun, { dryRunStrategy }: SourceOptions): SourceState {
  const count = (...is: ApplyEnd['is'][]) => ends.filter(({ end }) => is.includes(end.is)).length
  const failed = count('failed')
  const waiting = count('applied', 'waits', 'left')
  const isSynced = failed + waiting + leaving.length === 0
  return {
    ...state,
    phase: failed > 0 ? Phase.FAILING : Phase.PAUSED,
    commit: isSynced ? state.wanted : state.commit,
    problem: `dry_run_strategy: ${dryRunStrategy}: nothing is written`,
    counts: create(CountsSchema, { objects: ends.length, unchanged: count('unchanged'), failed, waiting }),
    trouble: ends
      .filter(({ end }) => end.is !== 'unchanged')
      .slice(0, maxListed)
      .map(troubleOf),
    plan: '',
    planned: leaving.slice(0, maxListed).map(keyOf),
    leaving: [],
    kept: [],
  }
}

function done(state: SourceState, commit: string, result: RoundDone): SourceState {
  const { ends, entries, pruned, plan, planned, reasons, orphans, notes } = result
  const wanted = new Set(ends.map(({ manifest }) => keyText(manifest.key)))
  const survivors = [...entries].filter(([text, { state: is }]) => !wanted.has(text) && is !== 'detached')
  const bad = ends.filter(({ end }) => end.is !== 'applied' && end.is !== 'unchanged')
  const isApplied = bad.length === 0
  const count = (is: ApplyEnd['is']) => ends.filter(({ end }) => end.is === is).length
  return {
    ...state,
    ...phaseOf(result, bad),
    commit: isApplied ? commit : state.commit,
    appliedAtMs: isApplied ? state.atMs : state.appliedAtMs,
    problem: notes.join('; ').slice(0, maxTextLength),
    counts: create(CountsSchema, {
      objects: ends.length,
      applied: count('applied'),
      unchanged: count('unchanged'),
      failed: count('failed'),
      waiting: count('waits') + count('left'),
      pruned: pruned.length,
      survivors: survivors.length,
      orphans: orphans.length,
    }),
    trouble: bad.slice(0, maxListed).map(troubleOf),
    plan,
    planned: planned.slice(0, maxListed).map(keyOf),
    leaving: planned.slice(0, maxListed).map((entry) => leavingOf(entry, reasons)),
    kept: survivors
      .map(([, entry]) => entry)
      .filter((entry) => !planned.includes(entry))
      .slice(0, maxListed)
      .map((entry) => leavingOf(entry, reasons)),
    orphan: orphans.slice(0, maxListed).map((key) => keyOf({ key, version: '' })),
  }
}

/** `bad`: what of the commit is not applied. */
function phaseOf(
  { plan, entries, isWaitingForOthers }: RoundDone,
  bad: readonly RoundEnd[],
): Pick<SourceState, 'phase' | 'laterPhase'> {
  if (plan !== '' && bad.every(({ end }) => end.is === 'waits' || isAsking(end)))
    return { phase: Phase.APPROVAL, laterPhase: '' }
  if (bad.length > 0 || [...entries.values()].some(({ state }) => state === 'failed'))
    return { phase: Phase.FAILING, laterPhase: '' }
  if (isWaitingForOthers) return { phase: Phase.PRUNING, laterPhase: 'WAITING_FOR_OTHERS' }
  return { phase: Phase.SYNCED, laterPhase: '' }
}

/** The configuration has it no longer: what stays of it, and why. */
function afterRemoval(state: SourceState, result: RoundDone): SourceState {
  const all = [...result.entries.values()]
  const isKept = all.every((entry) => entry.state === 'detached')
  const left = `the configuration has it no longer: ${all.length} objects are left`
  return {
    ...done({ ...state, wanted: '' }, '', result),
    laterPhase: isKept ? 'KEPT' : 'REMOVING',
    problem: isKept ? `${left}, and stay for good` : left,
  }
}

/** It waits for approval. */
function isAsking(end: ApplyEnd): boolean {
  return end.is === 'failed' && end.problem.replaces !== undefined
}

function troubleOf({ manifest, end }: RoundEnd): ObjectTrouble {
  const { key, version, file, line } = manifest
  const text = textOf(end).slice(0, maxTextLength)
  return create(ObjectTroubleSchema, { key: keyOf({ key, version }), text, file, line })
}

function textOf(end: ApplyEnd): string {
  if (end.is === 'failed') return end.problem.text
  if (end.is === 'waits') return end.text
  return end.is === 'applied' ? 'it would be applied' : 'a newer commit has come'
}

function leavingOf(entry: InventoryEntry, reasons: RoundDone['reasons']): LeavingObject {
  const { code, text } = reasons.get(keyText(entry.key)) ?? { code: '', text: entry.reason }
  return create(LeavingObjectSchema, { key: keyOf(entry), code, text: (text || entry.reason).slice(0, maxTextLength) })
}

function keyOf({ key, version }: Pick<InventoryEntry, 'key' | 'version'>): Key {
  return create(KeySchema, { ...key, version })
}

/** `branch main`; empty: the default branch. */
function refText(ref: SourceOptions['ref']): string {
  const [[kind, name] = []] = Object.entries(ref ?? {})
  return kind && name ? `${kind} ${name}` : ''
}
