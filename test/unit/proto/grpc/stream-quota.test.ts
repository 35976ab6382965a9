import type { Http2Session } from 'node:http2'
import t from 'tap'
import { lowerEveryMs, StreamQuota, spareStreams } from '../../../../src/proto/grpc/stream-quota.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function quota(firstStreams: number, maxConcurrentStreams = 1000) {
  const set: number[] = []
  const unacknowledged: (() => void)[] = []
  const clock = new ManualClock()
  const session = {
    closed: false,
    destroyed: false,
    settings: ({ maxConcurrentStreams: streams }: { maxConcurrentStreams: number }, acknowledged: () => void) => {
      set.push(streams)
      unacknowledged.push(acknowledged)
    },
  }
  return {
    set,
    session,
    clock,
    unacknowledged,
    acknowledge: () => unacknowledged.shift()?.(),
    streams: new StreamQuota(session as unknown as Http2Session, { firstStreams, maxConcurrentStreams }, () =>
      clock.now(),
    ),
  }
}

t.test('it grows ahead of the streams that are admitted, up to its end', (t) => {
  const { set, streams, acknowledge } = quota(32)
  for (let open = 1; open <= 1000; open++) {
    streams.admitted(open)
    acknowledge()
  }
  t.same(set, [68, 140, 284, 572, 1000])
  t.end()
})

t.test('what changes while the other side has not acknowledged the last is told with it, all at once', (t) => {
  const { set, streams, unacknowledged, acknowledge } = quota(32)
  for (let open = 1; open <= 200; open++) streams.admitted(open)
  t.same(set, [68])
  acknowledge()
  t.same(set, [68, 572])
  acknowledge()
  t.same(set, [68, 572])
  t.same(unacknowledged, [])
  t.end()
})

t.test('one that was refused leaves what is open, and a few', (t) => {
  const { set, streams, acknowledge } = quota(32)
  streams.admitted(17)
  acknowledge()
  streams.refused(21)
  acknowledge()
  streams.refused(21)
  t.same(set, [68, 21 + spareStreams])
  streams.refused(500)
  t.same(set, [68, 21 + spareStreams], 'it does not grow by a refusal')
  t.end()
})

t.test('refused and admitted by turns, at a bound that others share: the other side hears of it once', (t) => {
  const { set, streams, acknowledge } = quota(32)
  streams.admitted(200)
  acknowledge()
  for (let i = 0; i < 1000; i++) {
    streams.refused(201)
    acknowledge()
    streams.admitted(201)
    acknowledge()
  }
  t.same(set, [800, 201 + spareStreams])
  t.end()
})

t.test('it falls once in a while, however often streams are refused', (t) => {
  const { set, streams, acknowledge, clock } = quota(32)
  streams.admitted(200)
  acknowledge()
  streams.refused(101)
  acknowledge()
  streams.refused(21)
  clock.advance(lowerEveryMs - 1)
  streams.refused(21)
  t.same(set, [800, 101 + spareStreams])
  clock.advance(1)
  streams.refused(21)
  acknowledge()
  t.same(set, [800, 101 + spareStreams, 21 + spareStreams])
  t.end()
})

t.test('after one was refused there is always room for a few more', (t) => {
  const { set, streams, acknowledge } = quota(32)
  streams.refused(1)
  acknowledge()
  for (let open = 1; open <= 65; open++) {
    streams.admitted(open)
    acknowledge()
  }
  t.same(set, [17, 33, 49, 65, 81])
  t.end()
})

t.test('where there is no first bound nothing is told', async (t) => {
  const { set, session, streams } = quota(20_000, 20_000)
  for (let open = 1; open <= 1000; open++) streams.admitted(open)
  t.same(set, [])
  session.closed = true
  streams.refused(1)
  t.same(set, [])
})
