import t from 'tap'
import { collectEveryBytes, PassedBytes } from '../../../../src/proto/grpc/buffer-memory.ts'

t.test('collects each time that enough has passed since the last', async (t) => {
  let collections = 0
  const passed = new PassedBytes(() => {
    collections++
  })
  passed.add(collectEveryBytes - 1)
  t.equal(collections, 0)
  passed.add(1)
  t.equal(collections, 1)
  passed.add(collectEveryBytes - 1)
  t.equal(collections, 1)
  passed.add(3 * collectEveryBytes)
  t.equal(collections, 2, 'once for what comes in one piece')
})
