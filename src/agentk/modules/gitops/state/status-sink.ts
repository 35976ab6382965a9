import type { Clock } from '../../../../lib/clock.ts'
import { Code, errorText, type KasError } from '../../../../lib/errors.ts'
import { Phase, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import type { SourceReason } from '../../../../proto/gitops/source-phase.ts'
import type { SourceOptions } from '../source-options.ts'
import { firstState, type Report, type SourceNames, stateAfter, withNames } from './source-state.ts'

/** Shows states: in the cluster (GitSyncs), to kas (StatePush), as metrics (GitopsMetrics). */
export interface StatusReader {
  changed(state: SourceState): void
  /** Nothing is to be shown of it any more. */
  removed(source: string): void
}

/** Where people answer: GitSyncs. */
export interface Guide {
  pathOf(id: string): string
}

/** Why a source is not followed, though it has not left. */
const restingProblems = {
  configuration_gone: 'the agent’s configuration is gone: its sources rest, and what they have made stays',
  configuration_unread: 'part of the agent’s configuration cannot be read: whether this source has left is not known',
} as const satisfies Partial<Record<SourceReason, string>>

interface Row {
  readonly state: SourceState
  /** why its files cannot be read now; undefined: they can */
  readonly unread: KasError | undefined
}

/** How each source fares, in one place: sources report, readers show. */
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
   * It is followed from now on, by these options: what was known by others is not so any more.
   *
   * @param digest - of what the configuration says of it
   */
  begin(options: SourceOptions, digest: string): void {
    this.#show({ state: { ...firstState(options, this.#clock.now()), digest }, unread: undefined }, options.id)
  }

  /** Nobody follows it any more, and it has not left. */
  notFollowed(source: string, reason: keyof typeof restingProblems): void {
    const row = this.#rows.get(source)
    if (!row) return
    const state = { ...row.state, phase: Phase.FAILING, problem: restingProblems[reason], reason }
    this.#show({ state, unread: undefined }, source)
  }

  /** @returns how it fares now */
  report(options: SourceOptions, report: Report): SourceState {
    const { state, unread } = this.#rowOf(options)
    const next = stateAfter(state, report, options, this.#clock.now())
    this.#show({ state: next, unread }, options.id)
    return next
  }

  /** The configuration has it, and it cannot be followed. @param problem - key, value and what is allowed */
  unusable(names: SourceNames, problem: string): void {
    const refused = { phase: Phase.REFUSED, problem, reason: 'source_refused' satisfies SourceReason }
    const first = firstState(names, this.#clock.now())
    const { commit, counts, appliedAtMs } = this.#rows.get(names.id)?.state ?? first // what it has made stays
    this.#show({ state: { ...first, commit, counts, appliedAtMs, ...refused }, unread: undefined }, names.id)
  }

  /** Its files cannot be read: the last commit holds meanwhile. */
  filesFailed(options: SourceOptions, error: KasError): void {
    this.#show({ ...this.#rowOf(options), unread: error }, options.id)
  }

  /** They can be read again. */
  filesRecovered(options: SourceOptions): void {
    const row = this.#rows.get(options.id)
    if (row?.unread) this.#show({ ...row, unread: undefined }, options.id)
  }

  /** Where people answer is there by now. */
  guided(source: string): void {
    const row = this.#rows.get(source)
    if (!row) return
    const shown = this.#shown(row, source)
    for (const reader of this.#readers) if (reader !== this.#guide) reader.changed(shown)
  }

  /** It is gone, and nothing of it is left; or it goes by another id. */
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

/** The files of the commit are refused, as a whole. */
export function areRefused({ grpcCode }: KasError): boolean {
  return grpcCode === Code.FAILED_PRECONDITION
}

/** Why kas does not send a source's files: which of project, ref and files it is. */
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
