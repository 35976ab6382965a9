/** `npm run soak -- SCENE [OPTIONS]`: the real kas and agentk under load that is long or sudden. */

import { missingAssets, type Parts } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { burst } from './burst.ts'
import { crowd } from './crowd.ts'
import { EndlessCluster } from './endless-cluster.ts'
import { exactlyOnce } from './exactly-once/exactly-once.ts'
import { gitopsScene } from './gitops/gitops.ts'
import { Ground } from './ground.ts'
import { readers } from './readers.ts'
import { leavingStreams } from './rolling/leaving-streams.ts'
import { RollingGround, twoPods } from './rolling/rolling-ground.ts'
import { rolling } from './rolling.ts'
import type { Findings } from './scene.ts'
import {
  attackNames,
  gitopsParts,
  memoryParts,
  rollingParts,
  type SceneName,
  type Scheme,
  type SoakOptions,
  sceneDefaults,
  schemes,
  soakOptions,
  viewsParts,
} from './soak-options.ts'
import { tapProgram } from './tap-program.ts'
import { viewsScene } from './views/views.ts'
import { watch } from './watch.ts'
import { watchesScene } from './watches/watches.ts'

const defaultsOf = (scene: SceneName) =>
  Object.entries(sceneDefaults[scene])
    .map(([name, value]) => `--${name} ${value}`)
    .join(' ')

const usage = `npm run soak -- SCENE [OPTIONS]

  watch         a watch on which nothing happens still delivers      ${defaultsOf('watch')}
  crowd         many watches and execs at once                       ${defaultsOf('crowd')}
  burst         many calls at once against the idle tunnels          ${defaultsOf('burst')}
  readers       readers that stop reading an endless log             ${defaultsOf('readers')}
  exactly-once  kubectl through replicas that are killed and frozen  ${defaultsOf('exactly-once')}
  watches       watches go on, whatever happens to what carries them ${defaultsOf('watches')}
  rolling       three replicas are restarted under load              ${defaultsOf('rolling')}
  namespaces    replicas with addresses of their own, whose discovery fails in each way
  placement     agents behind nginx and haproxy; one replica restarts  ${defaultsOf('placement')}
  fronts        idle watches and execs through nginx and haproxy     ${defaultsOf('fronts')}
  cutting-front a front that cuts what is idle, and what is old      ${defaultsOf('cutting-front')}
  withdrawn     how long who may no longer still gets something      five minutes
  ended         who may no longer loses what kubectl runs, and reads why  ${defaultsOf('ended')}
  hostile       one evil tenant beside good ones, attack by attack   ${defaultsOf('hostile')}
  memory        replicas in cgroups of a pod's size, with more agents and callers than fit  ${defaultsOf('memory')}; needs root
  views         views under faults; rights, records, kas health      ${defaultsOf('views')}
  unlisted      kinds that the API server cannot list hold up no other
  rollouts      20 rollouts that go well and 10 that do not, on real nodes; needs KUBETEST_NODES
  clients       kubectl and client libraries at a real kubelet, as past kas; needs KUBETEST_NODES
  charts        installed by helm on real nodes, upgraded, drained, a node lost  ${defaultsOf('charts')}; needs KUBETEST_NODES, helm
  renderings    published charts and overlays, rendered as the programs alone do it; needs Go and KAS_RENDERERS
  gitops        commits that become the cluster, under faults        ${defaultsOf('gitops')}
  repositories  who asks 100 repositories of 300 agents, and how often; hooks

  --scheme ${schemes.join('|')}  how agentk reaches kas; default ${schemes[0]}; exactly-once and watches have wss alone, the last sixteen none
  --attack NAME         of hostile, that one alone: ${attackNames.join(', ')}
  --installed           hostile, of the programs as the images hold them
  --part NAME           of views, that one alone: ${viewsParts.join(', ')}; of gitops: ${gitopsParts.join(', ')};
                        of rolling: ${rollingParts.join(', ')}; of memory: ${memoryParts.join(', ')}

All but readers, placement, cutting-front, withdrawn, hostile, memory, rollouts, clients, charts, renderings and repositories need the programs of KUBEBUILDER_ASSETS; readers has a double with an
endless log; rolling takes a plain API double without them. Its calls begin each second, its grace is the shutdown grace in seconds; of its part
streams, which has a double in every case, all is given.
Figures, then one line: ok, or what failed; of views and gitops, then all of it as one JSON object. Exit status 0, 1 if the scene failed, 2 for a wrong option.
`

/** stock agentk's least number of idle tunnels, and ours */
const leastIdleTunnels = 2

/** rolling: longer than a balancer takes to notice that a replica leaves. ms */
const listenGraceMs = 5000
/** rolling, streams: as deployed; no stream may need it. ms */
const longGraceMs = 540_000
/** rolling, streams: kas' own default. ms */
const watchGraceMs = 60_000
/** rolling, streams: life of each exec. ms */
const execLivesMs = [15_000, 25_000, 35_000, 45_000, 55_000]
/** rolling: agents come back before the next replica leaves. ms */
const calmMs = 5000

type Playable = Exclude<SoakOptions, { help: true }>

/** scenes that are programs of their own */
const tapPrograms = [
  'namespaces',
  'placement',
  'fronts',
  'cutting-front',
  'withdrawn',
  'ended',
  'hostile',
  'memory',
  'unlisted',
  'rollouts',
  'clients',
  'charts',
  'renderings',
  'repositories',
] as const
type TapProgram = Extract<Playable, { scene: (typeof tapPrograms)[number] }>
const isTapProgram = (options: Playable): options is TapProgram => tapPrograms.some((scene) => scene === options.scene)

const stageOf = (ground: Ground, signal: AbortSignal) => ({ kube: ground.kube, say, signal })

function run(options: Playable, signal: AbortSignal): Promise<Findings> {
  if (options.scene === 'readers') return runReaders(options, signal)
  if (options.scene === 'rolling') return runRolling(options, signal)
  if (isTapProgram(options)) return tapProgram(options.scene, { say, signal }, options)
  if (options.scene === 'exactly-once') return exactlyOnce({ say, signal }, { assets: assetsWith('all') }, options)
  if (options.scene === 'watches') return watchesScene({ say, signal }, { assets: assetsWith('all') }, options)
  if (options.scene === 'gitops') return gitopsScene({ say, signal }, { assets: assetsWith('api') }, options)
  if (options.scene === 'views') return viewsScene({ say, signal }, { assets: assetsWith('all') }, options)
  return runOnCluster(options, signal)
}

/** @throws Error that names the missing programs */
function assetsWith(parts: Parts): string {
  const assets = process.env.KUBEBUILDER_ASSETS ?? ''
  const missing = missingAssets(assets, parts)
  if (missing.length > 0) throw new Error(`needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)
  return assets
}

async function runOnCluster(
  options: Exclude<
    Playable,
    TapProgram | { scene: 'readers' | 'rolling' | 'exactly-once' | 'watches' | 'views' | 'gitops' }
  >,
  signal: AbortSignal,
): Promise<Findings> {
  const parts = options.scene === 'burst' ? 'api' : 'all'
  const assets = assetsWith(parts)
  const controlPlane = new ControlPlane({ assets, parts })
  say('a control plane starts')
  try {
    await controlPlane.start()
    return await onGround({ kubeconfig: controlPlane.kubeconfig, scheme: options.scheme }, signal, (ground) => {
      const stage = stageOf(ground, signal)
      if (options.scene === 'watch') return watch(stage, options)
      if (options.scene === 'crowd') return crowd(stage, options)
      const idleTunnels = () => ground.idleTunnels()
      return burst(stage, { calls: options.calls, idleTunnels, wantedIdle: leastIdleTunnels })
    })
  } finally {
    await controlPlane.stop()
  }
}

async function runReaders(options: Extract<Playable, { scene: 'readers' }>, signal: AbortSignal): Promise<Findings> {
  say('the log comes from an API double: HTTPS, one body without end for each reader')
  const cluster = await EndlessCluster.start()
  try {
    const { scheme, milliseconds: roundTripMs } = options
    return await onGround({ kubeconfig: cluster.kubeconfig, scheme, roundTripMs }, signal, (ground) =>
      readers(stageOf(ground, signal), { ground, cluster }, options),
    )
  } finally {
    await cluster.stop()
  }
}

async function runRolling(options: Extract<Playable, { scene: 'rolling' }>, signal: AbortSignal): Promise<Findings> {
  const all: Findings[] = []
  for (const part of options.part ? [options.part] : rollingParts) {
    say(`${part}: a cluster, three replicas of kas behind a balancer and two pods of agentk start (${options.scheme})`)
    all.push(await (part === 'calls' ? rollingCalls(options, signal) : rollingStreams(options, signal)))
  }
  return { figures: all.flatMap(({ figures }) => figures), failures: all.flatMap(({ failures }) => failures) }
}

async function rollingCalls(options: Extract<Playable, { scene: 'rolling' }>, signal: AbortSignal): Promise<Findings> {
  const graces = { listenMs: listenGraceMs, shutdownMs: options.grace * 1000 }
  const ground = await RollingGround.start(
    {
      assets: process.env.KUBEBUILDER_ASSETS,
      graces: { listen: `${graces.listenMs}ms`, shutdown: `${graces.shutdownMs}ms` },
      startAgents: twoPods(options.scheme),
    },
    signal,
  )
  say(`the cluster is ${ground.cluster.description}`)
  try {
    return await rolling({ ground, say, signal }, { ...options, graces, calmMs })
  } finally {
    await ground.stop()
  }
}

async function rollingStreams({ scheme }: { scheme: Scheme }, signal: AbortSignal): Promise<Findings> {
  const graces = { listenMs: listenGraceMs, shutdownMs: longGraceMs, watchMs: watchGraceMs }
  const ground = await RollingGround.start(
    {
      assets: undefined,
      graces: { listen: `${graces.listenMs}ms`, shutdown: `${graces.shutdownMs}ms`, watch: `${graces.watchMs}ms` },
      startAgents: twoPods(scheme),
    },
    signal,
  )
  const assets = process.env.KUBEBUILDER_ASSETS
  try {
    return await leavingStreams(
      { ground, say, signal },
      { calls: 20, watches: 100, execLivesMs, graces, calmMs, assets },
    )
  } finally {
    await ground.stop()
  }
}

async function onGround(
  options: { kubeconfig: string; scheme: Scheme; roundTripMs?: number },
  signal: AbortSignal,
  scene: (ground: Ground) => Promise<Findings>,
): Promise<Findings> {
  say(`kas and agentk start (${options.scheme})`)
  const ground = await Ground.start(options, signal)
  try {
    return await scene(ground)
  } finally {
    await ground.stop()
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Parses the options before any start, so that an error in them shows at once. */
function chosen(): SoakOptions | undefined {
  try {
    return soakOptions(process.argv.slice(2))
  } catch (error) {
    process.stderr.write(`soak: ${(error as Error).message}\n\n${usage}`)
    return undefined
  }
}

async function main(): Promise<number> {
  const options = chosen()
  if (!options) return 2
  if ('help' in options) {
    process.stdout.write(usage)
    return 0
  }
  const { scene } = options
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)))
  }
  let findings: Findings
  try {
    findings = await run(options, interrupted.signal)
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    findings = { figures: [], failures: [`${error instanceof Error ? error.message : String(error)}${cause}`] }
  }
  for (const figure of findings.figures) say(figure)
  say(findings.failures.length === 0 ? `${scene}: ok` : `${scene}: FAILED: ${findings.failures.join('; ')}`)
  const { failures, data } = findings
  if (data) say(JSON.stringify({ scene, ok: failures.length === 0, ...data, failures }))
  return failures.length === 0 ? 0 : 1
}

process.exitCode = await main()
