import { EventEmitter } from 'node:events'
import type { Http2Session } from 'node:http2'
import t, { type Test } from 'tap'
import { narrowWindowBytes, pressureBytes } from '../../../../src/proto/grpc/limits.ts'
import { MemoryPressure } from '../../../../src/proto/grpc/memory-pressure.ts'
import { StreamWindow } from '../../../../src/proto/grpc/stream-window.ts'
import { WindowBudget } from '../../../../src/proto/grpc/window-budget.ts'
import { settle } from '../../../support/manual-clock.ts'

const wide = 1024 * 1024

/** A session that acknowledges its SETTINGS when the test says so. */
function window(strangerWindowBytes: number) {
  const set: number[] = []
  const unacknowledged: (() => void)[] = []
  const session = Object.assign(new EventEmitter(), {
    closed: false,
    destroyed: false,
    setLocalWindowSize: () => undefined,
    ping: (answer: (error: null, ms: number) => void) => {
      setImmediate(() => answer(null, 100))
      return true
    },
    settings: ({ initialWindowSize }: { initialWindowSize: number }, acknowledged: () => void) => {
      set.push(initialWindowSize)
      unacknowledged.push(acknowledged)
    },
  })
  const limits = { streamWindowBytes: wide, strangerWindowBytes }
  const acknowledge = () => unacknowledged.shift()?.()
  const close = () => session.emit('close')
  return { set, acknowledge, close, streams: new StreamWindow(session as unknown as Http2Session, limits) }
}

t.test('a stranger has a small window until he is known, whatever waits for him', async (t) => {
  const { set, acknowledge, streams } = window(64 * 1024)
  acknowledge()
  streams.hold(pressureBytes + 1)
  streams.hold(-pressureBytes - 1)
  t.same(set, [])
  streams.widen()
  t.same(set, [wide])
  streams.widen()
  acknowledge()
  t.same(set, [wide])
})

t.test('who is known while much waits keeps the narrow one', async (t) => {
  const { set, acknowledge, streams } = window(64 * 1024)
  streams.hold(pressureBytes + 1)
  streams.widen()
  acknowledge()
  t.same(set, [])
  streams.hold(-pressureBytes)
  acknowledge()
  t.same(set, [wide])
})

t.test('it is narrow while much waits, until half of that is taken; one change is on its way at a time', async (t) => {
  const { set, acknowledge, streams } = window(wide)
  streams.hold(pressureBytes)
  t.same(set, [])
  streams.hold(1)
  streams.hold(-pressureBytes / 2)
  t.same(set, [narrowWindowBytes])
  streams.hold(-1)
  t.same(set, [narrowWindowBytes], 'it is not acknowledged')
  acknowledge()
  t.same(set, [narrowWindowBytes, wide])
})

t.test('what waits on other connections of its owner makes it narrow too', async (t) => {
  const pressure = new MemoryPressure(1000)
  const { set, acknowledge, close, streams } = window(wide / 2)
  pressure.count(1001)
  streams.belongTo({ pressure })
  t.same(set, [], 'it is a stranger still')
  streams.widen()
  t.same(set, [narrowWindowBytes])
  acknowledge()
  pressure.count(-501)
  t.same(set, [narrowWindowBytes, wide])
  acknowledge()
  close()
  pressure.count(501)
  t.equal(set.length, 2)
})

const MiB = 1024 * 1024
const budgetBytes = 30 * MiB

/** A connection with a long round trip. Its only reader takes everything that arrives. */
async function longWay(t: Test) {
  const { set, acknowledge, close, streams } = window(wide)
  const budget = new WindowBudget(budgetBytes)
  streams.belongTo({ windows: budget })
  const stream = {}
  const take = async () => {
    streams.arrived()
    for (let i = 0; i < 600; i++) streams.took(stream, 64 * 1024)
    await settle()
  }
  streams.began()
  await take()
  t.same(set, [4 * MiB])
  acknowledge()
  await take()
  t.same(set.slice(1), [16 * MiB], 'as much as one stream and one more may')
  acknowledge()
  set.length = 0
  return { set, acknowledge, close, streams, budget, take }
}

t.test('on a long way it is as wide as its reader takes', async (t) => {
  const { streams, budget } = await longWay(t)
  t.equal(streams.extraOf(20 * MiB), 15 * MiB)
  t.equal(streams.extraOf(3 * MiB), 2 * MiB)
  t.equal(streams.extraOf(MiB), 0)
  t.equal(budget.shareOf({}), 0)
  streams.ended()
  t.equal(budget.shareOf({}), budgetBytes, 'nothing receives')
})

t.test('streams that begin share it: before they are asked for anything, at once', async (t) => {
  const { set, acknowledge, streams, take } = await longWay(t)
  streams.began()
  t.same(set, [MiB + budgetBytes / 4])
  streams.began()
  streams.began()
  t.same(set.slice(1), [MiB + budgetBytes / 8], 'though the other side has acknowledged nothing yet')
  for (let i = 0; i < 3; i++) streams.ended()
  await take()
  t.equal(set.length, 2, 'wider only once it has')
  acknowledge()
  acknowledge()
  await take()
  t.same(set.slice(2), [16 * MiB])
})

t.test('what was granted is claimed until a narrower one is acknowledged', async (t) => {
  const { acknowledge, streams, budget } = await longWay(t)
  streams.hold(pressureBytes + 1)
  t.equal(budget.shareOf({}), 0)
  acknowledge()
  t.equal(budget.shareOf({}), budgetBytes)
})

t.test('a peer that acknowledges nothing gets a few of them, and nothing wider', async (t) => {
  const { set, streams, take } = await longWay(t)
  for (let i = 0; i < 500; i++) streams.began()
  t.ok(set.length <= 4, `${set.length}`)
  const narrowest = set.at(-1)
  for (let i = 0; i < 500; i++) streams.ended()
  await take()
  t.equal(set.at(-1), narrowest)
})

t.test('a connection that closes leaves nothing claimed', async (t) => {
  const { close, streams, budget } = await longWay(t)
  close()
  streams.ended()
  t.equal(budget.shareOf({}), budgetBytes)
})
