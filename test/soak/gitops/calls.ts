import t from 'tap'
import { frozenAtEachCall, killedAtEachCall } from '../../contract/agentk/gitops/every-call.ts'
import { Ground, keyOf, skip } from '../../contract/agentk/gitops/ground.ts'

/** GitOps, the part `calls`: 40 objects in 3 waves, and a pod that is lost at each call of a round. */

const objects = 40

t.test('a pod lost at each call of a round', { skip }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  for (const [index, is] of (['unsent', 'unanswered'] as const).entries()) {
    const calls = await killedAtEachCall(t, ground, { projectId: BigInt(index + 1), objects, is })
    t.comment(`killed, the call ${is}: ${calls} rounds of ${objects} objects`)
  }
  const calls = await frozenAtEachCall(t, ground, { projectId: 3n, objects })
  t.comment(`frozen: ${calls} rounds of ${objects} objects`)
})
