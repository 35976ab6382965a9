import { keyName } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { linkedController } from '../../../../lib/signals.ts'
import { agentAttributes } from '../../../../lib/tracing/attributes.ts'
import type { Tracer } from '../../../../lib/tracing/tracer.ts'
import { Phase } from '../../../../proto/gen/gitops_states_pb.ts'
import { isScalerKind } from '../apply/scalers.ts'
import { SecondWriters } from '../apply/second-writers.ts'
import { followObjects, type ObjectSet, type ObjectsStreamComponents } from '../files/objects-stream.ts'
import type { AbsentObject } from '../live/absent-objects.ts'
import { problemText } from '../manifests/manifest.ts'
import { isAllApplied, needsNoRetry, waitsForRollout } from '../outcome.ts'
import type { RoundInput } from '../reconcile.ts'
import type { DirectivesReader, Outcome, RoundDone, Step } from '../round.ts'
import { type ReadSource, type SourceOptions, sourceOptions, unresolvedId } from '../source-options.ts'
import { type GitopsMetrics, resultOf } from '../state/gitops-metrics.ts'
import type { Report } from '../state/source-state.ts'
import { areRefused, type StatusSink } from '../state/status-sink.ts'
import type { Next, ReconcileQueue } from './reconcile-queue.ts'

/**
 * The pod that led before may have been frozen, or cut off, with calls on their way: these have landed by then, or never
 * will. Above the time limit of a call, and the patience of TCP for a connection that is closed. ms
 */
export const settleMs = 120_000

export interface SourceWorkComponents {
  readonly kas: ObjectsStreamComponents['kas']
  readonly files: ObjectsStreamComponents['files']
  readonly queue: Pick<ReconcileQueue<SourceWork>, 'run' | 'add'>
  /** one round of the source: `reconcile`, with the parts that this source shares with others. @throws: it is tried again */
  readonly reconcile: (input: RoundInput, options: SourceOptions, signal: AbortSignal) => Promise<Outcome>
  readonly people: DirectivesReader
  /** `absentCame`, as agentk and as the source's account */
  readonly absentCame: (absent: readonly AbsentObject[], known: Set<string>, signal: AbortSignal) => Promise<boolean>
  readonly status: Pick<StatusSink, 'begin' | 'report' | 'filesFailed' | 'filesRecovered' | 'remove'>
  /** it wants what it has made of its last good commit, until it wants something else */
  readonly refused: (signal: AbortSignal) => void
  /** the source goes by this id from now on. @throws: another one does */
  readonly name: (id: string) => void
  readonly metrics: Pick<GitopsMetrics, 'round' | 'applied'>
  readonly tracer: Tracer
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface SourceWorkOptions extends ReadSource {
  readonly agentId: bigint
  /** full path */
  readonly ownProject: string
  /** of the project that the block names, as it was known last */
  readonly projectId: bigint | undefined
}

/** One source while this pod leads: follows its files, and has each commit brought to the cluster. */
export class SourceWork {
  readonly #components: SourceWorkComponents
  readonly #work: SourceWorkOptions
  #options: SourceOptions
  /** its project is known: it goes by its id */
  #isNamed = false
  /** the newest */
  #set: ObjectSet | undefined
  #measured: ObjectSet | undefined
  /** of the round that runs */
  #superseded = new AbortController()
  #mayHaveCallsInFlight = true
  /** paths of what this commit's objects lacked, and was there at the first check */
  readonly #foundAtOnce = new Set<string>()
  #unsubscribe: () => void = () => undefined
  readonly #writers: SecondWriters
  /** kas refuses the files of the newest commit; until one comes */
  #refusal: AbortController | undefined

  constructor(components: SourceWorkComponents, options: SourceWorkOptions) {
    const { projectId } = options
    this.#components = components
    this.#work = options
    this.#writers = new SecondWriters(components.clock)
    this.#options = {
      ...this.#optionsOf(projectId ?? 0n),
      ...(projectId === undefined && { id: unresolvedId(options) }),
    }
  }

  /** By which its status is known. */
  get id(): string {
    return this.#options.id
  }

  /** Until the signal aborts. Never rejects, unless the block cannot be used, or its id is another's. */
  async run(signal: AbortSignal): Promise<void> {
    const { kas, files, queue, clock, random } = this.#components
    const following = {
      onSet: (set: ObjectSet) => this.#take(set),
      onProblem: (error: KasError) => this.#unread(error),
      onFollowing: () => this.#components.status.filesRecovered(this.#options),
    }
    this.#components.status.begin(this.#options, this.#work.digest)
    const ended = linkedController(signal)
    const cancel = clock.after(settleMs, () => {
      this.#mayHaveCallsInFlight = false
      if (this.#set) queue.add(this)
    })
    const both = [
      queue.run(this, (running) => this.#round(running), ended.signal),
      followObjects({ kas, files, ...following, clock, random }, this.#options, ended.signal),
    ] as const
    try {
      await Promise.all(both)
    } finally {
      cancel()
      this.#unsubscribe()
      ended.abort(new KasError({ code: 'CANCELLED', detail: 'the source is not followed' }))
      ended.dispose()
      await Promise.allSettled(both)
    }
  }

  #take(set: ObjectSet): void {
    this.#refusal?.abort(new KasError({ code: 'CANCELLED', detail: 'a commit has come' }))
    this.#refusal = undefined
    this.#set = set
    this.#foundAtOnce.clear()
    const { status } = this.#components
    status.filesRecovered(this.#options)
    status.report(this.#options, { kind: 'received', commit: set.commit })
    this.#again('a newer commit has come')
  }

  /** A round that runs begins nothing more, and the next one follows. */
  #again(detail: string): void {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail }))
    this.#components.queue.add(this, { isNew: true })
  }

  /** The last commit holds meanwhile. */
  #unread(error: KasError): void {
    const { log, status } = this.#components
    log.warn({ project: this.#options.project, error }, 'The files of a project cannot be read')
    status.filesFailed(this.#options, error)
    if (!areRefused(error)) return
    this.#refusal ??= new AbortController()
    this.#components.refused(this.#refusal.signal)
  }

  /** One span, part of the one that has sent the files. */
  async #round(signal: AbortSignal): Promise<Next> {
    const { metrics, tracer } = this.#components
    const set = this.#set as ObjectSet // without one there is no round
    this.#resolve(set)
    const options = this.#options
    const parent = set.traceparent === '' ? undefined : { traceparent: [set.traceparent] }
    const source = { 'kas.source': options.id, 'vcs.ref.head.revision': set.commit }
    const attributes = { ...agentAttributes(this.#work.agentId), ...source }
    const span = tracer.begin('gitops round', { kind: 'server', parent, attributes })
    let phase: Phase | undefined
    try {
      const { next, ...ended } = await this.#reconcile(set, options, signal)
      phase = ended.phase
      metrics.round(phase)
      return next
    } finally {
      const isFailed = phase === Phase.FAILING || phase === Phase.REFUSED
      span.end(isFailed ? resultOf(phase as Phase) : undefined)
    }
  }

  #optionsOf(projectId: bigint): SourceOptions {
    const { block, agentId, ownProject } = this.#work
    return sourceOptions(block, { agentId, projectId, ownProject })
  }

  /** Its project is known: it has a name in the cluster. */
  #resolve(set: ObjectSet): void {
    const { name, people, status } = this.#components
    const options = this.#optionsOf(set.projectId)
    const before = this.#options.id
    if (this.#isNamed && options.id === before) return
    name(options.id)
    this.#isNamed = true
    this.#options = options
    if (options.id !== before) status.remove(before)
    status.begin(options, this.#work.digest)
    status.report(options, { kind: 'received', commit: set.commit })
    this.#unsubscribe()
    this.#unsubscribe = people.onDirectives(options.id, () => this.#again('somebody asks for something else'))
  }

  async #reconcile(set: ObjectSet, options: SourceOptions, signal: AbortSignal): Promise<{ next: Next; phase: Phase }> {
    const { log, people, reconcile } = this.#components
    const { commit, files } = set
    const fields = { source: options.id, commit_id: commit }
    const report = (what: Report) => this.#components.status.report(options, what).phase
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail: 'another round has begun' }))
    this.#superseded = new AbortController()
    try {
      const { approved, isSuspended } = await people.directives(options.id, signal)
      if (isSuspended) report({ kind: 'suspended', commit })
      const input: RoundInput = {
        commit,
        files,
        leftOut: set.leftOut,
        branch: set.branch,
        approved,
        useApproval: (using) => people.useApproval(options.id, approved, using),
        isSuspended,
        mayHaveCallsInFlight: this.#mayHaveCallsInFlight,
        superseded: this.#superseded.signal,
        onStep: (step) => {
          report({ kind: 'step', commit, step })
          this.#logStep(options, step)
        },
      }
      const result = await reconcile(input, options, signal)
      if (this.#refusal) this.#components.refused(this.#refusal.signal) // the round was of a commit before
      const outcome = result.kind === 'done' ? withNotes(result, this.#writers.observe(result.ends)) : result
      const phase = report({ kind: 'outcome', commit, outcome })
      this.#logOutcome(fields, outcome)
      if (outcome.kind === 'done') {
        if (outcome.pruned.some(isScalerKind)) this.#components.queue.add(this) // what it has scaled is Git's again
        if (isComplete(outcome)) this.#measure(set)
        else this.#awaitAbsent(outcome, signal)
      }
      return { next: nextOf(outcome), phase }
    } catch (error) {
      signal.throwIfAborted()
      log.error({ ...fields, error }, 'A commit could not be applied')
      return { next: 'backoff', phase: report({ kind: 'failed', commit, text: errorText(error) }) }
    }
  }

  /** An object that was refused for want of another one is tried again once that is there. */
  #awaitAbsent({ ends }: RoundDone, signal: AbortSignal): void {
    const absent = ends.flatMap(({ end }) => (end.kind === 'failed' ? (end.problem.absent ?? []) : []))
    if (absent.length === 0) return
    const both = AbortSignal.any([signal, this.#superseded.signal])
    void this.#components.absentCame(absent, this.#foundAtOnce, both).then((hasCome) => {
      if (hasCome && !both.aborted) this.#components.queue.add(this, { isNew: true })
    })
  }

  /** Once: it may be applied again for other reasons than its push. */
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

function withNotes(done: RoundDone, notes: readonly string[]): RoundDone {
  return { ...done, notes: [...done.notes, ...notes] }
}

function nextOf(outcome: Outcome): Next {
  if (outcome.kind === 'suspended') return 'idle'
  if (outcome.kind === 'refused') return outcome.isWaitingForOthers ? 'waitingForOthers' : 'idle'
  if (outcome.kind === 'dryRun') return outcome.ends.some(({ end }) => end.kind === 'failed') ? 'backoff' : 'idle'
  if (outcome.isWaitingForOthers) return 'waitingForOthers'
  return isComplete(outcome) && !waitsForRollout(outcome) ? 'idle' : 'backoff'
}

/** Nothing of it is to be tried again. */
function isComplete(outcome: RoundDone): boolean {
  return needsNoRetry(outcome) && isAllApplied(outcome.ends)
}
