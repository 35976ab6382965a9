import type { Clock } from '../../../lib/clock.ts'
import { errorText, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { podShares } from '../../../lib/pod-shares.ts'
import { TemporaryFolder } from '../../../lib/temporary-folder.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import type { SourceBlock } from '../../../proto/gitops-json.ts'
import { type ApiLane, ApiLanes } from '../../cluster/api-lanes.ts'
import { accountHeaders } from '../../cluster/impersonation-headers.ts'
import type { Term } from '../../election/terms.ts'
import { textAt } from '../../health/object.ts'
import type { AgentkHost } from '../../module.ts'
import type { GitopsMetrics } from './gitops-metrics.ts'
import { Inventory, storedSources } from './inventory/inventory.ts'
import { KeptFiles } from './kept-files.ts'
import { ObjectWaits, WatchPlaces } from './live/object-waits.ts'
import { ManifestsThread } from './manifests/manifests-thread.ts'
import { inventoryLabel } from './manifests/marks.ts'
import { podMemory } from './pod-memory.ts'
import { runRemoval } from './removal.ts'
import { RemovedSources } from './removed-sources.ts'
import { commitTurns, Renderer } from './render/renderer.ts'
import { type RoundComponents, runRound } from './round.ts'
import { SharedBytes } from './shared-bytes.ts'
import { SharedKinds } from './shared-kinds.ts'
import { readBlock, type SourceOptions } from './source-options.ts'
import { SourceTable } from './source-table.ts'
import { SourceWork } from './source-work.ts'
import { GitSyncs } from './state/git-syncs.ts'
import { SourceEvents } from './state/source-events.ts'
import type { SourceStatus } from './state/source-status.ts'
import { StatePush } from './state/state-push.ts'

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
  readonly #control: ApiLane
  readonly #kinds: SharedKinds
  readonly #syncs: GitSyncs
  readonly #push: StatePush
  readonly #renderer: Renderer
  readonly #manifests: ManifestsThread
  readonly #objects: SharedBytes
  readonly #files: KeptFiles
  readonly #places = new WatchPlaces()
  readonly #agentId: bigint
  /** by what the configuration says of each */
  readonly #running = new Map<string, Running>()
  readonly #table = new SourceTable()
  /** in the table, and not followed: what they want is not known */
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
    this.#control = this.#lanes.lane('control')
    this.#kinds = new SharedKinds({ lane: this.#control, clock, signal: term.signal })
    this.#push = new StatePush({ ...components, holds: term.holds })
    const memory = podMemory(podShares().restBytes)
    const turns = commitTurns(memory.turns)
    this.#manifests = new ManifestsThread({ clock, turns }, { memoryLimitMb: memory.threadMb })
    const onNetworkKept = (reason: string) =>
      components.log.warn({ reason }, 'Programs that render keep the network: no namespace can be made for them')
    const rendering = { path: options.path, folder: options.folder, onNetworkKept }
    this.#renderer = new Renderer(rendering, { jobs: this.#manifests, turns, clock })
    this.#objects = new SharedBytes(memory.objectBytes, () => this.#running.size)
    this.#files = new KeptFiles(memory.fileBytes, () => this.#running.size)
    const events = new SourceEvents({ ...components, lane: this.#lanes.lane('scan') })
    const own = { lane: this.#control, client: api, kinds: this.#kinds, events }
    const { namespace } = options
    this.#syncs = new GitSyncs({ ...components, ...own }, { namespace, agentId: this.#agentId })
    const onUnreadable = (name: string, error: unknown) =>
      components.log.error({ name, error }, 'What a source has left behind cannot be read')
    this.#removed = new RemovedSources({
      ...components,
      stored: (signal) => storedSources(this.#control, { namespace, agentId: this.#agentId }, onUnreadable, signal),
      isGone: ({ id }) => this.#isGone(id),
      onGone: ({ id }) => {
        this.#push.removed(id)
        metrics.forget(id)
      },
      round: (input, source, signal) => {
        const forget = (ending: AbortSignal) => this.#syncs.remove(source.id, ending)
        return runRemoval({ ...this.#roundOf(source, input), forget }, input, source, signal)
      },
      ...this.#told,
    })
  }

  /** What people wish of sources, and what they are told. */
  get #told() {
    return {
      wishes: ({ id }: SourceOptions, signal: AbortSignal) => {
        this.#began.resolve()
        return this.#syncs.wishes(id, signal)
      },
      useApproval: ({ id }: SourceOptions, approved: string, signal: AbortSignal) =>
        this.#syncs.useApproval(id, approved, signal),
      onWish: (id: string, listener: () => void) => this.#syncs.onWish(id, listener),
      onStatus: (status: SourceStatus) => {
        this.#syncs.write(status)
        this.#push.changed(status)
        this.#components.metrics.state(status.state)
      },
    }
  }

  /** Starts what the configuration has, ends what it has no longer. Nothing is removed. */
  update(): void {
    const sources = this.#read()
    if (this.#term.signal.aborted) return
    const halted = this.#removed.halt()
    if (!sources) return
    const blocks = new Map(sources.map((source) => [JSON.stringify(source), source]))
    for (const source of this.#unfollowed) this.#table.delete(source)
    this.#unfollowed.clear()
    for (const [text, { stop }] of this.#running) {
      if (!blocks.has(text)) stop.abort(new KasError({ code: 'CANCELLED', detail: 'the configuration has changed' }))
    }
    for (const [text, source] of blocks) if (!this.#running.has(text)) this.#start(text, source, halted)
    if (blocks.size > 0) this.#began.resolve()
    this.#heard()
    this.#removed.look()
  }

  /** @returns undefined: it cannot be used, what runs goes on, and nothing is known to be gone */
  #read(): readonly SourceBlock[] | undefined {
    const { block, log } = this.#components
    this.#isWhole = false
    this.#table.isWhole = false
    try {
      const json = block()
      const { sources, problems } = readBlock(json ?? {})
      for (const reason of problems) log.error({ reason }, 'A source of GitOps cannot be used')
      this.#table.isWhole = problems.length === 0
      this.#isWhole = json !== undefined && problems.length === 0
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
  #start(text: string, block: SourceBlock, halted: Promise<void>): void {
    const { configuration, kas, metrics, tracer, log, clock, random } = this.#components
    const stop = new AbortController()
    const signal = AbortSignal.any([stop.signal, this.#term.signal])
    const before = [...this.#running.values()].filter(({ stop: other }) => other.signal.aborted)
    const work: SourceWork = new SourceWork(
      {
        kas,
        files: this.#files,
        round: async (input, options, inRound) => {
          try {
            return await runRound(this.#roundOf(options, stop), input, options, inRound)
          } finally {
            this.#objects.release(stop)
          }
        },
        ...this.#told,
        claim: (id) => {
          this.#table.claim(stop, id)
          this.#removed.look()
        },
        onWants: (wants) => {
          if (this.#table.wants(stop, wants)) this.#heard(work)
        },
        metrics,
        tracer,
        log,
        clock,
        random,
      },
      { block, agentId: this.#agentId, ownProject: configuration.current.projectPath },
    )
    const done = Promise.all([halted, ...before.map((one) => one.done)])
      .then(() => (signal.aborted ? undefined : work.run(signal)))
      .catch((error: unknown) => {
        this.#unfollowed.add(stop)
        this.#failed(error)
      })
      .finally(() => {
        this.#running.delete(text)
        const id = this.#table.get(stop)?.id
        if (this.#unfollowed.has(stop)) this.#table.set(stop, { block })
        else this.#table.delete(stop)
        if (id !== undefined) {
          metrics.forget(id)
          if (stop.signal.aborted && !this.#term.signal.aborted && this.#isGone(id)) this.#push.removed(id)
        }
        this.#heard()
        if (stop.signal.aborted) this.update() // the configuration may have it again
      })
    this.#table.set(stop, { block })
    this.#running.set(text, { work, stop, done })
  }

  /** What is held may go, perhaps. @param by - has said something itself */
  #heard(by?: SourceWork): void {
    for (const { work } of this.#running.values()) if (work !== by) work.heard()
  }

  /** A configuration that was read whole has it no longer, also not in other words. */
  #isGone(id: string): boolean {
    return this.#isWhole && !this.#table.has(id)
  }

  #failed(error: unknown): void {
    if (this.#term.signal.aborted) return
    this.#components.log.error({ reason: errorText(error) }, 'A source of GitOps is not followed')
  }

  #roundOf(options: SourceOptions, source: object): RoundComponents {
    const { api, clock, random } = this.#components
    const { id, accessAs } = options
    const headers = accountHeaders(api.access.impersonation, accessAs?.serviceAccount)
    const lane = this.#lanes.lane('apply', headers)
    const send: typeof api.send = (request, handler) =>
      api.send({ ...request, headers: [...headers, ...request.headers] }, handler)
    const client = { json: lane.json, send }
    const { namespace } = this.#options
    const inventoryOf = (of: string) => new Inventory(this.#control, { namespace, agentId: this.#agentId, id: of })
    const others = this.#table.others(source)
    // a chart may leave out what needs a kind that is not known now
    let isInPart = false
    return {
      control: this.#control,
      lane,
      waits: new ObjectWaits({ client, clock, random, places: this.#places }, { selector: `${inventoryLabel}=${id}` }),
      kinds: this.#kinds,
      inventory: inventoryOf(id),
      inventoryOf: (of) => (this.#table.isBeside(source, of) ? undefined : inventoryOf(of)),
      render: async (files, { apiVersions, isWhole }, signal) => {
        isInPart = options.helm !== undefined && !isWhole
        const version = options.helm ? await this.#version(signal) : ''
        return this.#renderer.render(files, options, { version, apiVersions }, signal)
      },
      read: (job, signal) => {
        const limited = { ...job, maxBytes: this.#objects.maxBytes }
        return this.#manifests.read(options.project, limited, signal, (bytes) => this.#objects.set(source, bytes))
      },
      others: {
        ...others,
        mayWant: (key, commit) =>
          isInPart ? 'the chart may want it, of kinds that are not known now' : others.mayWant(key, commit),
      },
      clock,
    }
  }

  /** Of the API server: `v1.35.4`. */
  async #version(signal: AbortSignal): Promise<string> {
    const { status, body } = await this.#control.json('GET', '/version', undefined, signal)
    const version = textAt(body, 'gitVersion')
    if (status === 200 && version !== '') return version
    throw new KasError({ code: 'UNREACHABLE', detail: `the API server answered ${status} for /version` })
  }
}
