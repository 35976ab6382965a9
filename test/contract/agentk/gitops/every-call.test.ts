import t from 'tap'
import { frozenAtEachCall, killedAtEachCall } from './every-call.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** A pod is lost at any moment of a round. `npm run soak -- gitops --part calls` uses more objects. */

const objects = 8
/** this many objects are read, made, changed and deleted, so a round makes at least this many calls */
const leastCalls = 2 * objects

t.test('at each call of a round', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })

  await t.test('killed before it', async (t) => {
    const { calls, failures } = await killedAtEachCall(ground, { projectId: 1n, objects, kind: 'unsent' })
    t.strictSame(failures, [])
    t.ok(calls > leastCalls, `${calls} calls`)
  })

  await t.test('killed after it, before the answer', async (t) => {
    const { calls, failures } = await killedAtEachCall(ground, { projectId: 2n, objects, kind: 'unanswered' })
    t.strictSame(failures, [])
    t.ok(calls > leastCalls, `${calls} calls`)
  })

  await t.test('frozen, and thawed when another pod has brought a newer commit', async (t) => {
    const { calls, failures } = await frozenAtEachCall(ground, { projectId: 3n, objects })
    t.strictSame(failures, [])
    t.ok(calls > leastCalls, `${calls} calls`)
  })
})
