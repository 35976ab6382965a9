import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Tracer } from '../../../../lib/tracing/tracer.ts'
import type { Term } from '../../../election/terms.ts'
import type { AgentkHost } from '../../../module.ts'
import type { ManifestsThread } from '../build/manifests-thread.ts'
import type { FollowedDrift } from '../drift/follow-drift.ts'
import type { KeptFiles } from '../files/kept-files.ts'
import type { PreviewedSource } from '../preview/previewed-source.ts'
import type { DirectivesReader } from '../round.ts'
import { type ReadSource, readBlock, type SourceOptions } from '../source-options.ts'
import type { GitSyncs } from '../state/git-syncs.ts'
import type { GitopsMetrics } from '../state/gitops-metrics.ts'
import type { StatePush } from '../state/state-push.ts'
import type { StatusSink } from '../state/status-sink.ts'
import { UnfollowedRows } from '../state/unfollowed-rows.ts'
import { FollowMode, type TermSources } from './follow-mode.ts'
import { ReconcileQueue } from './reconcile-queue.ts'
import { RemovedSources } from './removed-sources.ts'
import { SourceRegistry } from './source-registry.ts'
import { type PreviewUser, SourceRounds, type SourceRoundsComponents } from './source-rounds.ts'
import { SourceRunner } from './source-runner.ts'

export interface SourcesComponents extends Pick<AgentkHost, 'kas' | 'configuration'> {
  /** as kas sends it; undefined: there is none now, and sources rest */
  readonly block: () => unknown
  /** components that their rounds share */
  readonly rounds: Omit<SourceRoundsComponents, 'registry' | 'syncs'>
  /** threads that read manifests */
  readonly threads: readonly Pick<ManifestsThread, 'stop'>[]
  readonly files: KeptFiles
  readonly syncs: GitSyncs
  readonly push: StatePush
  readonly status: StatusSink
  readonly metrics: GitopsMetrics
  readonly tracer: Tracer
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

interface Running {
  readonly runner: SourceRunner
  readonly done: Promise<void>
}

/** Sources of one term: a runner for each source of the configuration, and for those that have left it. */
export class Sources implements TermSources {
  readonly #components: SourcesComponents
  readonly #term: Term
  readonly #agentId: bigint
  readonly #queue: ReconcileQueue<object>
  /** by digest of the source's block */
  readonly #running = new Map<string, Running>()
  /** identities are runners, also failed ones */
  readonly #registry: SourceRegistry
  readonly #rounds: SourceRounds
  /** last known numbers of projects, by full path */
  readonly #projects = new Map<string, bigint>()
  readonly #unfollowedRows: UnfollowedRows
  /** in the registry, but not followed: their claims are not known */
  readonly #unfollowed = new Set<SourceRunner>()
  readonly #people: DirectivesReader
  readonly #removed: RemovedSources
  /** a source that the configuration does not have has left it */
  #isWhole = false
  readonly #began = Promise.withResolvers<void>()

  constructor(components: SourcesComponents, { namespace }: { readonly namespace: string }, term: Term) {
    const { configuration, rounds, status, syncs } = components
    this.#components = components
    this.#term = term
    this.#agentId = configuration.current.agentId
    this.#queue = new ReconcileQueue(components)
    this.#registry = new SourceRegistry(this.#agentId, (source, contested) => {
      this.#queue.othersChanged(source)
      for (const other of contested) this.#queue.add(other) // its row names its rival
    })
    this.#rounds = new SourceRounds(
      { ...rounds, registry: this.#registry, syncs },
      { namespace, agentId: this.#agentId },
    )
    this.#unfollowedRows = new UnfollowedRows(status, {
      agentId: this.#agentId,
      ownProject: () => configuration.current.projectPath,
      projectId: (path) => this.#projects.get(path),
    })
    this.#people = this.#peopleFrom(syncs)
    const shared = { ...components, queue: this.#queue, people: this.#people, rounds: this.#rounds }
    this.#removed = new RemovedSources({ ...shared, hasLeft: (id) => this.#hasLeft(id) })
  }

  /** Number of running sources. */
  get size(): number {
    return this.#running.size
  }

  /** Starts sources that the configuration has, and stops those that it no longer has. Removes nothing. */
  update(): void {
    const sources = this.#read()
    if (this.#term.signal.aborted) return
    if (!sources) {
      void this.#removed.halt()
      return
    }
    const wanted = new Map(sources.map((source) => [source.digest, source]))
    for (const source of this.#unfollowed) this.#registry.delete(source)
    this.#unfollowed.clear()
    for (const [digest, { runner }] of this.#running) {
      if (!wanted.has(digest)) runner.stop(new KasError({ code: 'CANCELLED', detail: 'the configuration has changed' }))
    }
    const halted = Promise.withResolvers<void>()
    for (const source of sources) if (!this.#running.has(source.digest)) this.#start(source, halted.promise)
    void this.#removed.halt().then(halted.resolve) // sources that have come back are known by now
    if (this.#isWhole) {
      this.#unfollowedRows.forgetResting(new Set(Array.from(this.#running.values(), ({ runner }) => runner.mode.id)))
    }
    if (sources.length + this.#unfollowedRows.refused > 0) this.#began.resolve()
    this.#queue.othersChanged()
    this.#removed.check()
  }

  /** @returns undefined: the block cannot be used; running sources go on, and none counts as removed */
  #read(): readonly ReadSource[] | undefined {
    const { block, log } = this.#components
    this.#isWhole = false
    this.#registry.isWhole = false
    try {
      const json = block()
      const { sources, unreadable } = readBlock(json ?? {})
      for (const { problem } of unreadable) log.error({ reason: problem }, 'A source of GitOps cannot be used')
      this.#unfollowedRows.readAnew(unreadable)
      this.#registry.isWhole = unreadable.length === 0
      this.#isWhole = json !== undefined && unreadable.length === 0
      return sources
    } catch (error) {
      log.error({ reason: errorText(error) }, 'The sources of GitOps cannot be used')
      return undefined
    }
  }

  /** Runs until the term and all sources have ended. */
  async run(): Promise<void> {
    const { signal } = this.#term
    const { syncs, push, threads } = this.#components
    const ended = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    const syncing = Promise.race([this.#began.promise, ended]).then(() =>
      signal.aborted ? undefined : Promise.all([syncs.run(signal), push.run(signal)]),
    )
    await Promise.all([ended, this.#removed.run(signal), syncing.catch((error: unknown) => this.#failed(error))])
    for (const { runner } of this.#running.values()) runner.stop(signal.reason)
    await Promise.all([...this.#running.values()].map(({ done }) => done))
    await Promise.all(threads.map((thread) => thread.stop()))
  }

  /** Starts a source. After a change of its block, it begins once the earlier one has ended: never two at a time. */
  #start(source: ReadSource, halted: Promise<void>): void {
    const { block, digest } = source
    const { signal } = this.#term
    const before = [...this.#running.values()].filter(({ runner }) => runner.isStopped)
    const runner = this.#runnerOf(source)
    const done = Promise.all([halted, ...before.map((one) => one.done)])
      .then(() => {
        if (runner.isStopped || signal.aborted) return
        this.#rounds.accountHeaders(block.access_as?.service_account) // throws before its row shows it as followed
        return runner.run(signal)
      })
      .catch((error: unknown) => {
        this.#unfollowed.add(runner)
        this.#failed(error)
        if (!signal.aborted) this.#unfollowedRows.refuse(block, errorText(error))
      })
      .finally(() => this.#ended(source, runner))
    this.#registry.set(runner, { block })
    this.#running.set(digest, { runner, done })
  }

  #runnerOf(source: ReadSource): SourceRunner {
    const { projectPath: ownProject } = this.#components.configuration.current
    const mode = new FollowMode(
      { ...this.#components, rounds: this.#rounds, sources: this },
      { ...source, agentId: this.#agentId, ownProject, projectId: this.#projects.get(source.block.id ?? ownProject) },
    )
    return new SourceRunner({ queue: this.#queue, people: this.#people }, mode)
  }

  /** Returns the drift of the source with this id; undefined: it is not followed, or its first commit has not come. */
  driftOf(id: string): FollowedDrift | undefined {
    return this.#followed(id)?.mode.drift
  }

  /** Returns what a preview of the source with this id needs, or the reason for which nothing can be compared. */
  previewOf(id: string, of: PreviewUser): PreviewedSource | string {
    const runner = this.#followed(id)
    const { followed } = runner?.mode ?? {}
    if (!runner || !followed) return 'agentk does not follow this source now, or its first commit has not come'
    const { options, drift, isPaused } = followed
    if (isPaused) return 'the source is paused: nothing of it is applied'
    const access = this.#rounds.preview(runner, options, of)
    const isSame = () => !runner.isStopped && runner.mode.followed?.options === options
    const interruption = () =>
      isSame() ? access.interruption() : 'the source was configured in another way meanwhile: ask again'
    return { ...access, options, known: drift.known, manifest: (text) => drift.manifest(text), interruption }
  }

  #followed(id: string): SourceRunner | undefined {
    return [...this.#running.values()].find(({ runner }) => runner.mode.id === id && !runner.isStopped)?.runner
  }

  named(runner: SourceRunner, { id, project }: SourceOptions): void {
    const before = this.#registry.get(runner)?.id
    this.#registry.name(runner, id)
    this.#projects.set(project, BigInt(id.split('-')[1] as string))
    if (before === undefined || before === id) this.#removed.decide()
    else this.#removed.check() // it may have made the inventory of that id since the last list
  }

  #ended({ block, digest }: ReadSource, runner: SourceRunner): void {
    const { id } = runner.mode
    this.#running.delete(digest)
    const isNamed = this.#registry.get(runner)?.id !== undefined
    if (this.#unfollowed.has(runner)) {
      this.#registry.set(runner, { block })
      this.refused(runner, this.#term.signal)
    } else this.#registry.delete(runner)
    this.#components.metrics.removed(id)
    const isInOtherWords = [...this.#running.values()].some((other) => other.runner.mode.id === id)
    const hasLeft = !isInOtherWords && (isNamed ? this.#hasLeft(id) : true)
    if (runner.isStopped && !this.#term.signal.aborted) {
      const hasRow = isInOtherWords || this.#unfollowedRows.isRefused(id)
      // in a complete configuration, another source takes over its objects
      if (hasLeft || (this.#isWhole && !hasRow)) this.#components.status.remove(id)
      else if (!hasRow)
        this.#unfollowedRows.rest(id, this.#isFileDeleted ? 'configuration_gone' : 'configuration_unread')
      this.#removed.settle()
    }
    this.#queue.othersChanged()
    if (runner.isStopped) this.update() // the configuration may have it again
  }

  refused(runner: SourceRunner, signal: AbortSignal): void {
    this.#claimLastGood(runner, signal).catch((error: unknown) => {
      if (!signal.aborted) this.#components.log.warn({ error }, 'What a source wants that is refused cannot be read')
    })
  }

  /** Claims the objects of a refused source's last good commit. If there are none, other sources wait. */
  async #claimLastGood(runner: SourceRunner, signal: AbortSignal): Promise<void> {
    const row = this.#registry.get(runner)
    if (!row) return
    const project = row.block.id ?? this.#components.configuration.current.projectPath
    const { name } = row.block
    const of = { project, ...(name !== undefined && { name }), id: row.id }
    const found = await this.#rounds.storedObjects(of, signal)
    const now = this.#registry.get(runner)
    if (!found || signal.aborted || !now) return
    if (this.#registry.isBeside(runner, found.id)) return // another source may have that id
    this.#registry.set(runner, { ...now, id: found.id })
    this.#registry.claims(runner).claim({ commit: '', keys: found.keys, isLastGood: true })
  }

  /** Returns the reader of directives. The annotated objects exist from the first source on. */
  #peopleFrom(syncs: GitSyncs): DirectivesReader {
    return {
      directives: (id, signal) => {
        this.#began.resolve()
        return syncs.directives(id, signal)
      },
      useApproval: syncs.useApproval.bind(syncs),
      resynced: syncs.resynced.bind(syncs),
      onDirectives: syncs.onDirectives.bind(syncs),
    }
  }

  get #isFileDeleted(): boolean {
    return this.#components.block() === undefined
  }

  /** True if a complete configuration has no source with this id, whatever its block. */
  #hasLeft(id: string): boolean {
    return this.#isWhole && !this.#registry.has(id)
  }

  #failed(error: unknown): void {
    if (this.#term.signal.aborted) return
    this.#components.log.error({ reason: errorText(error) }, 'A source of GitOps is not followed')
  }
}
