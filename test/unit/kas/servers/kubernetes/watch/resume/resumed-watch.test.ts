import t from 'tap'
import { safetyOf } from '../../../../../../../src/call/safety.ts'
import { watchQuestion } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/watch-question.ts'
import { type ErrorSpec, KasError } from '../../../../../../../src/lib/errors.ts'
import {
  type Answer,
  entries,
  event,
  initialEnd,
  lost,
  play,
  protobuf,
  protobufEvent,
  protobufFrame,
  type Query,
} from './played-watch.ts'

t.test('it goes on behind the last event that its client has whole', async (t) => {
  const half = event('MODIFIED', 12)
  const { text, asked, error, resumed } = await play({ resourceVersion: '10', labelSelector: 'a=b' }, [
    { body: [event('ADDED', 11), half.slice(0, 40)], error: lost },
    { body: [half.slice(0, 7), half.slice(7), event('DELETED', 13)] },
  ])
  t.equal(text, event('ADDED', 11) + half + event('DELETED', 13))
  t.equal(error, undefined)
  t.equal(resumed, 1)
  t.same(asked, [
    { watch: '1', resourceVersion: '10', labelSelector: 'a=b', allowWatchBookmarks: 'true' },
    { watch: '1', resourceVersion: '11', labelSelector: 'a=b', allowWatchBookmarks: 'true' },
  ])
})

t.test('named by the client, a version is enough, before any event has come', async (t) => {
  const { text, asked } = await play({ resourceVersion: '10' }, [{ error: lost }, { body: [event('ADDED', 11)] }])
  t.equal(text, event('ADDED', 11))
  t.match(asked[1], { resourceVersion: '10' })
})

for (const query of [{}, { resourceVersion: '0' }, { resourceVersion: '' }, { resourceVersion: '00' }] as const) {
  t.test(`${JSON.stringify(query)}: what was there says nothing; the first event that adds nothing does`, async (t) => {
    const cut = await play(query, [{ body: [event('ADDED', 7), event('ADDED', 3)], error: lost }])
    t.equal(cut.error?.code, 'TUNNEL_LOST', 'it may not have had all')
    t.equal(cut.asked.length, 1)
    const started = await play(query, [
      { body: [event('ADDED', 7), event('ADDED', 3), event('MODIFIED', 8), event('ADDED', 9)], error: lost },
      { body: [event('DELETED', 10)] },
    ])
    t.match(started.asked[1], { resourceVersion: '9' })
    t.equal(started.error, undefined)
  })
}

t.test('sendInitialEvents: from the bookmark on that ends them', async (t) => {
  const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' }
  const before = await play(query, [
    { body: [event('ADDED', 7), event('BOOKMARK', 8), event('MODIFIED', 9)], error: lost },
  ])
  t.equal(before.error?.code, 'TUNNEL_LOST')
  const after = await play(query, [
    { body: [event('ADDED', 7), event('BOOKMARK', 8, initialEnd)], error: lost },
    { body: [event('ADDED', 9)] },
  ])
  t.equal(after.text, event('ADDED', 7) + event('BOOKMARK', 8, initialEnd) + event('ADDED', 9))
  t.same(after.asked[1], { watch: '1', resourceVersion: '8', allowWatchBookmarks: 'true' })
})

t.test('bookmarks that the client did not ask for are taken out, and count', async (t) => {
  for (const query of [{}, { allowWatchBookmarks: 'false' }] as Query[]) {
    const { text, asked } = await play(query, [
      { body: [event('ADDED', 7) + event('BOOKMARK', 20), event('BOOKMARK', 21)], error: lost },
      { body: [event('ADDED', 22)] },
    ])
    t.equal(text, event('ADDED', 7) + event('ADDED', 22))
    t.match(asked[1], { resourceVersion: '21' })
  }
})

t.test('an end that the API server makes is passed on, and so is an event ERROR', async (t) => {
  t.match(await play({ resourceVersion: '1' }, [{ body: [event('ADDED', 2)] }]), {
    error: undefined,
    asked: { length: 1 },
  })
  const gone = '{"type":"ERROR","object":{"kind":"Status","code":410,"metadata":{}}}\n'
  const played = await play({ resourceVersion: '1' }, [{ body: [event('ADDED', 2), gone], error: lost }])
  t.equal(played.text, event('ADDED', 2) + gone)
  t.equal(played.error?.code, 'TUNNEL_LOST')
})

t.test('what the cluster answers then in place of a watch is its last event', async (t) => {
  const status = '{"kind":"Status","status":"Failure","message":"too old","code":410}'
  const { text, error } = await play({ resourceVersion: '1' }, [
    { body: [event('ADDED', 2)], error: lost },
    { status: 410, body: [status.slice(0, 9), `${status.slice(9)}\n`] },
  ])
  t.equal(text, `${event('ADDED', 2)}{"type":"ERROR","object":${status}}\n`)
  t.equal(error, undefined)
  for (const answer of [
    { status: 502, type: 'text/html', body: ['<html>'] },
    { body: ['x'.repeat(100_000)], status: 500 },
  ]) {
    const other = await play({ resourceVersion: '1' }, [{ error: lost }, answer])
    const { type, object } = JSON.parse(other.text) as { type: string; object: { message: string; code: number } }
    t.match(
      { type, ...object },
      { type: 'ERROR', kind: 'Status', code: answer.status, message: /the watch was lost, and the cluster/ },
    )
  }
})

t.test('in protobuf too', async (t) => {
  const [one, two, three] = [protobufEvent('ADDED', '7'), protobufEvent('MODIFIED', '8'), protobufEvent('DELETED', '9')]
  const { bytes, asked } = await play({}, [
    { type: protobuf, body: [one, Buffer.concat([two, three.subarray(0, 9)])], error: lost },
    {
      type: protobuf,
      body: [three.subarray(0, 2), Buffer.concat([three.subarray(2), protobufEvent('BOOKMARK', '10')])],
      error: lost,
    },
    { type: 'application/vnd.kubernetes.protobuf', status: 410, body: [Buffer.from('k8s\0status')] },
  ])
  const refusal = protobufFrame('ERROR', Buffer.from('k8s\0status'))
  t.ok(bytes.equals(Buffer.concat([one, two, three, refusal])))
  t.match(
    asked.map(({ resourceVersion }) => resourceVersion),
    [undefined, '8', '10'],
  )
})

t.test('what its format does not show passes as it is, and does not go on', async (t) => {
  for (const type of ['text/plain', 'application/vnd.kubernetes.protobuf', 'application/yaml']) {
    const { text, error } = await play({ resourceVersion: '1' }, [
      { type, body: [event('ADDED', 2), 'half'], error: lost },
    ])
    t.equal(text, `${event('ADDED', 2)}half`)
    t.equal(error?.code, 'TUNNEL_LOST')
  }
})

t.test('tries are paced, and end after two minutes in vain', async (t) => {
  const { asked, error, tookMs } = await play({ resourceVersion: '1' }, [{ error: lost }])
  t.equal(error?.code, 'TUNNEL_LOST')
  t.ok(tookMs > 115_000 && tookMs < 130_000, `${tookMs} ms`)
  t.ok(asked.length > 15 && asked.length < 40, `${asked.length} tries`)
})

t.test('what is lost before its head, each time, after it was open for long, is paced and ends', async (t) => {
  const { asked, tookMs, error } = await play({ resourceVersion: '1' }, [
    { body: [60_000], error: lost },
    ...Array<Answer>(500).fill({ headless: true, error: lost }),
  ])
  t.equal(error?.code, 'TUNNEL_LOST')
  t.ok(asked.length < 45, `${asked.length} tries`)
  t.ok(tookMs < 200_000, `${tookMs} ms`)
})

t.test('an answer with 200 that is no such watch is not read', async (t) => {
  const { text } = await play({ resourceVersion: '1' }, [{ error: lost }, { type: 'text/plain', body: ['for ever'] }])
  t.match(JSON.parse(text), { type: 'ERROR', object: { code: 502 } })
})

t.test('one that was open for long is opened again at once', async (t) => {
  const { tookMs } = await play({ resourceVersion: '1' }, [{ body: [60_000], error: lost }, {}])
  t.ok(tookMs < 60_100, `${tookMs} ms`)
})

t.test('of timeoutSeconds what is left is asked for', async (t) => {
  const { asked } = await play({ resourceVersion: '1', timeoutSeconds: '100' }, [{ body: [60_000], error: lost }, {}])
  t.equal(asked[1]?.timeoutSeconds, '40')
})

t.test('who may no longer does not go on', async (t) => {
  const mayGoOn = async () => {
    throw new KasError({ code: 'USER_UNAUTHORIZED' })
  }
  const { asked, error } = await play({ resourceVersion: '1' }, [{ error: lost }, {}], { mayGoOn })
  t.equal(error?.code, 'USER_UNAUTHORIZED')
  t.equal(asked.length, 1)
})

t.test(
  'whose tunnel is recalled, or who is over his share when it goes on, has whole events, and the entry knows why',
  async (t) => {
    const recalled = await play({ resourceVersion: '1' }, [
      { body: [event('ADDED', 2), '{"type":"AD'], error: { code: 'WATCH_RECALLED' } },
    ])
    t.match(recalled, { text: event('ADDED', 2), error: { code: 'WATCH_RECALLED' } })
    const held = { agentId: '42', held: 9, living: 10, watches: 9, retryAfterS: 5 }
    const overShare: ErrorSpec = { code: 'CALLER_OVER_SHARE', ...held }
    const once = await play({ resourceVersion: '1' }, [{ error: lost }, overShare, { body: [event('ADDED', 2)] }])
    t.match(once, { text: event('ADDED', 2), error: undefined })
    t.ok(once.tookMs >= 5000, `${once.tookMs} ms`)
    const refused = await play({ resourceVersion: '1' }, [{ error: lost }, ...Array<ErrorSpec>(40).fill(overShare)])
    t.match(refused, { text: '', error: { code: 'CALLER_OVER_SHARE' } })
  },
)

t.test('what is no such watch', async (t) => {
  const none = (path: string, query: Query, { method = 'GET', upgrade = false, body = false, accept = '' } = {}) => {
    const safety = safetyOf({ method, path, upgrade, body })
    t.equal(watchQuestion({ method, safety }, { path, query: entries(query) }, { accept: [accept] }), undefined, path)
  }
  none('/api/v1/pods', {})
  none('/api/v1/pods', { watch: 'false' })
  none('/api/v1/watch/pods', {})
  none('/api/v1/pods', { watch: '1' }, { method: 'HEAD' })
  none('/api/v1/pods', { watch: '1' }, { upgrade: true })
  none('/api/v1/pods', { watch: '1' }, { body: true })
  none('/api/v1/pods', { watch: '1' }, { accept: 'application/cbor, application/json' })
  none('/api/v1/namespaces/a/services/x/proxy/', { watch: '1' })
  none('/api/v1/namespaces/a/services/x/proxy', { watch: '1' })
  none('/metrics', { watch: '1' })
  none('/apisx/v1/pods', { watch: '1' })
})
