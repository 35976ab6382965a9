import { delay } from '../../src/lib/signals.ts'
import { Kube } from './kube.ts'
import { type Restart, type RollingGraces, type RollingStage, restart } from './rolling/restart.ts'
import type { RollingGround } from './rolling/rolling-ground.ts'
import { RollingLoad } from './rolling/rolling-load.ts'
import type { Findings } from './scene.ts'
import { createNamespace, createPod } from './workplace.ts'

export interface RollingOptions {
  /** calls begun each second */
  readonly calls: number
  readonly watches: number
  readonly execs: number
  /** graces of the replicas, as in their configuration */
  readonly graces: RollingGraces
  /** number of replicas that are restarted; default: all */
  readonly restarts?: number
  /** pause before the first replica leaves, and between the return of one and the leaving of the next. ms */
  readonly calmMs: number
}

/** time for all watches and execs to begin. ms */
const openMs = 60_000

/** Restarts replicas one after the other, under calls, watches and execs: nothing fails or ends too early. */
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

/**
 * Returns the namespace and pod of the load. The API double has a pod that returns its input, and accepts no
 * namespaces.
 */
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
