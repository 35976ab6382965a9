import type { AddressInfo } from 'node:net'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { Call, Forward } from '../../../src/call/call.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { gitlabAccessMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { eventually } from '../../support/eventually.ts'
import { echoMethod } from '../../support/fake-agent.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type RecordedSpan, RecordedTracer } from '../../support/recorded-tracer.ts'
import { access, startAccess } from '../gitlab-agents/access-side.ts'
import { FakeWatches } from '../kubernetes-server/fake-watches.ts'
import { RawClient } from '../kubernetes-server/raw-client.ts'
import { createKubernetesServer, good, startServer } from '../kubernetes-server/start-server.ts'
import { WatchClient } from '../kubernetes-server/watch-client.ts'
import { callUnary, connect, goodMetadata, metadataOf, startRailsServer } from '../rails-server/start-server.ts'

/** Spans that each server records of a call. */

const traceId = 'a'.repeat(32)
const spanId = 'b'.repeat(16)
const traceparent = `00-${traceId}-${spanId}-01`
const of = ({ traceId: id, spanId: span }: RecordedSpan) => `00-${id}-${span}-01`

/** @returns the calls that arrive; each is refused with the next error */
function refusing(...errors: unknown[]) {
  const calls: Call[] = []
  const forward: Forward = async (call) => {
    calls.push(call)
    throw errors.shift()
  }
  return { calls, forward }
}

async function startTraced(t: Test, forward: Forward) {
  const tracer = new RecordedTracer()
  const started = await startServer(forward, {}, undefined, { tracer })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = async (...lines: [string, ...string[]]) => {
    const client = await RawClient.open(started.port)
    const text = await client.request(...lines, 'Connection: close').toEnd()
    return { status: Number(text.split(' ', 2)[1]), id: /Trace ID: ([0-9a-f]{32})["\n]/.exec(text)?.[1] }
  }
  return { ...started, tracer, ask }
}

// wire: error.trace-id.traced, log.trace_id
t.test('8154: each error names its trace, and the log has it', async (t) => {
  const { calls, forward } = refusing(
    new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 }),
    new KasError({ code: 'SHUTTING_DOWN' }),
  )
  const { tracer, ask, log } = await startTraced(t, forward)
  const line = `Traceparent: ${traceparent}`
  const answers = [
    await ask('GET /k8s-proxy/api?a=secret', good, line),
    await ask('GET /k8s-proxy/api', good, line),
    await ask('GET /k8s-proxy/api', 'Authorization: Bearer ci:42:broken'),
    await ask('PROPFIND /elsewhere', 'Authorization: Bearer ci:42:no'),
  ]
  t.strictSame(
    answers.map(({ status }) => status),
    [502, 503, 500, 400],
  )
  const { spans } = tracer
  t.strictSame(
    answers.map(({ id }) => id),
    spans.map((span) => span.traceId),
  )
  t.match(spans, [
    { name: 'GET /k8s-proxy/*', parentId: undefined, linkedId: spanId, ended: true, failure: 'AGENT_NOT_CONNECTED' },
    {
      parentId: undefined,
      linkedId: spanId,
      ended: true,
      failure: 'SHUTTING_DOWN',
      attributes: { 'http.response.status_code': 503 },
    },
    { parentId: undefined, linkedId: undefined, ended: true, failure: 'INTERNAL', attributes: { agent_id: 42 } },
    {
      name: 'HTTP',
      failure: undefined,
      attributes: { 'http.route': undefined, 'url.path': '/elsewhere', 'http.request.method_original': 'PROPFIND' },
    },
  ])
  t.strictSame(
    calls.map(({ metadata }) => metadata.traceparent),
    spans.slice(0, 2).map((span) => [of(span)]),
  )
  const lines = log.map((one) => JSON.parse(one)).filter(({ msg }) => msg === 'A request failed')
  t.strictSame(
    lines.map(({ trace_id }) => trace_id),
    spans.map((span) => span.traceId),
  )
  t.notMatch(JSON.stringify(spans), 'secret')
})

t.test('8154: watches over a WebSocket are part of its span, their errors name its trace', async (t) => {
  const tracer = new RecordedTracer()
  const watches = new FakeWatches()
  const clock = new ManualClock()
  const webSocketTokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock })
  const { server } = createKubernetesServer(watches.forward, {}, undefined, { tracer, clock, webSocketTokens })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const client = await WatchClient.open(t, port, { headers: { Authorization: 'Bearer pat:42:good', traceparent } })
  client.watch('a').watch('b')
  const [span] = tracer.spans as [RecordedSpan]
  t.match(span, { linkedId: spanId, ended: false })
  for (const i of [0, 1]) t.strictSame((await watches.nth(i)).call.metadata, { traceparent: [of(span)] })
  client.watch('c', { resource: '' })
  const { error } = await client.next()
  t.match(error?.object.message, `. Trace ID: ${span.traceId}`)
  client.socket.close()
  await client.closed
  await eventually(() => {
    if (!span.ended) throw new Error('not ended')
  })
  t.match(span, { failure: undefined, attributes: { 'http.response.status_code': 101, 'kas.outcome': 'upgraded' } })
})

t.test('8153: calls of GitLab, for kas and for agents', async (t) => {
  const tracer = new RecordedTracer()
  const { calls, forward } = refusing(new KasError({ code: 'AGENT_SATURATED', waitedMs: 1 }))
  const { port, log } = await startRailsServer(t, {
    components: { tracer, forward, methods: new Map([['/a.B/C', () => Promise.reject(new TypeError('a detail'))]]) },
  })
  const client = connect(t, port)
  const call = async (method: string, more: Record<string, string> = {}) =>
    callUnary(client, method, Buffer.alloc(0), await goodMetadata({ traceparent, tracestate: 'a=1', ...more }))
  const { details } = await call('/a.B/C')
  t.equal(details, `Internal error. Trace ID: ${traceId}`)
  const inside = log.map((one) => JSON.parse(one)).find(({ level }) => level === 'error')
  t.match(inside, { trace_id: traceId, grpc_method: '/a.B/C' })
  t.equal((await call(echoMethod, { 'kas-hop-routing-agent-id': '42' })).code, grpc.status.RESOURCE_EXHAUSTED)
  t.equal((await callUnary(client, '/a.B/C', Buffer.alloc(0), new grpc.Metadata())).code, grpc.status.UNAUTHENTICATED)
  const { spans } = tracer
  t.match(spans, [
    { name: 'a.B/C', kind: 'server', parentId: spanId, failure: 'INTERNAL', ended: true },
    {
      name: 'test.Echo/Echo',
      failure: undefined,
      attributes: { agent_id: 42, 'rpc.status_code': 'RESOURCE_EXHAUSTED' },
    },
    { parentId: undefined, failure: undefined, attributes: { 'rpc.status_code': 'UNAUTHENTICATED' } },
  ])
  t.strictSame(calls[0]?.metadata, { traceparent: [of(spans[1] as RecordedSpan)], tracestate: ['a=1'] })
  t.notMatch(JSON.stringify(spans), 'a detail')
})

t.test('8153: a stranger decides neither on a trace, nor on its sampling, nor on names', async (t) => {
  const tracer = new RecordedTracer()
  const methods = new Map([['/a.B/C', async () => Buffer.alloc(0)]])
  const { port } = await startRailsServer(t, { components: { tracer, methods } })
  const client = connect(t, port)
  const said = metadataOf({ traceparent: `00-${traceId}-${spanId}-00`, tracestate: 'a=1' })
  const madeUp = `a.B/${'x'.repeat(2000)}`
  for (const method of ['/a.B/C', `/${madeUp}`]) {
    t.equal((await callUnary(client, method, Buffer.alloc(0), said)).code, grpc.status.UNAUTHENTICATED)
  }
  const root = {
    kind: 'server',
    parentId: undefined,
    linkedId: spanId,
    isSampled: true,
    failure: undefined,
    ended: true,
  }
  t.match(tracer.spans, [
    { ...root, name: 'a.B/C', attributes: { 'rpc.method': 'a.B/C', 'rpc.status_code': 'UNAUTHENTICATED' } },
    { ...root, name: 'grpc', attributes: { 'rpc.method': '_OTHER', 'rpc.method_original': madeUp } },
  ])
  t.ok(tracer.spans.every((span) => span.traceId !== traceId))
})

// wire: rest.traceparent, auth.trace
t.test('8150: an agent’s own calls, and what GitLab is asked for them', async (t) => {
  const tracer = new RecordedTracer()
  const { gitlab, dial } = await startAccess(t, { side: { tracer } })
  const other = `00-${'c'.repeat(32)}-${spanId}-01`
  gitlab.module = (request, response) => response.writeHead(request.url?.includes('teapot') ? 418 : 200).end()
  const agent = await dial()
  const header = { Traceparent: [other], Tracestate: ['other=1'], 'X-One': ['1'] }
  t.equal((await access(agent, { header, contentLength: 0, query: { a: ['secret'] } })).statusCode, 200)
  t.equal((await access(agent, { path: '/teapot', contentLength: 0 })).statusCode, 418)
  const [info, served, passed] = tracer.spans as [RecordedSpan, RecordedSpan, RecordedSpan]
  t.match(served, { kind: 'server', ended: true, failure: undefined, attributes: { agent_id: 42 } })
  t.match(info, {
    kind: 'client',
    name: /^GET \/api\/v4\/internal\/.*agent_info$/,
    parentId: undefined, // asks who calls, so it has no parent yet
    ended: true,
  })
  t.match(passed, {
    name: 'GET /api/v4/internal/kubernetes/modules',
    parentId: served.spanId,
    ended: true,
    failure: undefined,
    attributes: { 'http.response.status_code': 200, 'server.address': '127.0.0.1' },
  })
  const asked = gitlab.calls.find(({ path }) => path.includes('/modules/'))
  t.match(asked?.headers, { traceparent: of(passed), tracestate: undefined, 'x-one': '1' })
  t.match(gitlab.calls.find(({ path }) => path.includes('agent_info'))?.headers, { traceparent: of(info) })
  t.match(tracer.spans.at(-1), { failure: '418' })

  gitlab.fault = { kind: 'status', status: 503 }
  const stranger = await dial('unknown')
  const refused = stranger.session.open({
    method: gitlabAccessMethod,
    metadata: { authorization: ['Bearer unknown'], traceparent: [`00-${traceId}-${spanId}-00`] },
  })
  refused.end()
  await refused.done
  t.ok(tracer.spans.some(({ failure }) => failure === '503'))
  const turnedAway = tracer.spans.at(-1)
  t.match(turnedAway, { kind: 'server', parentId: undefined, linkedId: spanId, isSampled: true, ended: true })
  t.not(turnedAway?.traceId, traceId)
  t.ok(tracer.spans.every((span) => span.traceId !== traceId))

  const known = agent.session.open({
    method: gitlabAccessMethod,
    metadata: { authorization: ['Bearer glagent-prod'], traceparent: [traceparent] },
  })
  known.end()
  await known.done
  t.match(tracer.spans.at(-1), { kind: 'server', traceId, parentId: spanId })
  t.ok(tracer.spans.every(({ ended }) => ended))
  t.notMatch(JSON.stringify(tracer.spans), /secret|glagent|unknown/)
})
