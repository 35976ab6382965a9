import { request } from 'node:https'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import { type KubeOptions, trustOf } from '../kube.ts'
import type { End } from '../rolling/ends.ts'
import type { FailedCall } from '../rolling/paced-calls.ts'
import { RollingLoad } from '../rolling/rolling-load.ts'
import { adminOf, type ChartsStage, seconds, workplace } from './stage.ts'

/** time for watches and execs to begin. ms */
const openMs = 60_000
const calmMs = 5000
/**
 * limit after which all know of the loss: agentk leaves a silent replica within 10 s, kas a silent agentk within 5. ms
 */
const knownMs = 10_000
/** delay until an end is noticed, on a busy machine. ms */
const noticeMs = 5000
/** duration of the observation, from the loss of the node. ms */
const watchedMs = 45_000
/** limit until tunnels are at two replicas again. ms */
const againMs = 40_000
/** interval of new connections to the Service. ms */
const knockEveryMs = 500
const knockTimeoutMs = 2000
/** limit until Kubernetes knows: 20 s until the node is not ready, and then the Services. ms */
const serviceMs = 40_000

/**
 * Cuts off and kills a node, with a replica and, if possible, a pod of agentk. Calls enter at the other replicas: only
 * calls that had begun at the node may fail.
 */
export async function deadNode(stage: ChartsStage): Promise<void> {
  const { t, ground, options, tunnels } = stage
  const { pods, node } = await doomed(stage)
  t.comment(`node-${node} is going to be lost, with ${pods.map(({ metadata }) => metadata.name).join(', ')}`)
  const replicas = await podsOf(stage, 'kas')
  const living = replicas.filter(({ spec }) => spec.nodeName !== `node-${node}`)
  const holders = await tunnels.holders()
  t.comment(`tunnels are at ${holders.join(', ')}`)
  const loads = await Promise.all(
    living.map(async ({ status }, i) => {
      const part = (whole: number) => Math.floor((whole + i) / living.length)
      const access = await ground.access(status.podIP)
      const namespace = `${workplace.namespace}-${i}`
      const { calls, watches, execs } = options
      const sizes = { calls: part(calls), watches: part(watches), execs: part(execs) }
      const ticksBy = await adminOf(ground.cluster, namespace)
      return new RollingLoad({ access, ...sizes, namespace, pod: workplace, ticksBy })
    }),
  )
  await Promise.all(loads.map((load) => load.start(AbortSignal.timeout(openMs))))
  await delay(calmMs)
  tunnels.take()
  const knocks = knock(await ground.access())
  const lostAt = performance.now()
  await ground.cluster.killNode(node)
  await delay(watchedMs)
  const knocked = await knocks()
  const { lacking } = tunnels.take(pods.map(({ metadata }) => metadata.name))
  const silent = loads.map((load) => load.silentSince(lostAt + knownMs))
  await Promise.all(loads.map((load) => load.stop()))

  const calls = loads.flatMap((load) => load.failedCalls)
  const since = (at: number) => seconds(at - lostAt)
  for (const { begunAt, told } of calls) t.comment(`${since(begunAt)} after the loss: ${told}`)
  for (const figure of loads.flatMap((load) => load.callFigures())) t.comment(figure)
  const execEnds = loads.flatMap((load) => load.execEnds)
  t.comment(
    `${execEnds.length} of ${options.execs} execs ended: ${execEnds.map(({ at }) => since(at)).join(', ')} after it`,
  )
  t.comment(
    `tunnels at fewer than two replicas at ${lacking.map(({ at }) => since(at)).join(', ') || 'no time'} after it`,
  )
  const refused = knocked.filter(({ isGood }) => !isGood)
  const lastRefused = refused.length === 0 ? '' : `, the last one ${since(refused.at(-1)?.at ?? 0)} after it`
  t.comment(`by the Service: ${refused.length} of ${knocked.length} new connections came to nobody${lastRefused}`)

  t.strictSame(
    calls.filter((call) => !hadBegun(call, lostAt)),
    [],
    'only calls that had begun there fail',
  )
  t.strictSame(
    loads.flatMap((load) => load.watchFailures),
    [],
    'each watch saw all',
  )
  t.strictSame(
    loads.flatMap((load) => load.watchEnds),
    [],
    'no watch ends',
  )
  const isLate = ({ at }: End) => at < lostAt || at > lostAt + knownMs + noticeMs
  t.strictSame(execEnds.filter(isLate), [], 'execs end that had a way by it, and no others')
  t.strictSame(
    silent,
    loads.map(() => 0),
    'execs go on, or begin again',
  )
  t.ok(
    lacking.every(({ at }) => at - lostAt < againMs),
    'tunnels are at two replicas again',
  )
  t.ok((refused.at(-1)?.at ?? 0) < lostAt + serviceMs, 'the Service leaves it out')
}

/**
 * Returns true if the call cannot be repeated, and may have come to the cluster through the node before its loss was
 * known (doc/internals/routing.md).
 */
function hadBegun({ kind, begunAt, told }: FailedCall, lostAt: number): boolean {
  return kind !== 'GET' && begunAt < lostAt + knownMs && told.includes('Kas-Delivery: maybe')
}

/** Pods that stay; older ones of agentk may still be leaving. */
async function podsOf({ ground }: ChartsStage, namespace: string): Promise<KubernetesObject[]> {
  const { items } = await ground.cluster.admin.get(`/api/v1/namespaces/${namespace}/pods`)
  return (items as KubernetesObject[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
}

/** Chooses the node whose loss costs most, among those without the callers' pod. */
async function doomed(stage: ChartsStage): Promise<{ node: number; pods: KubernetesObject[] }> {
  const all = [...(await podsOf(stage, 'kas')), ...(await podsOf(stage, 'agentk'))]
  const holders = await stage.tunnels.holders()
  const worth = (pods: readonly KubernetesObject[]) =>
    pods.length + pods.filter(({ metadata }) => holders.includes(metadata.name)).length
  const candidates = [2, 3].map((node) => ({ node, pods: all.filter(({ spec }) => spec.nodeName === `node-${node}`) }))
  const [worst] = candidates.sort((a, b) => worth(b.pods) - worth(a.pods))
  if (worst === undefined || worst.pods.length === 0) throw new Error('nothing is installed on nodes that may be lost')
  const agents = all.filter(({ metadata }) => metadata.namespace === 'agentk')
  if (agents.every((pod) => worst.pods.includes(pod))) throw new Error('all pods of agentk are on one node')
  return worst
}

interface Knock {
  readonly at: number
  readonly isGood: boolean
}

/** Calls the Service, each time on a new connection. @returns ends it */
function knock(access: KubeOptions): () => Promise<Knock[]> {
  const knocks: Promise<Knock>[] = []
  const one = () => {
    const at = performance.now()
    const headers = { authorization: `Bearer ${access.credential}` }
    const options = { ...trustOf(access), headers, agent: false, signal: AbortSignal.timeout(knockTimeoutMs) }
    const { promise, resolve } = Promise.withResolvers<Knock>()
    const asked = request(new URL('/version', access.server), options, (answer) => {
      answer.resume()
      resolve({ at, isGood: answer.statusCode === 200 })
    })
    asked.on('error', () => resolve({ at, isGood: false }))
    asked.end()
    knocks.push(promise)
  }
  const timer = setInterval(one, knockEveryMs)
  return () => {
    clearInterval(timer)
    return Promise.all(knocks)
  }
}
