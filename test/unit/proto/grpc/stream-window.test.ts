import { EventEmitter } from 'node:events'
import type { Http2Session } from 'node:http2'
import t from 'tap'
import { crowdStopped, crowdWindowBytes, manyStopped, narrowWindowBytes } from '../../../../src/proto/grpc/limits.ts'
import { StoppedReaders } from '../../../../src/proto/grpc/stopped-readers.ts'
import { StreamWindow } from '../../../../src/proto/grpc/stream-window.ts'

const wide = 1024 * 1024

/** A session that acknowledges its SETTINGS when it is told to. */
function window(strangerWindowBytes: number) {
  const set: number[] = []
  const unacknowledged: (() => void)[] = []
  const session = Object.assign(new EventEmitter(), {
    closed: false,
    destroyed: false,
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

t.test('a stranger has a small window until he is known, whatever his streams do', async (t) => {
  const { set, acknowledge, streams } = window(64 * 1024)
  acknowledge()
  for (let i = 0; i < 2 * manyStopped; i++) streams.stopped()
  for (let i = 0; i < 2 * manyStopped; i++) streams.resumed()
  t.same(set, [])
  streams.widen()
  t.same(set, [wide])
  streams.widen()
  acknowledge()
  t.same(set, [wide])
})

t.test('who is known while many have stopped gets the narrow one', async (t) => {
  const { set, acknowledge, streams } = window(64 * 1024)
  for (let i = 0; i < 2 * manyStopped; i++) streams.stopped()
  streams.widen()
  acknowledge()
  t.same(set, [narrowWindowBytes])
  for (let i = 0; i < 2 * manyStopped; i++) streams.resumed()
  acknowledge()
  t.same(set, [narrowWindowBytes, wide])
})

t.test('one change is on its way at a time', async (t) => {
  const { set, acknowledge, streams } = window(wide)
  for (let i = 0; i <= manyStopped; i++) streams.stopped()
  for (let i = 0; i <= manyStopped; i++) streams.resumed()
  t.same(set, [narrowWindowBytes])
  acknowledge()
  t.same(set, [narrowWindowBytes, wide])
})

t.test('a crowd of stopped readers has a narrower one, until few are left', async (t) => {
  const { set, acknowledge, streams } = window(wide)
  const stop = (count: number) => {
    for (let i = 0; i < count; i++) {
      streams.stopped()
      acknowledge()
    }
  }
  stop(crowdStopped + 1)
  t.same(set, [narrowWindowBytes, crowdWindowBytes])
  for (let i = 0; i < crowdStopped; i++) {
    streams.resumed()
    acknowledge()
  }
  t.same(set, [narrowWindowBytes, crowdWindowBytes, wide])
})

t.test('many that stopped on other connections of its owner make it narrow too', async (t) => {
  const owners = new StoppedReaders()
  const { set, acknowledge, close, streams } = window(64 * 1024)
  for (let i = 0; i <= manyStopped; i++) owners.add()
  streams.belongTo({ stoppedReaders: owners })
  t.same(set, [], 'it is a stranger still')
  streams.widen()
  t.same(set, [narrowWindowBytes])
  acknowledge()
  for (let i = manyStopped; i <= crowdStopped; i++) owners.add()
  t.same(set, [narrowWindowBytes, crowdWindowBytes])
  acknowledge()
  for (let i = 0; i <= crowdStopped; i++) owners.remove()
  t.same(set, [narrowWindowBytes, crowdWindowBytes, wide])
  acknowledge()
  close()
  for (let i = 0; i <= manyStopped; i++) owners.add()
  t.equal(set.length, 3)
})
