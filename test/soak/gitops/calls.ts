import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { type EveryCall, frozenAtEachCall, killedAtEachCall } from '../../contract/agentk/gitops/every-call.ts'
import { Ground, keyOf } from '../../contract/agentk/gitops/ground.ts'
import type { Findings, Stage } from '../scene.ts'

/** objects of a commit, in 3 waves; the next commit removes half of them */
const objects = 40

/** Kills, or freezes, a pod at each call of a round. It and the pod after it use an API server alone. */
export async function lostAtEachCall({ say, signal }: Pick<Stage, 'say' | 'signal'>): Promise<Findings> {
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api' })
  const teardowns: (() => unknown)[] = [() => controlPlane.stop()]
  const [figures, failures]: [string[], string[]] = [[], []]
  const told = (what: string, found: EveryCall) => {
    figures.push(`${what}: ${found.calls} rounds of ${objects} objects`)
    failures.push(...found.failures.map((failure) => `${what}: ${failure}`))
    signal.throwIfAborted()
  }
  try {
    await controlPlane.start()
    const t = { teardown: (end: unknown) => void teardowns.unshift(end as () => unknown) }
    const ground = await Ground.start(t, controlPlane)
    for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    say('killed before each call')
    told('killed before', await killedAtEachCall(ground, { projectId: 1n, objects, kind: 'unsent' }))
    say('killed after each call')
    told('killed after', await killedAtEachCall(ground, { projectId: 2n, objects, kind: 'unanswered' }))
    say('frozen at each call')
    told('frozen', await frozenAtEachCall(ground, { projectId: 3n, objects }))
  } finally {
    for (const end of teardowns) await end()
  }
  return { figures, failures }
}
