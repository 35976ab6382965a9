/** `npm run soak -- SCENE [OPTIONS]`: the real kas and agentk under load that lasts, or that comes at once. */

import { missingAssets } from '../control-plane/assets.ts'
import { ControlPlane } from '../control-plane/control-plane.ts'
import { burst } from './burst.ts'
import { crowd } from './crowd.ts'
import { EndlessCluster } from './endless-cluster.ts'
import { Ground } from './ground.ts'
import { readers } from './readers.ts'
import type { Findings } from './scene.ts'
import { type SceneName, type Scheme, type SoakOptions, sceneDefaults, schemes, soakOptions } from './soak-options.ts'
import { watch } from './watch.ts'

const defaultsOf = (scene: SceneName) =>
  Object.entries(sceneDefaults[scene])
    .map(([name, value]) => `--${name} ${value}`)
    .join(' ')

const usage = `npm run soak -- SCENE [OPTIONS]

  watch    a watch on which nothing happens still delivers      ${defaultsOf('watch')}
  crowd    many watches and execs at once                       ${defaultsOf('crowd')}
  burst    many calls at once against the idle tunnels          ${defaultsOf('burst')}
  readers  readers that stop reading an endless log             ${defaultsOf('readers')}

  --scheme ${schemes.join('|')}  how agentk reaches kas; default ${schemes[0]}

watch, crowd and burst need the programs of KUBEBUILDER_ASSETS; readers has an API double with an endless log.
Figures, then one line: ok, or what failed. Exit status 0, 1 if the scene failed, 2 for a wrong option.
`

/** upstream's least number of idle tunnels, and ours */
const leastIdleTunnels = 2

type Playable = Exclude<SoakOptions, { help: true }>

const stageOf = (ground: Ground, signal: AbortSignal) => ({ kube: ground.kube, say, signal })

function run(options: Playable, signal: AbortSignal): Promise<Findings> {
  if (options.scene === 'readers') return runReaders(options, signal)
  return runOnCluster(options, signal)
}

async function runOnCluster(options: Exclude<Playable, { scene: 'readers' }>, signal: AbortSignal): Promise<Findings> {
  const assets = process.env.KUBEBUILDER_ASSETS ?? ''
  const parts = options.scene === 'burst' ? 'api' : 'all'
  const missing = missingAssets(assets, parts)
  if (missing.length > 0) throw new Error(`needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)
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
    return await onGround({ kubeconfig: cluster.kubeconfig, scheme: options.scheme }, signal, (ground) =>
      readers(stageOf(ground, signal), { ground, cluster }, options),
    )
  } finally {
    await cluster.stop()
  }
}

async function onGround(
  options: { kubeconfig: string; scheme: Scheme },
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

/** Before anything starts: what is wrong with an option is known at once. */
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
  return findings.failures.length === 0 ? 0 : 1
}

process.exitCode = await main()
