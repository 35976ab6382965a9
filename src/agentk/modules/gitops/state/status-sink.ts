import type { Clock } from '../../../../lib/clock.ts'
import { Code, errorText, type KasError } from '../../../../lib/errors.ts'
import { Phase, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import type { SourceReason } from '../../../../proto/gitops/source-phase.ts'
import type { SourceOptions } from '../source-options.ts'
import { firstState, noHealth, type Report, type SourceNames, stateAfter, withNames } from './source-state.ts'

/** Shows states: in the cluster (GitSyncs), to kas (StatePush), as metrics (GitopsMetrics). */
export interface StatusReader {
  changed(state: SourceState): void
  /** Stops showing the source. */
  removed(source: string): void
}

/** Place of the objects that people annotate: GitSyncs. */
export interface Guide {
  pathOf(id: string): string
}

/** Problems of a source that is not followed, though it has not left. */
const restingProblems = {
  configuration_gone: 'the agent’s configuration is gone: its sources rest, and what they have made stays',
  configuration_unread: 'part of the agent’s configuration cannot be read: whether this source has left is not known',
} as const satisfies Partial<Record<SourceReason, string>>

interface Row {
  readonly state: SourceState
  /** error for which its files cannot be read now; undefined: they can */
  readonly unread: KasError | undefined
}

/** States of all sources, in one place: sources report, readers show. */
export class StatusSink {
  readonly #clock: Clock
  readonly #guide: Guide | (Guide & StatusReader)
  readonly #readers: readonly StatusReader[]
  /** by the source's id */
  readonly #rows = new Map<string, Row>()

  constructor(clock: Clock, guide: Guide, readers: readonly StatusReader[]) {
    this.#clock = clock
    this.#guide = guide
    this.#readers = readers
  }

  /**
   * Begins a source that is followed with these options. Facts from other options no longer hold.
   *
   * @param digest - digest of its block
   */
  begin(options: SourceOptions, digest: string): void {
    this.#show({ state: { ...firstState(options, this.#clock.now()), digest }, unread: undefined }, options.id)
  }

  /** Shows that the source is no longer followed, and has not left. */
  notFollowed(source: string, reason: keyof typeof restingProblems): void {
    const row = this.#rows.get(source)
    if (!row) return
    const state = { ...row.state, ...noHealth, phase: Phase.FAILING, problem: restingProblems[reason], reason }
    this.#show({ state, unread: undefined }, source)
  }

  /** @returns its new state */
  report(options: SourceOptions, report: Report): SourceState {
    const { state, unread } = this.#rowOf(options)
    const next = stateAfter(state, report, options, this.#clock.now())
    this.#show({ state: next, unread }, options.id)
    return next
  }

  /** Shows a configured source that cannot be followed. @param problem - key, value found and values allowed */
  unusable(names: SourceNames, problem: string): void {
    const refused = { phase: Phase.REFUSED, problem, reason: 'source_refused' satisfies SourceReason }
    const first = firstState(names, this.#clock.now())
    const { commit, counts, appliedAtMs } = this.#rows.get(names.id)?.state ?? first // its objects stay
    this.#show({ state: { ...first, commit, counts, appliedAtMs, ...refused }, unread: undefined }, names.id)
  }

  /** Shows that the files cannot be read. The last commit stays in effect. */
  filesFailed(options: SourceOptions, error: KasError): void {
    this.#show({ ...this.#rowOf(options), unread: error }, options.id)
  }

  /** Shows that the files can be read again. */
  filesRecovered(options: SourceOptions): void {
    const row = this.#rows.get(options.id)
    if (row?.unread) this.#show({ ...row, unread: undefined }, options.id)
  }

  /** Shows the source again, now that the object to annotate exists. */
  guided(source: string): void {
    const row = this.#rows.get(source)
    if (!row) return
    const shown = this.#shown(row, source)
    for (const reader of this.#readers) if (reader !== this.#guide) reader.changed(shown)
  }

  /** Removes a source that has ended without objects, or has another id now. */
  remove(source: string): void {
    this.#rows.delete(source)
    for (const reader of this.#readers) reader.removed(source)
  }

  #rowOf(options: SourceOptions): Row {
    const known = this.#rows.get(options.id)
    if (known) return { ...known, state: withNames(known.state, options) }
    return { state: firstState(options, this.#clock.now()), unread: undefined }
  }

  #show(row: Row, source: string): void {
    this.#rows.set(source, row)
    const shown = this.#shown(row, source)
    for (const reader of this.#readers) reader.changed(shown)
  }

  #shown({ state, unread }: Row, source: string): SourceState {
    const shown = { ...state, object: this.#guide.pathOf(source) }
    return unread ? { ...shown, ...unreadFacts(unread) } : shown
  }
}

/** True if the files of the commit are refused as a whole. */
export function areRefused({ grpcCode }: KasError): boolean {
  return grpcCode === Code.FAILED_PRECONDITION
}

/** Returns why kas does not send a source's files: because of project, ref or files. */
function unreadFacts(error: KasError): Pick<SourceState, 'phase' | 'problem' | 'reason'> {
  const problem = errorText(error)
  const reason = unreadReason(error, problem)
  return { phase: reason === 'files_refused' ? Phase.REFUSED : Phase.FAILING, problem, reason }
}

function unreadReason(error: KasError, problem: string): SourceReason {
  if (areRefused(error)) return 'files_refused'
  if (error.grpcCode === Code.NOT_FOUND) return problem.startsWith('ref ') ? 'ref_not_found' : 'project_not_readable'
  if (error.grpcCode === Code.UNIMPLEMENTED) return 'not_served'
  const isOverBound = error.grpcCode === Code.INVALID_ARGUMENT || error.grpcCode === Code.RESOURCE_EXHAUSTED
  return isOverBound ? 'over_bound' : 'kas_refused'
}
