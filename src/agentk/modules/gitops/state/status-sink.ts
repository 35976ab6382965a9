import type { Clock } from '../../../../lib/clock.ts'
import { Code, errorText, type KasError } from '../../../../lib/errors.ts'
import { Phase, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import type { SourceOptions } from '../source-options.ts'
import { firstState, type Report, type SourceNames, stateAfter, withNames } from './source-state.ts'

/** Shows states: in the cluster (GitSyncs), to kas (StatePush), as metrics (GitopsMetrics). */
export interface StatusReader {
  changed(state: SourceState): void
  /** Nothing is to be shown of it any more. */
  removed(source: string): void
}

/** Where people answer, and how: GitSyncs. */
export interface Guide {
  pathOf(id: string): string
  approveCommand(id: string, plan: string): string
}

const restingBecause = {
  configuration_gone: {
    problem: 'the agent’s configuration is gone: its sources rest, and what they have made stays',
    next: 'bring the agent’s file back, with gitops',
  },
  configuration_unread: {
    problem: 'part of the agent’s configuration cannot be read: whether this source has left is not known',
    next: 'mend the agent’s file',
  },
} as const

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
  notFollowed(source: string, reason: keyof typeof restingBecause): void {
    const row = this.#rows.get(source)
    if (!row) return
    const rest = { ...restingBecause[reason], reason }
    const state = { ...row.state, phase: Phase.FAILING, laterPhase: 'NOT_READY', ...rest }
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
    const refused = { phase: Phase.REFUSED, problem, reason: 'source_refused', next: 'mend the agent’s file' }
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

  /** What people can do about it. */
  #nextOf({ source, phase, laterPhase, plan, next }: SourceState): string {
    if (plan !== '') return this.#guide.approveCommand(source, plan)
    if (laterPhase === 'KEPT') return `kas gitops forget ${source}`
    return phase === Phase.REFUSED && next === '' ? 'mend it and push: the commit before holds' : next
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
    const shown = { ...state, object: this.#guide.pathOf(source), next: this.#nextOf(state) }
    return unread ? { ...shown, ...unreadState(unread) } : shown
  }
}

/** The files of the commit are refused, as a whole. */
export function areRefused({ grpcCode }: KasError): boolean {
  return grpcCode === Code.FAILED_PRECONDITION
}

/** Why kas does not send a source's files: which of project, ref and files it is, and what to do. */
function unreadState(error: KasError): Pick<SourceState, 'phase' | 'laterPhase' | 'problem' | 'reason' | 'next'> {
  const problem = errorText(error)
  const notReady = { phase: Phase.FAILING, laterPhase: 'NOT_READY', problem }
  if (areRefused(error)) {
    const next = 'mend the repository, or what paths choose of it: the commit before holds'
    return { phase: Phase.REFUSED, laterPhase: '', problem, reason: 'files_refused', next }
  }
  if (error.grpcCode === Code.NOT_FOUND && problem.startsWith('ref ')) {
    return { ...notReady, reason: 'ref_not_found', next: 'push that ref, or name another one in the source’s ref' }
  }
  if (error.grpcCode === Code.NOT_FOUND) {
    const next = 'let the agent read the project, or name another one in the source’s id'
    return { ...notReady, reason: 'project_not_readable', next }
  }
  if (error.grpcCode === Code.UNIMPLEMENTED) {
    return { ...notReady, reason: 'not_served', next: 'this kas serves no GitOps: update it' }
  }
  if (error.grpcCode === Code.INVALID_ARGUMENT || error.grpcCode === Code.RESOURCE_EXHAUSTED) {
    return { ...notReady, reason: 'kas_refused', next: 'ask for less in the agent’s file, or raise the bound of kas' }
  }
  return { ...notReady, reason: 'kas_refused', next: 'it is asked again by itself' }
}
