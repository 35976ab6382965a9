import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { WrittenMaps } from './written-maps.ts'

/** from one push to the next; some come while the one before is applied. ms */
const paceMs = 400
const readyMs = 90_000
/** polls find within seconds what nobody was told of; a source that failed is tried again within minutes. ms */
export const equalMs = 120_000

/** Replicas are killed while pushes come: every last commit is in the cluster at the end, none after a newer one. */
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
      back.catch(() => undefined) // told by the next one
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

/** Killed, and started again at once, as by a StatefulSet. */
export async function restarted(victim: LocalReplica, ground: GitopsGround, signal: AbortSignal): Promise<void> {
  victim.signal('SIGKILL')
  await victim.exited
  await victim.start()
  await ground.settled(AbortSignal.any([signal, AbortSignal.timeout(readyMs)]))
}
