import { keyName, keyText } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { agentAttributes } from '../../../../lib/tracing/attributes.ts'
import type { Tracer } from '../../../../lib/tracing/tracer.ts'
import { Phase } from '../../../../proto/gen/gitops_states_pb.ts'
import { isScalerKind } from '../apply/scalers.ts'
import { SecondWriters } from '../apply/second-writers.ts'
import type { FollowedDrift } from '../drift/follow-drift.ts'
import { followObjects, type ObjectSet, type ObjectsStreamComponents } from '../files/objects-stream.ts'
import { problemText } from '../manifests/manifest.ts'
import { isAllApplied, needsNoRetry, waitsForRollout } from '../outcome.ts'
import type { RoundInput } from '../reconcile.ts'
import type { AfterRound, Outcome, RoundDone, Step } from '../round.ts'
import { type ReadSource, type SourceOptions, sourceOptions, unresolvedId } from '../source-options.ts'
import { type GitopsMetrics, resultOf } from '../state/gitops-metrics.ts'
import type { Report } from '../state/source-state.ts'
import { areRefused, type StatusSink } from '../state/status-sink.ts'
import { HealthReports } from './health-reports.ts'
import type { Next } from './reconcile-queue.ts'
import type { SourceRounds } from './source-rounds.ts'
import { type FollowedSource, type SourceMode, type SourceRunner, settleMs } from './source-runner.ts'

/** Sources of the term, for one of them. */
export interface TermSources {
  /** Gives the source the id of these options. @throws Error: another source has it */
  named(runner: SourceRunner, options: SourceOptions): void
  /** Claims the objects of the source's last good commit until the signal aborts: its newest commit is refused. */
  refused(runner: SourceRunner, signal: AbortSignal): void
}

export interface FollowModeComponents {
  readonly kas: ObjectsStreamComponents['kas']
  readonly files: ObjectsStreamComponents['files']
  readonly rounds: Pick<SourceRounds, 'run' | 'absentCame' | 'followDrift' | 'followHealth'>
  readonly sources: TermSources
  readonly status: Pick<StatusSink, 'begin' | 'report' | 'filesFailed' | 'filesRecovered' | 'remove'>
  readonly metrics: Pick<GitopsMetrics, 'round' | 'applied'>
  readonly tracer: Tracer
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface FollowModeOptions extends ReadSource {
  readonly agentId: bigint
  /** full path */
  readonly ownProject: string
  /** last known number of the project that the block names */
  readonly projectId: bigint | undefined
}

/** Mode of a source in the configuration: follows its files, and applies each commit. */
export class FollowMode implements SourceMode {
  readonly kind = 'follow'
  readonly #components: FollowModeComponents
  readonly #source: FollowModeOptions
  #options: SourceOptions
  /** its project is known, so that it has its id */
  #isNamed = false
  /** the newest set */
  #set: ObjectSet | undefined
  #measured: ObjectSet | undefined
  #mayHaveCallsInFlight = true
  /** paths of objects that this commit lacked, and that existed at the first check */
  readonly #foundAtOnce = new Set<string>()
  readonly #writers: SecondWriters
  /** undefined: the source has no id yet */
  #drift: FollowedDrift | undefined
  #health: HealthReports | undefined
  /** commit that rounds have applied as a whole; empty: a round for another one has begun since */
  #brought = ''
  /** aborts when the source has another id, and so other marks */
  #driftEnds = new AbortController()
  /** as of the last round; a change of it begins one */
  #isPaused = false
  /** set while kas refuses the files of the newest commit */
  #refusal: AbortController | undefined

  constructor(components: FollowModeComponents, options: FollowModeOptions) {
    const { projectId } = options
    this.#components = components
    this.#source = options
    this.#writers = new SecondWriters(components.clock)
    this.#options = {
      ...this.#optionsOf(projectId ?? 0n),
      ...(projectId === undefined && { id: unresolvedId(options) }),
    }
  }

  get id(): string {
    return this.#options.id
  }

  get drift(): FollowedDrift | undefined {
    return this.#drift
  }

  get followed(): FollowedSource | undefined {
    return this.#drift && { options: this.#options, drift: this.#drift, isPaused: this.#isPaused }
  }

  /** Rejects only if the block cannot be used. */
  async beside(runner: SourceRunner, signal: AbortSignal): Promise<void> {
    const { kas, files, status, clock, random } = this.#components
    const following = {
      onSet: (set: ObjectSet) => this.#take(set, runner),
      onProblem: (error: KasError) => this.#unread(error, runner, signal),
      onFollowing: () => status.filesRecovered(this.#options),
    }
    status.begin(this.#options, this.#source.digest)
    const cancel = clock.after(settleMs, () => {
      this.#mayHaveCallsInFlight = false
      this.#drift?.settled()
      if (this.#set) runner.add()
    })
    try {
      await followObjects({ kas, files, ...following, clock, random }, this.#options, signal)
    } finally {
      cancel()
    }
  }

  #take(set: ObjectSet, runner: SourceRunner): void {
    this.#refusal?.abort(new KasError({ code: 'CANCELLED', detail: 'a commit has come' }))
    this.#refusal = undefined
    this.#set = set
    this.#foundAtOnce.clear()
    const { status } = this.#components
    status.filesRecovered(this.#options)
    status.report(this.#options, { kind: 'received', commit: set.commit })
    runner.again('a newer commit has come') // the queue calls `round`
  }

  /** Reports that the files cannot be read. The last commit stays in effect. */
  #unread(error: KasError, runner: SourceRunner, signal: AbortSignal): void {
    const { log, status } = this.#components
    log.warn({ project: this.#options.project, error }, 'The files of a project cannot be read')
    status.filesFailed(this.#options, error)
    if (!areRefused(error)) return
    this.#refusal ??= new AbortController()
    this.#claimLastGood(runner, signal)
  }

  #claimLastGood(runner: SourceRunner, signal: AbortSignal): void {
    if (this.#refusal) this.#components.sources.refused(runner, AbortSignal.any([signal, this.#refusal.signal]))
  }

  /** Runs a round as one span, a child of the span that sent the files. Rejects if another source has this id. */
  async round(runner: SourceRunner, signal: AbortSignal): Promise<Next> {
    const { metrics, tracer } = this.#components
    const set = this.#set as ObjectSet // a round needs a set
    this.#resolve(set, runner, signal)
    const options = this.#options
    const parent = set.traceparent === '' ? undefined : { traceparent: [set.traceparent] }
    const source = { 'kas.source': options.id, 'vcs.ref.head.revision': set.commit }
    const attributes = { ...agentAttributes(this.#source.agentId), ...source }
    const span = tracer.begin('gitops round', { kind: 'server', parent, attributes })
    let phase: Phase | undefined
    try {
      const { next, ...ended } = await this.#reconcile(set, options, runner, signal)
      phase = ended.phase
      metrics.round(phase)
      return next
    } finally {
      const isFailed = phase === Phase.FAILING || phase === Phase.REFUSED
      span.end(isFailed ? resultOf(phase as Phase) : undefined)
    }
  }

  #optionsOf(projectId: bigint): SourceOptions {
    const { block, agentId, ownProject } = this.#source
    return sourceOptions(block, { agentId, projectId, ownProject })
  }

  /** Sets the id, once the project is known. */
  #resolve(set: ObjectSet, runner: SourceRunner, signal: AbortSignal): void {
    const { sources, status } = this.#components
    const options = this.#optionsOf(set.projectId)
    const before = this.#options.id
    if (this.#isNamed && options.id === before) return
    sources.named(runner, options)
    this.#isNamed = true
    this.#options = options
    if (options.id !== before) status.remove(before)
    status.begin(options, this.#source.digest)
    status.report(options, { kind: 'received', commit: set.commit })
    runner.listen(options.id)
    this.#followObjects(options, runner, signal)
  }

  /** Follows drift and health of the source's objects. */
  #followObjects(options: SourceOptions, runner: SourceRunner, signal: AbortSignal): void {
    const { rounds, status } = this.#components
    this.#driftEnds.abort(new KasError({ code: 'CANCELLED', detail: 'the source has another id' }))
    this.#driftEnds = new AbortController()
    const ends = AbortSignal.any([signal, this.#driftEnds.signal])
    const onChange = () => {
      if (!ends.aborted)
        status.report(options, { kind: 'drift', known: drift.known.values(), unwatched: drift.unwatched })
    }
    const follow = (onHealth: () => void) => rounds.followHealth(options, onHealth, ends)
    const health = new HealthReports({ status, follow }, options)
    const { seen: onSeen, taken: onRead, left: onLeft } = health.followed
    const listeners = { requestRound: () => runner.add(), onChange, onSeen, onRead, onLeft }
    const drift: FollowedDrift = rounds.followDrift(options, listeners, ends)
    if (!this.#mayHaveCallsInFlight) drift.settled()
    this.#drift = drift
    this.#health = health
  }

  async #reconcile(
    set: ObjectSet,
    options: SourceOptions,
    runner: SourceRunner,
    signal: AbortSignal,
  ): Promise<{ next: Next; phase: Phase }> {
    const { log, rounds } = this.#components
    const { commit, files, leftOut, branch } = set
    const fields = { source: options.id, commit_id: commit }
    const report = (what: Report) => this.#components.status.report(options, what).phase
    const drift = this.#drift as FollowedDrift // since the source has an id
    let reference: AfterRound | undefined
    drift.roundBegins()
    try {
      const { resync, resynced, onResynced, ...asked } = await runner.asked(options.id, signal)
      const { approved, isSuspended, useApproval, superseded } = asked
      this.#isPaused = isSuspended
      const isAsked = resync !== '' && resync !== resynced
      if (isSuspended) report({ kind: 'suspended', commit })
      else if (commit !== this.#brought) {
        this.#brought = ''
        this.#health?.roundBegins()
      }
      const onStep = (step: Step) => {
        if (step.kind === 'ended') this.#health?.stepEnded(step)
        report({ kind: 'step', commit, step })
        this.#logStep(options, step)
      }
      const mayHaveCallsInFlight = this.#mayHaveCallsInFlight
      const found = { commit, files, leftOut, branch }
      const input: RoundInput = {
        ...found,
        approved,
        useApproval,
        isSuspended,
        mayHaveCallsInFlight,
        superseded,
        watch: drift.watch,
        judge: isAsked ? drift.judgeAsked : drift.judge,
        isDrifted: (text) => drift.known.get(text)?.finding.kind === 'drifted',
        onStep,
      }
      const result = await rounds.run(runner, input, options, signal)
      this.#claimLastGood(runner, signal) // the round was for an earlier commit
      const outcome = result.kind === 'done' ? this.#withNotes(result) : result
      reference = referenceOf(outcome)
      if (reference) this.#health?.roundEnded(reference) // before the state says that the commit is applied
      if (outcome.kind === 'done' && isAsked && !superseded.aborted) onResynced() // else the next round does the rest
      const phase = report({ kind: 'outcome', commit, outcome })
      this.#logOutcome(fields, outcome)
      if (outcome.kind === 'done' && isAllApplied(outcome.ends)) this.#brought = commit
      if (outcome.kind === 'done') {
        if (outcome.pruned.some(isScalerKind)) runner.add() // Git sets again what it has scaled
        if (isComplete(outcome)) this.#measure(set)
        else this.#awaitAbsent(outcome, runner, signal)
      }
      return { next: nextOf(outcome), phase }
    } catch (error) {
      signal.throwIfAborted()
      log.error({ ...fields, error }, 'A commit could not be applied')
      return { next: 'backoff', phase: report({ kind: 'failed', commit, text: errorText(error) }) }
    } finally {
      drift.roundEnds(reference)
      if (!reference) this.#health?.roundFailed()
    }
  }

  #withNotes(done: RoundDone): RoundDone {
    return { ...done, notes: [...done.notes, ...this.#writers.observe(done.ends)] }
  }

  /** Requests a round once an object exists that a refused object needs. */
  #awaitAbsent({ ends }: RoundDone, runner: SourceRunner, signal: AbortSignal): void {
    const absent = ends.flatMap(({ end }) => (end.kind === 'failed' ? (end.problem.absent ?? []) : []))
    if (absent.length === 0) return
    const both = AbortSignal.any([signal, runner.superseded])
    void this.#components.rounds.absentCame(absent, this.#foundAtOnce, this.#options, both).then((hasCome) => {
      if (hasCome && !both.aborted) runner.add({ isNew: true })
    })
  }

  /** Measures once: a commit may be applied again for other reasons than its push. */
  #measure(set: ObjectSet): void {
    const { metrics, clock } = this.#components
    if (set.pushedAt !== undefined && this.#measured !== set) metrics.applied((clock.now() - set.pushedAt) / 1000)
    this.#measured = set
  }

  #logStep({ id: source }: SourceOptions, step: Step): void {
    if (step.kind !== 'ended' || step.end.kind !== 'failed') return
    const reason = step.end.problem.text
    this.#components.log.warn({ source, object: keyName(step.key), reason }, 'An object was not applied')
  }

  #logOutcome(fields: { readonly source: string; readonly commit_id: string }, outcome: Outcome): void {
    const { log } = this.#components
    if (outcome.kind === 'refused') {
      const [problem] = outcome.problems
      log.error({ ...fields, reason: problem && problemText(problem) }, 'A commit cannot be applied')
    } else if (outcome.kind === 'dryRun') {
      log.info({ ...fields, objects: outcome.ends.length }, 'A commit was tried out: nothing is written')
    } else if (outcome.kind === 'done') {
      const counts = { objects: outcome.ends.length, pruned: outcome.pruned.length }
      log.info({ ...fields, ...counts }, isComplete(outcome) ? 'A commit was applied' : 'Part of a commit was applied')
    }
  }
}

/** Returns what drift is compared with from now on; undefined: what it was before. */
function referenceOf(outcome: Outcome): AfterRound | undefined {
  if (outcome.kind === 'suspended') return { ...outcome, isPaused: true }
  if (outcome.kind === 'refused') return undefined
  const { ends, entries, kinds } = outcome
  const found = { manifests: ends.map(({ manifest }) => manifest), entries, kinds }
  if (outcome.kind === 'dryRun') return { ...found, isPaused: true } // it writes nothing
  const applied = ends.flatMap(({ manifest, end }) => (end.kind === 'applied' ? [keyText(manifest.key)] : []))
  return { ...found, isPaused: false, applied }
}

function nextOf(outcome: Outcome): Next {
  if (outcome.kind === 'suspended') return 'idle'
  if (outcome.kind === 'refused') return outcome.isWaitingForOthers ? 'waitingForOthers' : 'idle'
  if (outcome.kind === 'dryRun') return outcome.ends.some(({ end }) => end.kind === 'failed') ? 'backoff' : 'idle'
  if (outcome.isWaitingForOthers) return 'waitingForOthers'
  return isComplete(outcome) && !waitsForRollout(outcome) ? 'idle' : 'backoff'
}

/** True if nothing of the round is to be tried again. */
function isComplete(outcome: RoundDone): boolean {
  return needsNoRetry(outcome) && isAllApplied(outcome.ends)
}
