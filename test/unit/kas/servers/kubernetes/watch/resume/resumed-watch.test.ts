import t from 'tap'
import { type AgentId, type Call, noMetadata, type Reply } from '../../../../../../../src/call/call.ts'
import { kasCaller } from '../../../../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../../../../src/call/known-messages.ts'
import { safetyOf } from '../../../../../../../src/call/safety.ts'
import { PartialBytesByAgent } from '../../../../../../../src/kas/servers/kubernetes/watch/partial-bytes.ts'
import { ResumedWatches } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/resumed-watches.ts'
import { watchQuestion } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/watch-question.ts'
import { type ErrorSpec, KasError } from '../../../../../../../src/lib/errors.ts'
import { decodeHttpResponse, encodeHttpResponse } from '../../../../../../../src/proto/http/http-over-grpc.ts'
import { ManualClock } from '../../../../../../support/manual-clock.ts'

/** A watch whose every opening is answered as the test says. */

type Query = Readonly<Record<string, string>>

interface Answer {
  readonly status?: number
  /** it ends before its head */
  readonly headless?: boolean
  readonly type?: string
  /** pieces of the body; a number: so many ms pass before the next one */
  readonly body?: readonly (string | Uint8Array | number)[]
  /** absent: it ends in order */
  readonly error?: ErrorSpec
}

const lost: ErrorSpec = { code: 'TUNNEL_LOST', delivery: 'maybe' }
const event = (type: string, version: string | number, more = '') =>
  `{"type":"${type}","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"${version}"${more}}}}\n`
const initialEnd = ',"annotations":{"k8s.io/initial-events-end":"true"}'

function entries(query: Query): [string, string[]][] {
  return Object.entries(query).map(([name, value]): [string, string[]] => [name, [value]])
}

interface Played {
  readonly text: string
  readonly bytes: Buffer
  readonly error: KasError | undefined
  /** of each opening */
  readonly asked: readonly Query[]
  readonly resumed: number
  /** ms, until it ended */
  readonly tookMs: number
}

const nobodyAsks = async () => {}

/** Plays it to its end; an opening without an answer of its own fails with AGENT_NOT_CONNECTED. */
async function play(
  query: Query,
  answers: readonly (Answer | ErrorSpec)[],
  { maxBytes = 1 << 20, mayGoOn = nobodyAsks }: { maxBytes?: number; mayGoOn?: () => Promise<void> } = {},
): Promise<Played> {
  const { signal } = new AbortController()
  const clock = new ManualClock()
  const began = clock.now()
  const asked: Query[] = []
  let resumed = 0
  const forward = async (call: Call): Promise<Reply> => {
    asked.push(JSON.parse(String((call.messages as KnownMessages).all[0])) as Query)
    const answer = answers[asked.length - 1] ?? { code: 'AGENT_NOT_CONNECTED', waitedMs: 0 }
    if ('code' in answer) throw new KasError(answer)
    const { status = 200, type = 'application/json', body = [], headless = false, error } = answer
    const messages = (async function* () {
      if (headless) return
      const header: [string, string[]][] = [['Content-Type', [type]]]
      yield encodeHttpResponse.header({ statusCode: status, status: '', header })
      for (const piece of body) {
        if (typeof piece === 'number') clock.advance(piece)
        else yield encodeHttpResponse.data(Buffer.from(piece))
      }
      if (!error) yield encodeHttpResponse.trailer
    })()
    const done = Promise.resolve({ trailers: noMetadata, ...(error ? { error: new KasError(error) } : {}) })
    return { metadata: Promise.resolve(noMetadata), messages, done }
  }
  const limits = { maxWatchPartialBytes: maxBytes }
  const kept = new PartialBytesByAgent(maxBytes)
  const watches = new ResumedWatches({ forward, clock, random: () => 0.5, onResumed: () => resumed++, kept }, limits)
  const target = { path: '/api/v1/pods', query: entries({ watch: '1', ...query }) }
  const question = watchQuestion({ method: 'GET', safety: 'safe' }, target, { accept: [] })
  if (!question) throw new Error('it is a watch')
  const messagesOf = (asks: [string, string[]][]) => {
    const plain = Object.fromEntries(asks.map(([name, [value]]) => [name, value]))
    return new KnownMessages([Buffer.from(JSON.stringify(plain))])
  }
  const call = {
    agentId: 42n as AgentId,
    method: '/a.B/C',
    metadata: {},
    safety: 'safe',
    caller: kasCaller,
    signal,
  } as const
  const reply = await watches.open(question, { ...call, messagesOf }, { mayGoOn })
  const chunks: Uint8Array[] = []
  let isRead = false
  const reading = (async () => {
    for await (const message of reply.messages) {
      const decoded = decodeHttpResponse(message)
      if (decoded.kind === 'data') chunks.push(decoded.data)
    }
    isRead = true
  })()
  while (!isRead) {
    await new Promise(setImmediate)
    if (!isRead) clock.advance(50)
  }
  await reading
  const bytes = Buffer.concat(chunks)
  const { error } = await reply.done
  return { text: bytes.toString(), bytes, error, asked, resumed, tookMs: clock.now() - began }
}

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

for (const query of [{}, { resourceVersion: '0' }, { resourceVersion: '' }] as const) {
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
  const bytesField = (field: number, value: Uint8Array) =>
    Buffer.concat([Buffer.from([(field << 3) | 2, value.length]), value])
  const text = (field: number, value: string) => bytesField(field, Buffer.from(value))
  const framed = (body: Uint8Array) => Buffer.concat([Buffer.from([0, 0, 0, body.length]), body])
  const protobuf = (type: string, version: string) => {
    const pod = bytesField(1, Buffer.concat([text(1, 'a'), text(6, version)]))
    const raw = Buffer.concat([Buffer.from('k8s\0'), bytesField(2, pod)])
    return framed(Buffer.concat([text(1, type), bytesField(2, bytesField(1, raw))]))
  }
  const type = 'application/vnd.kubernetes.protobuf;stream=watch'
  const [one, two, three] = [protobuf('ADDED', '7'), protobuf('MODIFIED', '8'), protobuf('DELETED', '9')]
  const { bytes, asked } = await play({}, [
    { type, body: [one, Buffer.concat([two, three.subarray(0, 9)])], error: lost },
    { type, body: [three.subarray(0, 2), Buffer.concat([three.subarray(2), protobuf('BOOKMARK', '10')])], error: lost },
    { type: 'application/vnd.kubernetes.protobuf', status: 410, body: [Buffer.from('k8s\0status')] },
  ])
  const refusal = framed(Buffer.concat([text(1, 'ERROR'), bytesField(2, text(1, 'k8s\0status'))]))
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

t.test('frames that an aggregated API breaks, versions beyond all bounds: it does not go on', async (t) => {
  for (const broken of [
    '{\n"type":"ADDED"}\n',
    'x\n',
    '{"type":"ADDED","object":{}}\n',
    event('ADDED', 'v'.repeat(100_000)),
  ]) {
    const { text, error } = await play({ resourceVersion: '1' }, [{ body: [event('ADDED', 2), broken], error: lost }])
    t.equal(text, event('ADDED', 2) + broken)
    t.equal(error?.code, 'TUNNEL_LOST')
  }
  const strange = '5&watch=0 7'
  const { asked } = await play({ resourceVersion: '1' }, [{ body: [event('ADDED', strange)], error: lost }, {}])
  t.equal(asked[1]?.resourceVersion, strange, 'a value, not a part of a query')
})

t.test('events of 1.5 MB pass; what is longer than may be kept passes in pieces', async (t) => {
  const large = event('MODIFIED', 12, `,"annotations":{"a":"${'x'.repeat(1_500_000)}"}`)
  const pieces = Array.from({ length: Math.ceil(large.length / 65_536) }, (_, i) =>
    large.slice(i * 65_536, (i + 1) * 65_536),
  )
  const whole = await play(
    { resourceVersion: '1' },
    [{ body: [...pieces.slice(0, -1)], error: lost }, { body: pieces }],
    { maxBytes: 2 << 20 },
  )
  t.equal(whole.text, large)
  const longer = await play({ resourceVersion: '1' }, [
    { body: [...pieces, event('BOOKMARK', 13) + event('ADDED', 14)], error: lost },
    { body: [event('ADDED', 15)] },
  ])
  t.equal(longer.text, large + event('ADDED', 14) + event('ADDED', 15), 'behind it all is as before')
  t.equal(longer.asked[1]?.resourceVersion, '14')
  const within = await play({ resourceVersion: '1' }, [{ body: pieces.slice(0, -1), error: lost }])
  t.equal(within.text, pieces.slice(0, -1).join(''))
  t.equal(within.error?.code, 'TUNNEL_LOST', 'its client has half of it')
})

t.test('tries are paced, and end after two minutes in vain', async (t) => {
  const { asked, error, tookMs } = await play({ resourceVersion: '1' }, [{ error: lost }])
  t.equal(error?.code, 'TUNNEL_LOST')
  t.ok(tookMs > 115_000 && tookMs < 130_000, `${tookMs} ms`)
  t.ok(asked.length > 15 && asked.length < 40, `${asked.length} tries`)
})

t.test('a cluster that sends an event and cuts gains nothing by it', async (t) => {
  const answers = Array.from({ length: 30 }, (_, i): Answer => ({ body: [event('ADDED', i + 2)], error: lost }))
  const { asked, tookMs } = await play({ resourceVersion: '1' }, [...answers, {}])
  t.equal(asked.length, 31)
  t.ok(tookMs > 100_000, `${tookMs} ms for 30 of them`)
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

t.test('whose tunnel is recalled, or who is over his share when it goes on, is told in order', async (t) => {
  const recalled = await play({ resourceVersion: '1' }, [
    { body: [event('ADDED', 2), '{"type":"AD'], error: { code: 'WATCH_RECALLED' } },
  ])
  t.match(recalled, { text: event('ADDED', 2), error: undefined })
  const held = { agentId: '42', held: 9, living: 10, watches: 9, retryAfterS: 5 }
  const overShare: ErrorSpec = { code: 'CALLER_OVER_SHARE', ...held }
  const once = await play({ resourceVersion: '1' }, [{ error: lost }, overShare, { body: [event('ADDED', 2)] }])
  t.match(once, { text: event('ADDED', 2), error: undefined })
  t.ok(once.tookMs >= 5000, `${once.tookMs} ms`)
  const refused = await play({ resourceVersion: '1' }, [{ error: lost }, ...Array<ErrorSpec>(40).fill(overShare)])
  t.equal(refused.error, undefined)
  t.match(JSON.parse(refused.text), {
    type: 'ERROR',
    object: { code: 429, reason: 'TooManyRequests', message: /^You hold 9 of/ },
  })
})

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
