import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { WrittenMaps } from './written-maps.ts'

/** interval of pushes; some come while the one before is applied. ms */
const paceMs = 400
const readyMs = 90_000
/**
 * limit until the cluster is equal: polls find lost pushes within seconds, failed sources are retried within minutes.
 * ms
 */
export const equalMs = 120_000

/** Kills replicas during pushes: each last commit is in the cluster at the end, and none comes after a newer one. */
export async function killsDuringPushes(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { pushes, kills }: { pushes: number; kills: number },
): Promise<Findings> {
  const { sources, replicas, admin } = ground
  const maps = new WrittenMaps(admin)
  maps.start()
  try {
    const first = await maps.differences(sources, equalMs, signal)
    if (first.length > 0) return { figures: [], failures: first.map((line) => `at the beginning: ${line}`) }
    let back = Promise.resolve()
    let killed = 0
    for (let push = 1; push <= pushes; push++) {
      await sources.push(replicas)
      await delay(paceMs, signal)
      if (Math.floor((push * kills) / pushes) === killed) continue
      await back
      const victim = replicas[killed % replicas.length] as LocalReplica
      killed += 1
      say(`push ${push} of ${pushes}: ${victim.name} is killed`)
      back = restarted(victim, ground, signal)
      back.catch(() => undefined) // awaited before the next kill
    }
    await back
    const wrong = await maps.differences(sources, equalMs, signal)
    const failures = [...wrong.map((line) => `at the end ${line}`), ...maps.steppedBack]
    const data = { pushes, kills: killed, untold: sources.untold, writes: maps.writes }
    const figure = `kills: ${pushes} pushes, ${killed} kills of replicas, ${maps.writes} writes seen, ${maps.steppedBack.length} of an older commit after a newer one, ${wrong.length} objects not as in Git`
    return { figures: [figure], failures, data: { kills: data } }
  } finally {
    maps.stop()
  }
}

/** Kills the replica and starts it again at once, as a StatefulSet does. */
export async function restarted(victim: LocalReplica, ground: GitopsGround, signal: AbortSignal): Promise<void> {
  victim.signal('SIGKILL')
  await victim.exited
  await victim.start()
  await ground.settled(AbortSignal.any([signal, AbortSignal.timeout(readyMs)]))
}
