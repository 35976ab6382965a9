import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Tracer } from '../../../../lib/tracing/tracer.ts'
import type { SourceBlock } from '../../../../proto/gitops/schema.ts'
import type { Term } from '../../../election/terms.ts'
import type { AgentkHost } from '../../../module.ts'
import type { ManifestsThread } from '../build/manifests-thread.ts'
import type { KeptFiles } from '../files/kept-files.ts'
import { storedSources } from '../inventory/inventory.ts'
import { lastGoodOf } from '../inventory/last-good.ts'
import { absentCame } from '../live/absent-objects.ts'
import { forgetSource, reconcile, reconcileRemoval } from '../reconcile.ts'
import { type ReadSource, readBlock, type SourceOptions } from '../source-options.ts'
import type { GitSyncs } from '../state/git-syncs.ts'
import type { GitopsMetrics } from '../state/gitops-metrics.ts'
import type { StatePush } from '../state/state-push.ts'
import type { StatusSink } from '../state/status-sink.ts'
import { UnfollowedRows } from '../state/unfollowed-rows.ts'
import { ReconcileQueue } from './reconcile-queue.ts'
import { RemovedSources } from './removed-sources.ts'
import { type RoundsShared, roundBuild, roundComponents } from './round-components.ts'
import { SourceRegistry } from './source-registry.ts'
import { SourceWork } from './source-work.ts'

export interface SourcesComponents extends Pick<AgentkHost, 'kas' | 'configuration'> {
  /** as kas sends it; undefined: there is none now, sources rest */
  readonly block: () => unknown
  /** what their rounds share */
  readonly rounds: Omit<RoundsShared, 'registry'>
  readonly manifests: Pick<ManifestsThread, 'stop'>
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
  readonly work: SourceWork
  readonly stop: AbortController
  readonly done: Promise<void>
}

/** The sources of one term: a SourceWork for each that the configuration has, and what becomes of those that it has no longer. */
export class Sources {
  readonly #components: SourcesComponents
  /** of agentk */
  readonly #namespace: string
  readonly #term: Term
  readonly #rounds: RoundsShared
  readonly #agentId: bigint
  readonly #queue: ReconcileQueue<SourceWork>
  /** by digest of what the configuration says of each */
  readonly #running = new Map<string, Running>()
  readonly #registry: SourceRegistry
  /** numbers of projects, by full path, as they were known last */
  readonly #projects = new Map<string, bigint>()
  readonly #unfollowedRows: UnfollowedRows
  /** in the registry, and not followed: what they want is not known */
  readonly #unfollowed = new Set<object>()
  readonly #removed: RemovedSources
  /** a configuration without a source says that it is gone */
  #isWhole = false
  readonly #began = Promise.withResolvers<void>()

  constructor(components: SourcesComponents, { namespace }: { readonly namespace: string }, term: Term) {
    const { configuration, rounds, status } = components
    this.#components = components
    this.#namespace = namespace
    this.#term = term
    this.#agentId = configuration.current.agentId
    this.#queue = new ReconcileQueue(components)
    this.#registry = new SourceRegistry(this.#agentId, (source, contested) => {
      this.#queue.othersChanged(this.#workOf(source))
      for (const other of contested) {
        const work = this.#workOf(other)
        if (work) this.#queue.add(work) // its row names the other one
      }
    })
    this.#rounds = { ...rounds, registry: this.#registry }
    this.#unfollowedRows = new UnfollowedRows(status, {
      agentId: this.#agentId,
      ownProject: () => configuration.current.projectPath,
      projectId: (path) => this.#projects.get(path),
    })
    this.#removed = this.#removedSources()
  }

  /** Those that run. */
  get size(): number {
    return this.#running.size
  }

  /** Starts what the configuration has, ends what it has no longer. Nothing is removed. */
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
    for (const [digest, { stop }] of this.#running) {
      if (!wanted.has(digest)) stop.abort(new KasError({ code: 'CANCELLED', detail: 'the configuration has changed' }))
    }
    const halted = Promise.withResolvers<void>()
    for (const source of sources) if (!this.#running.has(source.digest)) this.#start(source, halted.promise)
    void this.#removed.halt().then(halted.resolve) // what has come back is known by now
    if (this.#isWhole) {
      this.#unfollowedRows.forgetResting(new Set(Array.from(this.#running.values(), ({ work }) => work.id)))
    }
    if (sources.length + this.#unfollowedRows.refused > 0) this.#began.resolve()
    this.#queue.othersChanged()
    this.#removed.check()
  }

  /** @returns undefined: it cannot be used, what runs goes on, and nothing is known to have left */
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

  /** Until the term ends, and all of them have. */
  async run(): Promise<void> {
    const { signal } = this.#term
    const { syncs, push, manifests } = this.#components
    const ended = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    const syncing = Promise.race([this.#began.promise, ended]).then(() =>
      signal.aborted ? undefined : Promise.all([syncs.run(signal), push.run(signal)]),
    )
    await Promise.all([ended, this.#removed.run(signal), syncing.catch((error: unknown) => this.#failed(error))])
    for (const { stop } of this.#running.values()) stop.abort(signal.reason)
    await Promise.all([...this.#running.values()].map(({ done }) => done))
    await manifests.stop()
  }

  /** The same source in other words begins when the last one has ended: never two at a time. */
  #start({ block, digest }: ReadSource, halted: Promise<void>): void {
    const { projectPath: ownProject } = this.#components.configuration.current
    const project = block.id ?? ownProject
    const stop = new AbortController()
    const signal = AbortSignal.any([stop.signal, this.#term.signal])
    const before = [...this.#running.values()].filter(({ stop: other }) => other.signal.aborted)
    const work = new SourceWork(
      {
        ...this.#components,
        queue: this.#queue,
        people: this.#people,
        absentCame: (absent, known, waiting) => {
          const headers = this.#rounds.identities.accountHeaders(block.access_as?.service_account)
          const lanes = [[], headers].map((one) => this.#rounds.lanes.lane('scan', one))
          return absentCame({ lanes, clock: this.#components.clock }, absent, known, waiting)
        },
        reconcile: async (input, source, running) => {
          const components = this.#roundOf(source, stop)
          try {
            return await reconcile(
              { ...components, build: roundBuild(this.#rounds, source, stop) },
              input,
              source,
              running,
            )
          } finally {
            this.#rounds.objects.release(stop)
          }
        },
        refused: (refusal) => void this.#claimLastGood(stop, block, AbortSignal.any([signal, refusal])),
        name: (id) => {
          this.#registry.name(stop, id)
          this.#projects.set(project, BigInt(id.split('-')[1] as string))
          this.#removed.check()
        },
      },
      { block, digest, agentId: this.#agentId, ownProject, projectId: this.#projects.get(project) },
    )
    const done = Promise.all([halted, ...before.map((one) => one.done)])
      .then(() => {
        if (signal.aborted) return
        this.#rounds.identities.accountHeaders(block.access_as?.service_account) // before its row says that it is followed
        return work.run(signal)
      })
      .catch((error: unknown) => {
        this.#unfollowed.add(stop)
        this.#failed(error)
        if (!this.#term.signal.aborted) this.#unfollowedRows.refuse(block, errorText(error))
      })
      .finally(() => this.#ended({ block, digest }, stop, work.id))
    this.#registry.set(stop, { block })
    this.#running.set(digest, { work, stop, done })
  }

  #ended({ block, digest }: ReadSource, stop: AbortController, id: string): void {
    this.#running.delete(digest)
    const isNamed = this.#registry.get(stop)?.id !== undefined
    if (this.#unfollowed.has(stop)) {
      this.#registry.set(stop, { block })
      void this.#claimLastGood(stop, block, this.#term.signal)
    } else this.#registry.delete(stop)
    this.#components.metrics.removed(id)
    const isInOtherWords = [...this.#running.values()].some(({ work }) => work.id === id)
    const hasLeft = !isInOtherWords && (isNamed ? this.#hasLeft(id) : true)
    if (stop.signal.aborted && !this.#term.signal.aborted) {
      const hasRow = isInOtherWords || this.#unfollowedRows.isRefused(id)
      // of a configuration that was read whole another source takes over what it has made
      if (hasLeft || (this.#isWhole && !hasRow)) this.#components.status.remove(id)
      else if (!hasRow)
        this.#unfollowedRows.rest(id, this.#isFileDeleted ? 'configuration_gone' : 'configuration_unread')
      this.#removed.settle()
    }
    this.#queue.othersChanged()
    if (stop.signal.aborted) this.update() // the configuration may have it again
  }

  /** A source that is refused wants what it has made of its last good commit. If it has made nothing, others wait. */
  async #claimLastGood(source: object, block: SourceBlock, signal: AbortSignal): Promise<void> {
    const lane = this.#rounds.ownLane
    const components = { lane, namespace: this.#namespace, agentId: this.#agentId }
    const project = block.id ?? this.#components.configuration.current.projectPath
    const { name } = block
    try {
      const of = { project, ...(name !== undefined && { name }), id: this.#registry.get(source)?.id }
      const found = await lastGoodOf(components, of, signal)
      if (!found || signal.aborted || !this.#registry.get(source)) return
      if (this.#registry.isBeside(source, found.id)) return // another source may go by that id
      this.#registry.set(source, { ...this.#registry.get(source), block, id: found.id })
      this.#registry.claims(source).claim({ commit: '', keys: found.keys, isLastGood: true })
    } catch (error) {
      if (!signal.aborted) this.#components.log.warn({ error }, 'What a source wants that is refused cannot be read')
    }
  }

  #roundOf(options: SourceOptions, source: object) {
    return roundComponents(this.#rounds, { namespace: this.#namespace, agentId: this.#agentId }, options, source)
  }

  #removedSources(): RemovedSources {
    const { log, syncs, status } = this.#components
    const of = { namespace: this.#namespace, agentId: this.#agentId }
    const forget = (source: SourceOptions) => (ending: AbortSignal) => syncs.remove(source.id, ending)
    const onUnreadable = (name: string, error: unknown) =>
      log.error({ name, error }, 'What a source has left behind cannot be read')
    return new RemovedSources({
      ...this.#components,
      people: this.#people,
      stored: (signal) => storedSources(this.#rounds.ownLane, of, onUnreadable, signal),
      hasLeft: ({ id }) => this.#hasLeft(id),
      onRemoved: ({ id }) => status.remove(id),
      report: (source, report) => void status.report(source, report),
      reconcile: (input, source, signal) =>
        reconcileRemoval({ ...this.#roundOf(source, input), forget: forget(source) }, input, source, signal),
      forget: (source, signal) => forgetSource({ ...this.#roundOf(source, source), forget: forget(source) }, signal),
    })
  }

  /** What people ask of sources: their objects are there from the first source on. */
  get #people() {
    const { syncs } = this.#components
    return {
      directives: (id: string, signal: AbortSignal) => {
        this.#began.resolve()
        return syncs.directives(id, signal)
      },
      useApproval: syncs.useApproval.bind(syncs),
      onDirectives: syncs.onDirectives.bind(syncs),
    }
  }

  get #isFileDeleted(): boolean {
    return this.#components.block() === undefined
  }

  #workOf(source: object): SourceWork | undefined {
    return [...this.#running.values()].find(({ stop }) => stop === source)?.work
  }

  /** A configuration that was read whole has it no longer, also not in other words. */
  #hasLeft(id: string): boolean {
    return this.#isWhole && !this.#registry.has(id)
  }

  #failed(error: unknown): void {
    if (this.#term.signal.aborted) return
    this.#components.log.error({ reason: errorText(error) }, 'A source of GitOps is not followed')
  }
}
