import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { errorText, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { agentAttributes } from '../../../lib/tracing/attributes.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { Phase } from '../../../proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../proto/gitops-json.ts'
import type { ApplyEnd } from './apply/apply-run.ts'
import { type GitopsMetrics, resultOf } from './gitops-metrics.ts'
import { problemText } from './manifests/manifest.ts'
import { keyName, type ObjectKey } from './manifests/object-key.ts'
import { followObjects, type ObjectSet, type ObjectsStreamComponents } from './objects-stream.ts'
import { isSettled, type RoundDone, type RoundInput, type RoundResult } from './round.ts'
import { type SourceOptions, sourceOptions } from './source-options.ts'
import type { SourceWants } from './source-table.ts'
import { SourceStatus } from './state/source-status.ts'

/** What is not in the cluster as it should be is tried again. ms */
const backoffOptions = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }

/**
 * The pod that led before may have been frozen, or cut off, with calls on their way: these have landed by then, or never
 * will. Above the time limit of a call, and the patience of TCP for a connection that is closed. ms
 */
export const settleMs = 120_000

/** What people say to a source, by annotations of its GitSync. */
export interface Wishes {
  /** digest of the plan that may go; empty: none */
  readonly approved: string
  /** nothing is to be written */
  readonly isPaused: boolean
}

export interface SourceWorkComponents {
  readonly kas: ObjectsStreamComponents['kas']
  readonly files: ObjectsStreamComponents['files']
  /** one round of the source. @throws: it is tried again */
  readonly round: (input: RoundInput, options: SourceOptions, signal: AbortSignal) => Promise<RoundResult>
  /** as they are now. @throws: it is tried again */
  readonly wishes: (options: SourceOptions, signal: AbortSignal) => Promise<Wishes>
  /** what was approved is not approved any more. @throws: it still is */
  readonly useApproval: (options: SourceOptions, approved: string, signal: AbortSignal) => Promise<void>
  /** the wishes of a source may have changed. @returns ends the listening */
  readonly onWish: (id: string, listener: () => void) => () => void
  /** the source goes by this id from now on. @throws: another one does */
  readonly claim: (id: string) => void
  /** it fares otherwise */
  readonly onStatus: (status: SourceStatus) => void
  readonly onWants: (wants: SourceWants) => void
  readonly metrics: Pick<GitopsMetrics, 'round' | 'applied'>
  readonly tracer: Tracer
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface SourceWorkOptions {
  readonly block: SourceBlock
  readonly agentId: bigint
  /** full path */
  readonly ownProject: string
}

/** One source while this pod leads: follows its files, brings each commit to the cluster, tries again what has failed. */
export class SourceWork {
  readonly #components: SourceWorkComponents
  readonly #work: SourceWorkOptions
  /** the newest */
  #set: ObjectSet | undefined
  #measured: ObjectSet | undefined
  /** of the round that runs */
  #superseded = new AbortController()
  #wake = Promise.withResolvers<void>()
  #status: SourceStatus | undefined
  /** why its files cannot be read; empty: they can */
  #refusal = ''
  #isSettling = true
  /** something stays, or all of it, until other sources have said what they want */
  #isHeld = false
  /** they have said something since the round began */
  #isHeard = false

  constructor(components: SourceWorkComponents, options: SourceWorkOptions) {
    this.#components = components
    this.#work = options
  }

  /** Until the signal aborts. Never rejects, unless the block cannot be used, or its id is another's. */
  async run(signal: AbortSignal): Promise<void> {
    const { kas, files, clock, random } = this.#components
    const request = this.#optionsOf(0n)
    const told = {
      onSet: (set: ObjectSet) => this.#take(set),
      onProblem: (error: KasError) => this.#told(error),
      onFollowing: () => this.#isFollowing(),
    }
    const ended = linkedController(signal)
    const cancel = clock.after(settleMs, () => {
      this.#isSettling = false
      this.#wake.resolve()
    })
    const both = [
      followObjects({ kas, files, ...told, clock, random }, request, ended.signal),
      this.#rounds(ended.signal),
    ] as const
    try {
      await Promise.all(both)
    } finally {
      cancel()
      ended.abort(new KasError({ code: 'CANCELLED', detail: 'the source is not followed' }))
      ended.dispose()
      await Promise.allSettled(both)
    }
  }

  #optionsOf(projectId: bigint): SourceOptions {
    const { block, agentId, ownProject } = this.#work
    return sourceOptions(block, { agentId, projectId, ownProject })
  }

  #take(set: ObjectSet): void {
    this.#set = set
    this.#isFollowing()
    this.#again('a newer commit has come')
  }

  /** Other sources have said what they want. */
  heard(): void {
    this.#isHeard = true
    if (this.#isHeld) this.#wake.resolve()
  }

  /** A round that runs begins nothing more, and the next one follows. */
  #again(detail: string): void {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail }))
    this.#wake.resolve()
  }

  /** Once its project is known: the last commit holds meanwhile. */
  #told(error: KasError): void {
    const { log, clock, onStatus } = this.#components
    log.warn({ project: this.#optionsOf(0n).project, error }, 'The files of a project cannot be read')
    if (!this.#status) return
    this.#refusal = errorText(error)
    this.#status.set({ problem: this.#refusal }, clock.now())
    onStatus(this.#status)
  }

  #isFollowing(): void {
    const [status, refusal] = [this.#status, this.#refusal]
    this.#refusal = ''
    if (refusal === '' || status?.state.problem !== refusal) return
    status.set({ problem: '' }, this.#components.clock.now())
    this.#components.onStatus(status)
  }

  async #rounds(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, backoffOptions)
    let unsubscribe: () => void = () => undefined
    try {
      for (let isDone = true; !signal.aborted; ) {
        if (!isDone) void backoff.wait(signal).then(this.#wake.resolve)
        await abortable(this.#wake.promise, signal)
        this.#wake = Promise.withResolvers()
        const set = this.#set
        if (!set) continue
        const options = this.#optionsOf(set.projectId)
        if (!this.#status) {
          this.#components.claim(options.id)
          unsubscribe = this.#components.onWish(options.id, () => this.#again('somebody wishes otherwise'))
        }
        isDone = await this.#round(set, options, signal)
        if (isDone) backoff.reset()
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      unsubscribe()
    }
  }

  /** One span, part of the one that has sent the files. @returns false: it is to be tried again */
  async #round(set: ObjectSet, options: SourceOptions, signal: AbortSignal): Promise<boolean> {
    const { metrics, tracer } = this.#components
    const parent = set.traceparent === '' ? undefined : { traceparent: [set.traceparent] }
    const source = { 'kas.source': options.id, 'vcs.ref.head.revision': set.commit }
    const attributes = { ...agentAttributes(this.#work.agentId), ...source }
    const span = tracer.begin('gitops round', { kind: 'server', parent, attributes })
    let phase: Phase | undefined
    try {
      const isDone = await this.#bring(set, options, signal)
      phase = this.#status?.state.phase ?? Phase.WAITING
      metrics.round(phase)
      return isDone
    } finally {
      const isFailed = phase === Phase.FAILING || phase === Phase.REFUSED
      span.end(isFailed ? resultOf(phase as Phase) : undefined)
    }
  }

  async #bring(set: ObjectSet, options: SourceOptions, signal: AbortSignal): Promise<boolean> {
    const { clock, log, round, wishes, useApproval, onStatus, onWants } = this.#components
    this.#status ??= new SourceStatus(options, clock.now())
    const status = this.#status
    this.#superseded = new AbortController()
    const fields = { source: options.id, commit_id: set.commit }
    try {
      const { approved, isPaused } = await wishes(options, signal)
      const { commit, files } = set
      if (isPaused) status.set({ phase: Phase.PAUSED, wanted: commit }, clock.now())
      const input: RoundInput = {
        commit,
        files,
        approved,
        useApproval: (using) => useApproval(options, approved, using),
        isPaused,
        isSettling: this.#isSettling,
        superseded: this.#superseded.signal,
        onWanted: (keys, isRefused) => {
          onWants({ commit: isRefused ? '' : commit, keys })
          if (isPaused || isRefused) return
          status.began(commit, keys.size, clock.now())
          onStatus(status)
        },
        onProgress: (phase, key, end) => {
          if (phase === 'pruning') status.set({ phase: Phase.PRUNING }, clock.now())
          if (end) this.#progress(status, key, end)
          onStatus(status)
        },
      }
      this.#isHeard = false
      this.#isHeld = false
      const result = await round(input, options, signal)
      this.#isHeld = result.is === 'refused' ? result.isTooMuch : result.is === 'done' && result.isPruneHeld
      if (this.#isHeld && this.#isHeard) this.#wake.resolve()
      if (isPaused || result.is === 'paused') return true
      if (result.is === 'refused') {
        const [problem] = result.problems
        status.refused(commit, result.problems, clock.now())
        log.error({ ...fields, reason: problem && problemText(problem) }, 'A commit cannot be applied')
        return true
      }
      if (result.is === 'rehearsed') {
        status.rehearsed(commit, result, clock.now())
        log.info({ ...fields, objects: result.ends.length }, 'A commit was tried out: nothing is written')
        return result.ends.every(({ end }) => end.is !== 'failed')
      }
      status.done(commit, result, clock.now())
      log.info({ ...fields, objects: result.ends.length, pruned: result.pruned.length }, 'A commit was applied')
      const isDone = isComplete(result)
      if (isDone) this.#measure(set)
      return isDone
    } catch (error) {
      signal.throwIfAborted()
      status.set({ phase: Phase.FAILING, problem: errorText(error) }, clock.now())
      log.error({ ...fields, error }, 'A commit could not be applied')
      return false
    } finally {
      if (!signal.aborted) onStatus(status)
    }
  }

  /** Once: it may be applied again for other reasons than its push. */
  #measure(set: ObjectSet): void {
    const { metrics, clock } = this.#components
    if (set.pushedAt !== undefined && this.#measured !== set) metrics.applied((clock.now() - set.pushedAt) / 1000)
    this.#measured = set
  }

  #progress(status: SourceStatus, key: ObjectKey, end: ApplyEnd): void {
    status.ended(end)
    if (end.is !== 'failed') return
    const { id: source } = status.options
    this.#components.log.warn({ source, object: keyName(key), reason: end.problem.text }, 'An object was not applied')
  }
}

/** Nothing of it is to be tried again. */
function isComplete(result: RoundDone): boolean {
  return isSettled(result) && result.ends.every(({ end }) => end.is === 'applied' || end.is === 'unchanged')
}
