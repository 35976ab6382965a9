import { monotonicClock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { podShares } from '../../../lib/pod-shares.ts'
import { RateLimit } from '../../../lib/rate-limit.ts'
import { TemporaryFolder } from '../../../lib/temporary-folder.ts'
import { BackgroundRequests } from '../../cluster/background-requests.ts'
import type { Term } from '../../election/terms.ts'
import type { WrittenRules } from '../../health/custom/written-rules.ts'
import type { AgentkHost } from '../../module.ts'
import type { Serve } from '../../tunnels/serve.ts'
import { ManifestsThread } from './build/manifests-thread.ts'
import { RoundsFirst } from './build/rounds-first.ts'
import { DriftWatches } from './drift/drift-watches.ts'
import { ExplainTurns } from './drift/explain-turns.ts'
import { scanRate } from './drift/source-scan.ts'
import { KeptFiles, SharedBytes } from './files/kept-files.ts'
import { healthRules } from './health/health-rules.ts'
import { JudgeTurns } from './health/judge-turns.ts'
import { RelatedNamespaces } from './health/related-namespaces.ts'
import { maxExplainedChars, maxNamespaceChars } from './health/slim-object.ts'
import { openWatches } from './live/object-waits.ts'
import { SharedKinds } from './live/shared-kinds.ts'
import { maxPreviews, type PreviewMethodComponents, previewMethod } from './preview/preview-method.ts'
import { podMemory } from './render/pod-memory.ts'
import { commitTurns, Renderer } from './render/renderer.ts'
import { Sources, type SourcesComponents } from './sources/sources.ts'
import { GitSyncs } from './state/git-syncs.ts'
import { ObjectRights } from './state/object-rights.ts'
import { questionMethods } from './state/questions.ts'
import { SourceEvents } from './state/source-events.ts'
import { StatePush } from './state/state-push.ts'
import { StatusSink } from './state/status-sink.ts'

type OfHost = 'kas' | 'configuration' | 'block' | 'metrics' | 'tracer' | 'log' | 'clock' | 'random'

export interface GitopsComponents
  extends Pick<SourcesComponents, OfHost>,
    Pick<AgentkHost, 'api' | 'identities' | 'serverClock'> {
  /** @returns function that removes the listener */
  readonly onBlock: (listener: () => void) => () => void
  /** users' rules of health */
  readonly written: WrittenRules
  /** Serves these methods to kas from now on, and no others. */
  readonly serve: (methods: ReadonlyMap<string, Serve>) => void
}

export interface GitopsOptions {
  /** namespace of agentk */
  readonly namespace: string
  /** folders of the rendering programs, in the format of PATH */
  readonly path: string
}

/** Keeps the cluster in the state of Git until the term ends. Composes the parts of one term. */
export async function leadGitops(components: GitopsComponents, options: GitopsOptions, term: Term): Promise<void> {
  const folder = new TemporaryFolder({ log: components.log }, { program: 'agentk' })
  const { sources, methods } = createSources(components, { ...options, folder: folder.path }, term)
  const unsubscribe = components.onBlock(() => sources.update())
  components.serve(methods)
  try {
    // plain manifests need no folder; a rendering without it fails and reports that
    await folder.start().catch((error) => components.log.warn({ error }, 'There is no temporary folder to render in'))
    sources.update()
    await sources.run()
  } finally {
    components.serve(new Map())
    unsubscribe()
    await folder.stop()
  }
}

function createSources(
  components: GitopsComponents,
  { namespace, path, folder }: GitopsOptions & { readonly folder: string },
  term: Term,
): { readonly sources: Sources; readonly methods: ReadonlyMap<string, Serve> } {
  const { api, identities, kas, configuration, block, written, metrics, tracer, log } = components
  const { clock, serverClock, random } = components
  const { holds, signal } = term
  const lanes = new BackgroundRequests({ client: api, clock, holds, onCall: metrics.apiCall })
  const ownLane = lanes.lane('control')
  const kinds = new SharedKinds({ lane: ownLane, clock, signal })

  const memory = podMemory(podShares().restBytes)
  const work = new RoundsFirst(commitTurns(memory.turns))
  const threadOptions = { memoryLimitMb: memory.threadMb }
  const manifests = new ManifestsThread({ clock, turns: work.rounds, log }, threadOptions)
  const previewManifests = new ManifestsThread({ clock, turns: work.parts, log }, threadOptions)
  const onNetworkKept = (reason: string) =>
    log.warn({ reason }, 'Programs that render keep the network: no namespace can be made for them')
  const rendering = { path, folder, onNetworkKept }
  const renderer = new Renderer(rendering, { jobs: manifests, turns: work.rounds, clock })
  const previewRenderer = new Renderer(rendering, { jobs: previewManifests, turns: work.parts, clock })
  const objects = new SharedBytes(memory.objectBytes, () => sources.size)
  const files = new KeptFiles(memory.fileBytes, () => sources.size)

  const events = new SourceEvents({ log, clock: serverClock, lane: lanes.lane('scan') })
  const syncing = { lane: ownLane, client: api, kinds, events, log, clock, random }
  const syncs = new GitSyncs(syncing, { namespace, agentId: configuration.current.agentId })
  const push = new StatePush({ kas, holds, log, clock, random })
  const status = new StatusSink(serverClock, syncs, [syncs, push, metrics])
  syncs.onMade = (id) => status.guided(id)

  const healthRoom = new Counter<string>({ max: maxExplainedChars, maxOfKey: maxNamespaceChars })
  const rounds = {
    api,
    identities,
    lanes,
    ownLane,
    kinds,
    watches: openWatches(),
    renderer,
    manifests,
    objects,
    previews: { work, renderer: previewRenderer, manifests: previewManifests, maxBytes: memory.previewBytes },
    drift: {
      watches: new DriftWatches({ clock, random }),
      turns: new ExplainTurns(clock),
      pace: new RateLimit(clock, scanRate),
      kinds,
      room: new SharedBytes(memory.manifestBytes, () => sources.size),
      clock: serverClock,
      random,
      log,
    },
    health: {
      namespaces: new RelatedNamespaces({ room: healthRoom, clock: serverClock, random }),
      room: healthRoom,
      turns: new JudgeTurns({ clock, pace: monotonicClock, log }),
      rules: healthRules({ written, pace: monotonicClock, log }),
      kinds,
      clock: serverClock,
      log,
    },
    clock: serverClock,
    random,
  }
  const shown = { syncs, push, status }
  const host = { kas, configuration, block, metrics, tracer, log, clock, random }
  const sources: Sources = new Sources(
    { ...host, rounds, threads: [manifests, previewManifests], files, ...shown },
    { namespace },
    term,
  )
  const rights = new ObjectRights({ lane: lanes.lane('preview'), kinds, identities, clock, signal })
  const previews = new SharedBytes(memory.previewBytes, () => maxPreviews)
  const sourceOf: PreviewMethodComponents['sourceOf'] = (id, of) => sources.previewOf(id, of)
  const preview = previewMethod({ sourceOf, rights, room: previews, clock: serverClock, signal })
  const questions = questionMethods({ driftOf: (id) => sources.driftOf(id), rights, clock: serverClock })
  return { sources, methods: new Map([...questions, preview]) }
}
