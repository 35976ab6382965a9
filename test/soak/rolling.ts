import { readFile } from 'node:fs/promises'
import type { LocalReplica } from '../../dev/start/local-replica.ts'
import { abortable, delay } from '../../src/lib/signals.ts'
import { Kube } from './kube.ts'
import type { Leave } from './rolling/ends.ts'
import type { RollingGround } from './rolling/rolling-ground.ts'
import { RollingLoad } from './rolling/rolling-load.ts'
import type { Findings } from './scene.ts'
import { createNamespace, createPod } from './workplace.ts'

export interface RollingOptions {
  /** begun each second */
  readonly calls: number
  readonly watches: number
  readonly execs: number
  /** of the replicas, as their configuration has it */
  readonly graces: RollingGraces
  /** how many replicas are restarted; default: all */
  readonly restarts?: number
  /** before the first replica leaves, and between the return of one and the leaving of the next. ms */
  readonly calmMs: number
}

export interface RollingGraces {
  readonly listenMs: number
  readonly shutdownMs: number
}

export interface RollingStage {
  readonly ground: RollingGround
  readonly say: (text: string) => void
  readonly signal: AbortSignal
}

/** what kas takes beyond its graces (src/kas/config/stop-patience.ts), and a busy machine beyond that. ms */
const stopMarginMs = 15_000
const backMs = 60_000
/** for all watches and execs to begin. ms */
const openMs = 60_000
/** from one call straight to a replica that leaves to the next. ms */
const askEveryMs = 200

/** Replicas are restarted, one after the other, under calls, watches and execs: nothing fails or ends too early. */
export async function rolling(stage: RollingStage, options: RollingOptions): Promise<Findings> {
  const { ground, say, signal } = stage
  const load = new RollingLoad({ ...options, access: ground.access, ...(await workplace(ground, signal)) })
  const restarts: Restart[] = []
  try {
    await load.start(AbortSignal.any([signal, AbortSignal.timeout(openMs)]))
    say(`${options.watches} watches and ${options.execs} execs are open, ${options.calls} calls begin each second`)
    await delay(options.calmMs, signal)
    for (const replica of ground.replicas.slice(0, options.restarts)) {
      const restarted = await restart(stage, replica, options.graces)
      restarts.push(restarted)
      say(restarted.text)
      await delay(options.calmMs, signal)
    }
  } finally {
    await load.stop()
  }
  const leaves = restarts.map(({ leave }) => leave)
  const failures = [...load.failures(leaves), ...restarts.flatMap((each) => each.failures)]
  return { figures: load.figures(leaves), failures }
}

/** The API double has a pod of its own, which gives back what it is sent, and takes no namespaces. */
async function workplace({ cluster, access }: RollingGround, signal: AbortSignal) {
  if (cluster.kind === 'double') return { namespace: 'default', pod: { namespace: 'demo', pod: 'echo' } }
  const namespace = 'soak-rolling'
  const kube = new Kube(access)
  try {
    await createNamespace(kube, namespace, signal)
    await createPod(kube, namespace, 'cat', signal)
  } finally {
    kube.close()
  }
  return { namespace, pod: { namespace, pod: 'cat' } }
}

interface Restart {
  readonly leave: Leave
  readonly text: string
  readonly failures: readonly string[]
}

/** SIGTERM, the end, a start under the same name, and the return to calm. */
async function restart(stage: RollingStage, replica: LocalReplica, graces: RollingGraces): Promise<Restart> {
  const { ground, signal } = stage
  const graceMs = graces.listenMs + graces.shutdownMs
  const at = performance.now()
  replica.signal('SIGTERM')
  const asked = callsStraightTo(stage, replica, graces.listenMs)
  await abortable(replica.exited, AbortSignal.any([signal, AbortSignal.timeout(graceMs + stopMarginMs)]))
  const exitedAt = performance.now()
  const lastLine = (await readFile(replica.log, 'utf8')).trimEnd().split('\n').at(-1) ?? ''
  await replica.start()
  const back = AbortSignal.any([signal, AbortSignal.timeout(backMs)])
  await replica.ready(back)
  const readyAt = performance.now()
  await ground.settled(back)
  const { count, failures } = await asked
  const text =
    `${replica.name}: SIGTERM, ended after ${seconds(at, exitedAt)} (graces ${graceMs / 1000} s; ` +
    `${count} calls straight to it in its listen grace), ready again after ${seconds(exitedAt, readyAt)}, ` +
    `all know one another after ${seconds(exitedAt, performance.now())}`
  if (!lastLine.includes('"msg":"Stopped"')) failures.push(`${replica.name} did not end in order: ${lastLine}`)
  return {
    leave: { replica: replica.name, listenEndsAt: at + graces.listenMs, graceEndsAt: at + graceMs, exitedAt },
    text,
    failures,
  }
}

/**
 * A balancer may go on for the listen grace: calls that enter at a replica that leaves find their agent all the same.
 */
async function callsStraightTo({ ground }: RollingStage, replica: LocalReplica, listenMs: number) {
  const kube = new Kube(ground.accessOf(replica))
  const failures: string[] = []
  let count = 0
  const end = performance.now() + listenMs - 2 * askEveryMs
  while (performance.now() < end) {
    count++
    try {
      const { status, body } = await kube.ask('/version')
      if (status !== 200) failures.push(`a call to ${replica.name}, which leaves: ${status} ${body}`)
    } catch (error) {
      failures.push(`a call to ${replica.name}, which leaves: ${(error as Error).message}`)
    }
    await delay(askEveryMs)
  }
  kube.close()
  return { count, failures }
}

function seconds(from: number, to: number): string {
  return `${((to - from) / 1000).toFixed(1)} s`
}
