/** `npm run soak -- SCENE [OPTIONS]`: the real kas and agentk under load that lasts, or that comes at once. */

import { parseArgs } from 'node:util'
import { missingAssets } from '../control-plane/assets.ts'
import { ControlPlane } from '../control-plane/control-plane.ts'
import { burst } from './burst.ts'
import { crowd } from './crowd.ts'
import { EndlessCluster } from './endless-cluster.ts'
import { Ground, type Scheme } from './ground.ts'
import { readers } from './readers.ts'
import type { Findings } from './scene.ts'
import { watch } from './watch.ts'

const usage = `npm run soak -- SCENE [OPTIONS]

  watch    a watch on which nothing happens still delivers      --minutes 6
  crowd    many watches and execs at once                       --watches 200 --execs 50
  burst    many calls at once against the idle tunnels          --calls 500
  readers  readers that stop reading an endless log             --readers 100 --pairs 10 --calls 300

  --scheme wss|grpcs  how agentk reaches kas; default wss

watch, crowd and burst need the programs of KUBEBUILDER_ASSETS; readers has an API double with an endless log.
Figures, then one line: ok, or what failed. Exit status 0 or 1.
`

/** upstream's least number of idle tunnels, and ours */
const leastIdleTunnels = 2

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    minutes: { type: 'string', default: '6' },
    watches: { type: 'string', default: '200' },
    execs: { type: 'string', default: '50' },
    calls: { type: 'string' },
    readers: { type: 'string', default: '100' },
    pairs: { type: 'string', default: '10' },
    scheme: { type: 'string', default: 'wss' },
    help: { type: 'boolean', default: false },
  },
})

type Scene = (ground: Ground, signal: AbortSignal) => Promise<Findings>

const stageOf = (ground: Ground, signal: AbortSignal) => ({ kube: ground.kube, say, signal })

const clusterScenes: Readonly<Record<string, Scene>> = {
  watch: (ground, signal) => watch(stageOf(ground, signal), { minutes: number('minutes') }),
  crowd: (ground, signal) => crowd(stageOf(ground, signal), { watches: number('watches'), execs: number('execs') }),
  burst: (ground, signal) => {
    const idleTunnels = () => ground.idleTunnels()
    return burst(stageOf(ground, signal), { calls: number('calls', 500), idleTunnels, wantedIdle: leastIdleTunnels })
  },
}

async function run(scene: string, signal: AbortSignal): Promise<Findings> {
  const onCluster = clusterScenes[scene]
  if (!onCluster) return runReaders(signal)
  const assets = process.env.KUBEBUILDER_ASSETS ?? ''
  const parts = scene === 'burst' ? 'api' : 'all'
  const missing = missingAssets(assets, parts)
  if (missing.length > 0) throw new Error(`needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)
  const controlPlane = new ControlPlane({ assets, parts })
  say('a control plane starts')
  await controlPlane.start()
  try {
    return await onGround(controlPlane.kubeconfig, signal, (ground) => onCluster(ground, signal))
  } finally {
    await controlPlane.stop()
  }
}

async function runReaders(signal: AbortSignal): Promise<Findings> {
  say('the log comes from an API double: HTTPS, one body without end for each reader')
  const cluster = await EndlessCluster.start()
  const options = { readers: number('readers'), pairs: number('pairs'), calls: number('calls', 300) }
  try {
    return await onGround(cluster.kubeconfig, signal, (ground) =>
      readers(stageOf(ground, signal), { ground, cluster }, options),
    )
  } finally {
    await cluster.stop()
  }
}

async function onGround(
  kubeconfig: string,
  signal: AbortSignal,
  scene: (ground: Ground) => Promise<Findings>,
): Promise<Findings> {
  const scheme = values.scheme as Scheme
  say(`kas and agentk start (${scheme})`)
  const ground = await Ground.start({ kubeconfig, scheme }, signal)
  try {
    return await scene(ground)
  } finally {
    await ground.stop()
  }
}

function number(name: 'minutes' | 'watches' | 'execs' | 'calls' | 'readers' | 'pairs', otherwise?: number): number {
  const given = values[name]
  const value = given === undefined && otherwise !== undefined ? otherwise : Number(given)
  if (!(value > 0)) throw new Error(`--${name}: a number above 0`)
  return value
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

async function main(): Promise<number> {
  const [scene = ''] = positionals
  if (values.help || !(scene in clusterScenes || scene === 'readers') || !['wss', 'grpcs'].includes(values.scheme)) {
    process.stdout.write(usage)
    return values.help ? 0 : 1
  }
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)))
  }
  let findings: Findings
  try {
    findings = await run(scene, interrupted.signal)
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    findings = { figures: [], failures: [`${error instanceof Error ? error.message : String(error)}${cause}`] }
  }
  for (const figure of findings.figures) say(figure)
  say(findings.failures.length === 0 ? `${scene}: ok` : `${scene}: FAILED: ${findings.failures.join('; ')}`)
  return findings.failures.length === 0 ? 0 : 1
}

process.exitCode = await main()
