import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import { mainOf } from '../../support/programs.ts'
import type { Findings, Stage } from '../scene.ts'
import { mergePatch } from './merge-patch.ts'
import { createNamespace } from './namespace.ts'
import type { ViewsGround } from './views-ground.ts'

const replicas = 2
/** rollouts at once, each in a namespace of its own */
const lanes = 6
/**
 * Longer than a verdict has to hold, and longer than a process takes to start beside others, so that an early verdict
 * shows. s
 */
const minReadySeconds = 20
/** limit of each step in the cluster, on a busy machine. ms */
const stepMs = 120_000
const againMs = 250

/** A change, and the expected answer of `kas health`. */
interface Rollout {
  readonly name: string
  readonly spec: object
  readonly podSpec: object
  readonly wait: string
  readonly code: number
}

const noSuchNode = { nodeSelector: { no: 'such-node' } }
const rollouts: readonly Rollout[] = [
  { name: 'succeeds', spec: { progressDeadlineSeconds: 600 }, podSpec: {}, wait: '120s', code: 0 },
  {
    name: 'fails',
    spec: { minReadySeconds: 0, progressDeadlineSeconds: 2 },
    podSpec: noSuchNode,
    wait: '120s',
    code: 4,
  },
  { name: 'hangs', spec: { progressDeadlineSeconds: 600 }, podSpec: noSuchNode, wait: '20s', code: 3 },
]

interface Ended {
  readonly rollout: Rollout
  readonly code: number
  /** the cluster had completed the rollout when kas answered */
  readonly isDone: boolean
  readonly ms: number
  readonly said: string
}

/**
 * Starts `kas health --wait` right after a change of a healthy workload: it must not be healthy before the rollout is
 * complete.
 */
export async function healthOfRollouts(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { runs }: { runs: number },
): Promise<Findings> {
  const kubeconfig = await ground.kubeconfig()
  const wanted = Array.from({ length: runs }, (_, i) => rollouts[i % rollouts.length] as Rollout)
  const ended: Ended[] = []
  const failures: string[] = []
  const lane = async (namespace: string) => {
    await createNamespace(ground.admin, namespace, limitOf(signal))
    for (let number = 1; wanted.length > 0; number++) {
      signal.throwIfAborted()
      const rollout = wanted.shift() as Rollout
      const one = await play(ground.admin, { kubeconfig, namespace, number, rollout }, signal)
      ended.push(one)
      const failure = failureOf(one)
      const line = `${namespace} ${number}: ${rollout.name}: ${one.code} after ${(one.ms / 1000).toFixed(1)} s`
      say(failure ? `${line}: ${failure}` : line)
      if (failure) failures.push(`${line}: ${failure}: ${one.said}`)
    }
  }
  await Promise.all(Array.from({ length: lanes }, (_, i) => lane(`rollouts-${i}`)))
  const results = rollouts.map(({ name, code }) => {
    const own = ended.filter(({ rollout }) => rollout.name === name)
    const slowest = Math.round(Math.max(0, ...own.map(({ ms }) => ms)) / 100) / 10
    return { name, runs: own.length, code, right: own.filter((one) => one.code === code).length, slowest }
  })
  const counts = results.map(
    ({ name, runs, code, right, slowest }) => `${runs} that ${name}: ${right} exit ${code}, at most ${slowest} s`,
  )
  const early = ended.filter(({ code, isDone }) => code === 0 && !isDone).length
  const figure = `rollouts: ${counts.join('; ')}; too early healthy: ${early}`
  return { figures: [figure], failures, data: { rollouts: { results, early } } }
}

function failureOf({ rollout, code, isDone }: Ended): string | undefined {
  if (code === 0 && !isDone) return 'healthy too early'
  return code === rollout.code ? undefined : `exit ${rollout.code} is right`
}

const limitOf = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(stepMs)])

interface Run {
  readonly kubeconfig: string
  readonly namespace: string
  readonly number: number
  readonly rollout: Rollout
}

async function play(admin: ApiClient, run: Run, signal: AbortSignal): Promise<Ended> {
  const { kubeconfig, namespace, number, rollout } = run
  const name = `app-${number}`
  const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`
  const path = `${deployments}/${name}`
  await admin.create(deployments, deployment(name))
  const isReady = (object: KubernetesObject) => object.metadata.name === name && isRolledOut(object)
  await admin.until(deployments, isReady, limitOf(signal))
  const labels = { version: String(number), changed: 'yes' }
  const template = { metadata: { labels }, spec: rollout.podSpec }
  await mergePatch(admin, path, { spec: { minReadySeconds, ...rollout.spec, template } })
  const began = performance.now()
  const { code, said } = await health(['-n', namespace, '--wait', rollout.wait], kubeconfig, signal)
  const ms = performance.now() - began
  const now = await admin.get(path, signal)
  await admin.request(`${path}?propagationPolicy=Foreground`, { method: 'DELETE' })
  await gone(admin, path, limitOf(signal))
  return { rollout, code, isDone: isRolledOut(now), ms, said }
}

async function gone(admin: ApiClient, path: string, signal: AbortSignal): Promise<void> {
  while ((await admin.request(path)).status !== 404) await delay(againMs, signal)
}

/** Completion as `kubectl rollout status` defines it. */
function isRolledOut({ metadata, spec, status }: KubernetesObject): boolean {
  const { observedGeneration = 0, replicas: all = 0, updatedReplicas = 0, availableReplicas = 0 } = status
  if (observedGeneration < metadata.generation) return false
  return updatedReplicas === spec.replicas && all === updatedReplicas && availableReplicas === updatedReplicas
}

function deployment(name: string) {
  const labels = { app: name }
  const containers = [{ name: 'main', image: 'none' }]
  return {
    metadata: { name },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  }
}

/** Runs `kas health` as a process of its own. */
async function health(
  args: readonly string[],
  kubeconfig: string,
  signal: AbortSignal,
): Promise<{ code: number; said: string }> {
  const env = { ...process.env, KUBECONFIG: kubeconfig }
  const child = spawn(process.execPath, [mainOf('kas'), 'health', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const end = () => child.kill('SIGTERM')
  signal.addEventListener('abort', end, { once: true })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  signal.removeEventListener('abort', end)
  signal.throwIfAborted()
  return { code: code ?? -1, said: `${stdout}${stderr}`.trim() }
}
