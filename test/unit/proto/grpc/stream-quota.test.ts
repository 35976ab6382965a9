import type { Http2Session } from 'node:http2'
import t from 'tap'
import { StreamQuota } from '../../../../src/proto/grpc/stream-quota.ts'

function quota(firstStreams: number, maxConcurrentStreams = 1000) {
  const set: number[] = []
  const session = {
    closed: false,
    destroyed: false,
    settings: ({ maxConcurrentStreams: streams }: { maxConcurrentStreams: number }) => set.push(streams),
  }
  return {
    set,
    session,
    streams: new StreamQuota(session as unknown as Http2Session, { firstStreams, maxConcurrentStreams }),
  }
}

t.test('it grows ahead of the streams that are admitted, up to its end', async (t) => {
  const { set, streams } = quota(32)
  for (let open = 1; open <= 1000; open++) streams.admitted(open)
  t.same(set, [68, 140, 284, 572, 1000])
})

t.test('one that was refused leaves what is open, and one; who is admitted then grows again', async (t) => {
  const { set, streams } = quota(32)
  streams.admitted(17)
  streams.refused(21) // 20 and the refused one
  streams.refused(21)
  t.same(set, [68, 21])
  streams.admitted(20)
  t.same(set, [68, 21, 80])
  streams.refused(500)
  t.same(set, [68, 21, 80], 'it does not grow by a refusal')
})

t.test('where there is no first bound nothing is told', async (t) => {
  const { set, session, streams } = quota(20_000, 20_000)
  for (let open = 1; open <= 1000; open++) streams.admitted(open)
  t.same(set, [])
  session.closed = true
  streams.refused(1)
  t.same(set, [])
})
