import type { Clock } from '../../../lib/clock.ts'
import { errorText, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { podShares } from '../../../lib/pod-shares.ts'
import { TemporaryFolder } from '../../../lib/temporary-folder.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { type ApiLane, ApiLanes } from '../../cluster/api-lanes.ts'
import type { Term } from '../../election/terms.ts'
import type { AgentkHost } from '../../module.ts'
import type { GitopsMetrics } from './gitops-metrics.ts'
import { storedSources } from './inventory/inventory.ts'
import { KeptFiles, SharedBytes } from './kept-files.ts'
import { namespaceCame } from './live/missing-namespaces.ts'
import { openWatches } from './live/object-waits.ts'
import { ManifestsThread } from './manifests/manifests-thread.ts'
import { podMemory } from './pod-memory.ts'
import { forgetSource, reconcile, reconcileRemoval } from './reconcile.ts'
import { ReconcileQueue } from './reconcile-queue.ts'
import { RemovedSources } from './removed-sources.ts'
import { commitTurns, Renderer } from './render/renderer.ts'
import { type RoundsShared, roundBuild, roundComponents } from './round-components.ts'
import { SharedKinds } from './shared-kinds.ts'
import { type ReadSource, readBlock, type SourceOptions } from './source-options.ts'
import { SourceRegistry } from './source-registry.ts'
import { SourceWork } from './source-work.ts'
import { GitSyncs } from './state/git-syncs.ts'
import { SourceEvents } from './state/source-events.ts'
import { StatePush } from './state/state-push.ts'
import { StatusSink } from './state/status-sink.ts'
import { UnfollowedRows } from './state/unfollowed-rows.ts'

export interface GitopsComponents extends Pick<AgentkHost, 'api' | 'kas' | 'configuration'> {
  /** as kas sends it; undefined: there is none now, sources rest */
  readonly block: () => unknown
  /** @returns ends the listening */
  readonly onBlock: (listener: () => void) => () => void
  readonly metrics: GitopsMetrics
  readonly tracer: Tracer
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface GitopsOptions {
  /** of agentk */
  readonly namespace: string
  /** folders of programs that render, as PATH has them */
  readonly path: string
}

/** Holds the cluster to Git until the term ends: a SourceWork for each source of the configuration. */
export async function leadGitops(components: GitopsComponents, options: GitopsOptions, term: Term): Promise<void> {
  const folder = new TemporaryFolder({ log: components.log }, { program: 'agentk' })
  const sources = new Sources(components, { ...options, folder: folder.path }, term)
  const unsubscribe = components.onBlock(() => sources.update())
  try {
    // plain manifests need none; a rendering without it fails, and says so
    await folder.start().catch((error) => components.log.warn({ error }, 'There is no temporary folder to render in'))
    sources.update()
    await sources.run()
  } finally {
    unsubscribe()
    await folder.stop()
  }
}

interface Running {
  readonly work: SourceWork
  readonly stop: AbortController
  readonly done: Promise<void>
}

/** The sources of one term. */
class Sources {
  readonly #components: GitopsComponents
  readonly #options: GitopsOptions & { readonly folder: string }
  readonly #term: Term
  readonly #lanes: ApiLanes
  readonly #ownLane: ApiLane
  readonly #kinds: SharedKinds
  readonly #syncs: GitSyncs
  readonly #push: StatePush
  readonly #status: StatusSink
  readonly #manifests: ManifestsThread
  readonly #objects: SharedBytes
  readonly #files: KeptFiles
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

  constructor(components: GitopsComponents, options: GitopsOptions & { readonly folder: string }, term: Term) {
    const { api, clock, metrics, configuration } = components
    this.#components = components
    this.#options = options
    this.#term = term
    this.#agentId = configuration.current.agentId
    this.#lanes = new ApiLanes({ client: api, clock, holds: term.holds, onCall: metrics.apiCall })
    this.#ownLane = this.#lanes.lane('control')
    this.#kinds = new SharedKinds({ lane: this.#ownLane, clock, signal: term.signal })
    this.#queue = new ReconcileQueue(components)
    this.#registry = new SourceRegistry(this.#agentId, (source, contested) => {
      this.#queue.othersChanged(this.#workOf(source))
      for (const other of contested) {
        const work = this.#workOf(other)
        if (work) this.#queue.add(work) // its row names the other one
      }
    })
    const memory = podMemory(podShares().restBytes)
    const turns = commitTurns(memory.turns)
    this.#manifests = new ManifestsThread({ clock, turns }, { memoryLimitMb: memory.threadMb })
    const onNetworkKept = (reason: string) =>
      components.log.warn({ reason }, 'Programs that render keep the network: no namespace can be made for them')
    const rendering = { path: options.path, folder: options.folder, onNetworkKept }
    const renderer = new Renderer(rendering, { jobs: this.#manifests, turns, clock })
    this.#objects = new SharedBytes(memory.objectBytes, () => this.#running.size)
    this.#files = new KeptFiles(memory.fileBytes, () => this.#running.size)
    this.#rounds = {
      ...components,
      lanes: this.#lanes,
      ownLane: this.#ownLane,
      kinds: this.#kinds,
      registry: this.#registry,
      watches: openWatches(),
      renderer,
      manifests: this.#manifests,
      objects: this.#objects,
    }
    const events = new SourceEvents({ ...components, lane: this.#lanes.lane('scan') })
    const own = { lane: this.#ownLane, client: api, kinds: this.#kinds, events }
    const { namespace } = options
    this.#syncs = new GitSyncs({ ...components, ...own }, { namespace, agentId: this.#agentId })
    this.#push = new StatePush({ ...components, holds: term.holds })
    this.#status = new StatusSink(clock, this.#syncs, [this.#syncs, this.#push, metrics])
    this.#unfollowedRows = new UnfollowedRows(this.#status, {
      agentId: this.#agentId,
      ownProject: () => configuration.current.projectPath,
      projectId: (path) => this.#projects.get(path),
    })
    this.#syncs.onMade = (id) => this.#status.guided(id)
    this.#removed = this.#removedSources()
  }

  #roundOf(options: SourceOptions, source: object) {
    return roundComponents(this.#rounds, { ...this.#options, agentId: this.#agentId }, options, source)
  }

  #removedSources(): RemovedSources {
    const { log } = this.#components
    const { namespace } = this.#options
    const forget = (source: SourceOptions) => (ending: AbortSignal) => this.#syncs.remove(source.id, ending)
    const onUnreadable = (name: string, error: unknown) =>
      log.error({ name, error }, 'What a source has left behind cannot be read')
    return new RemovedSources({
      ...this.#components,
      people: this.#people,
      stored: (signal) => storedSources(this.#ownLane, { namespace, agentId: this.#agentId }, onUnreadable, signal),
      hasLeft: ({ id }) => this.#hasLeft(id),
      onRemoved: ({ id }) => this.#status.remove(id),
      report: (source, report) => void this.#status.report(source, report),
      reconcile: (input, source, signal) =>
        reconcileRemoval({ ...this.#roundOf(source, input), forget: forget(source) }, input, source, signal),
      forget: (source, signal) => forgetSource({ ...this.#roundOf(source, source), forget: forget(source) }, signal),
    })
  }

  /** What people ask of sources: their objects are there from the first source on. */
  get #people() {
    const syncs = this.#syncs
    return {
      directives: (id: string, signal: AbortSignal) => {
        this.#began.resolve()
        return syncs.directives(id, signal)
      },
      useApproval: syncs.useApproval.bind(syncs),
      onDirectives: syncs.onDirectives.bind(syncs),
    }
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
      this.#unfollowedRows.forgetRefused()
      for (const one of unreadable) {
        log.error({ reason: one.problem }, 'A source of GitOps cannot be used')
        this.#unfollowedRows.refuse({ id: one.project, name: one.name }, one.problem)
      }
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
    const ended = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    const syncing = Promise.race([this.#began.promise, ended]).then(() =>
      signal.aborted ? undefined : Promise.all([this.#syncs.run(signal), this.#push.run(signal)]),
    )
    await Promise.all([ended, this.#removed.run(signal), syncing.catch((error: unknown) => this.#failed(error))])
    for (const { stop } of this.#running.values()) stop.abort(signal.reason)
    await Promise.all([...this.#running.values()].map(({ done }) => done))
    await this.#manifests.stop()
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
        files: this.#files,
        queue: this.#queue,
        people: this.#people,
        status: this.#status,
        namespaceCame: (names, waiting) =>
          namespaceCame({ lane: this.#lanes.lane('scan'), clock: this.#components.clock }, names, waiting),
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
            this.#objects.release(stop)
          }
        },
        name: (id) => {
          this.#registry.name(stop, id)
          this.#projects.set(project, BigInt(id.split('-')[1] as string))
          this.#removed.check()
        },
      },
      { block, digest, agentId: this.#agentId, ownProject, projectId: this.#projects.get(project) },
    )
    const done = Promise.all([halted, ...before.map((one) => one.done)])
      .then(() => (signal.aborted ? undefined : work.run(signal)))
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
    if (this.#unfollowed.has(stop)) this.#registry.set(stop, { block })
    else this.#registry.delete(stop)
    this.#components.metrics.removed(id)
    const isInOtherWords = [...this.#running.values()].some(({ work }) => work.id === id)
    const hasLeft = !isInOtherWords && (isNamed ? this.#hasLeft(id) : true)
    if (stop.signal.aborted && !this.#term.signal.aborted) {
      const hasRow = isInOtherWords || this.#unfollowedRows.isRefused(id)
      // of a configuration that was read whole another source takes over what it has made
      if (hasLeft || (this.#isWhole && !hasRow)) this.#status.remove(id)
      else if (!hasRow)
        this.#unfollowedRows.rest(id, this.#isFileDeleted ? 'configuration_gone' : 'configuration_unread')
      this.#removed.settle()
    }
    this.#queue.othersChanged()
    if (stop.signal.aborted) this.update() // the configuration may have it again
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
