import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { hookKinds, sendHook } from '../../support/git-hooks.ts'
import type { Findings, Stage } from '../scene.ts'
import { type GitopsGround, hookSecret } from './gitops-ground.ts'
import { restarted } from './kills.ts'
import { SecondSource } from './polls.ts'

/** limit that the documents promise. ms */
const maxMs = 2000
/** limit while the replica with the request, or with the agent, is killed: agentk has to find another one. ms */
const maxKilledMs = 60_000

/**
 * Pushes to a second project, which is polled every 5 minutes. Hooks of each kind announce the pushes to one replica or
 * another.
 */
export async function pushesToldByHooks(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { hooks }: { hooks: number },
): Promise<Findings> {
  const source = new SecondSource(ground, signal)
  await source.begin()
  const { replicas, second } = ground
  let pushes = 0
  const told = async (replica: LocalReplica) => {
    pushes += 1
    await source.push(String(pushes))
    const { server, ca } = ground.accessOf(replica)
    const began = performance.now()
    const kind = hookKinds[pushes % hookKinds.length] as (typeof hookKinds)[number]
    await sendHook({ url: `${server}/hooks/git/${second.id}`, ca }, kind, hookSecret)
    await source.untilThere(String(pushes))
    return { kind, ms: Math.round(performance.now() - began) }
  }
  const took: number[] = []
  for (let i = 0; i < hooks; i++) {
    const replica = replicas[Math.floor(i / hookKinds.length) % replicas.length] as LocalReplica
    const { kind, ms } = await told(replica)
    took.push(ms)
    say(`a hook of ${kind} to ${replica.name}: ${ms} ms`)
  }
  const killed: number[] = []
  for (const [i, victim] of replicas.entries()) {
    const back = restarted(victim, ground, signal)
    const { ms } = await told(replicas[(i + 1) % replicas.length] as LocalReplica)
    killed.push(ms)
    say(`${victim.name} is killed: ${ms} ms`)
    await back
  }
  const late = took.filter((ms) => ms > maxMs).length
  const [longest, longestKilled] = [Math.max(...took), Math.max(...killed)]
  const figure = `hooks: ${took.length} of GitHub, GitLab and Gitea to three replicas; ${took.length - late} in the cluster within ${maxMs} ms, ${longest} ms at the most; ${longestKilled} ms while a replica is killed`
  const failures = [
    ...(late > 0 ? [`${late} of ${took.length} hooks took longer than ${maxMs} ms`] : []),
    ...(longestKilled > maxKilledMs ? [`with a replica killed one took ${longestKilled} ms`] : []),
  ]
  return {
    figures: [figure],
    failures,
    data: { hooks: { hooks: took.length, late, longestMs: longest, longestKilled } },
  }
}
