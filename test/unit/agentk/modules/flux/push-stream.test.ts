import t from 'tap'
import { HandledPushes } from '../../../../../src/agentk/modules/flux/push-stream.ts'

t.test('a push is handled once', async (t) => {
  const handled = new HandledPushes(3)
  t.ok(handled.add(1n))
  t.notOk(handled.add(1n))
  handled.remove(1n)
  t.ok(handled.add(1n), 'it was not handled after all')
  t.ok(handled.add(0n))
  t.ok(handled.add(0n), 'a kas without ids')
})

t.test('of too many the oldest are forgotten', async (t) => {
  const handled = new HandledPushes(3)
  for (const id of [1n, 2n, 3n, 4n]) t.ok(handled.add(id))
  for (const id of [2n, 3n, 4n]) t.notOk(handled.add(id))
  t.ok(handled.add(1n))
})
