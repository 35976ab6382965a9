import { globSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { OtlpTracing, type OtlpTracingOptions } from '../../../src/lib/tracing/otlp-tracing.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { OtlpCollector } from '../../support/otlp-collector.ts'

/** OpenTelemetry's exporter with a collector. */

const traceId = 'a'.repeat(32)
const spanId = 'b'.repeat(16)
const sentence = 'Spans could not be sent to the collector of traces'

async function startTracing(t: Test, url: string, options: Partial<OtlpTracingOptions> = {}) {
  const { log, lines } = capturedLog()
  const clock = new ManualClock()
  const tracing = new OtlpTracing(
    { log, clock },
    {
      url,
      product: 'gitlab-kas/v1.2.3/abc',
      service: { name: 'gitlab-kas', version: 'v1.2.3', instance: 'kas-0' },
      exportEveryMs: 5,
      flushMs: 200,
      ...options,
    },
  )
  await tracing.start()
  t.teardown(() => tracing.stop(AbortSignal.abort()))
  return { tracing, clock, told: () => lines.filter(({ msg }) => msg === sentence) }
}

t.test('spans come to the collector while the program runs', async (t) => {
  const collector = await OtlpCollector.start(t)
  let token = 'one'
  const headers = async () => ({ Authorization: `Bearer ${token}` })
  const { tracing } = await startTracing(t, `${collector.url}/v1/traces`, { headers })
  const parent = { traceparent: [`00-${traceId}-${spanId}-01`], tracestate: ['a=1', 'no state', 'b=2'] }
  const server = tracing.begin('served', { kind: 'server', parent, attributes: { one: 1, flag: true } })
  t.equal(server.traceId, traceId)
  t.match(server.headers, { traceparent: [new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`)], tracestate: ['a=1,b=2'] })
  const client = tracing.begin('asked', { kind: 'client', parent: server.headers })
  client.set({ 'http.response.status_code': 503 })
  client.end('503')
  client.set({ late: true })
  client.end()
  server.end()
  const [asked, served] = await collector.collected(2)
  t.match(served, {
    service: {
      'service.name': 'gitlab-kas',
      'service.version': 'v1.2.3',
      'service.instance.id': 'kas-0',
      'telemetry.sdk.language': 'nodejs',
    },
    name: 'served',
    kind: 'server',
    traceId,
    parentId: spanId,
    isParentRemote: true,
    traceState: 'a=1,b=2',
    attributes: { one: 1, flag: true },
    isError: false,
  })
  t.match(asked, { kind: 'client', parentId: served?.spanId, isParentRemote: false, isError: true, message: '' })
  t.strictSame(asked?.attributes, { 'http.response.status_code': 503, 'error.type': '503' })
  t.match(collector.requests, [
    { url: '/v1/traces', headers: { authorization: 'Bearer one', 'content-type': 'application/x-protobuf' } },
  ])
  t.match(collector.requests[0]?.headers['user-agent'], /^gitlab-kas\/v1\.2\.3\/abc /)
  token = 'two'
  tracing.begin('later', { kind: 'server' }).end()
  await collector.collected(3)
  t.match(collector.requests[1]?.headers, { authorization: 'Bearer two' })
})

t.test('who asks for no trace gets none, and its callees hear that', async (t) => {
  const collector = await OtlpCollector.start(t)
  const { tracing } = await startTracing(t, collector.url)
  const unsampled = tracing.begin('no', { kind: 'server', parent: { traceparent: [`00-${traceId}-${spanId}-00`] } })
  t.match(unsampled.headers.traceparent, [new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`)])
  tracing.begin('no', { kind: 'client', parent: unsampled.headers }).end()
  unsampled.end()
  const fresh = tracing.begin('yes', { kind: 'server', parent: { traceparent: ['nonsense'] } })
  t.match(fresh.headers, { traceparent: [/-01$/], tracestate: undefined })
  fresh.end()
  await tracing.stop()
  t.match(collector.spans, [{ name: 'yes', parentId: '', traceId: fresh.traceId }])
})

t.test('what runs within a span finds it, however deep, and nothing else does', async (t) => {
  const { tracing } = await startTracing(t, 'http://127.0.0.1:1')
  const [one, two] = [tracing.begin('one', { kind: 'server' }), tracing.begin('two', { kind: 'server' })]
  const ask = async () => {
    await new Promise(setImmediate)
    return tracing.current
  }
  const found = await Promise.all([tracing.within(one, ask), tracing.within(two, ask), ask()])
  t.strictSame(found, [one.headers, two.headers, undefined])
})

t.test('the last spans are sent at the end, all of them', async (t) => {
  const collector = await OtlpCollector.start(t)
  const { tracing } = await startTracing(t, collector.url, { exportEveryMs: 60_000, flushMs: 5000 })
  for (let i = 0; i < 500; i++) tracing.begin(`${i}`, { kind: 'server' }).end()
  await tracing.stop()
  t.equal(collector.spans.length, 500)
  t.doesNotThrow(() => tracing.begin('too late', { kind: 'server' }).end())
  await tracing.stop()
})

t.test('a collector that fails is told once a minute; the end does not wait for it', async (t) => {
  const collector = await OtlpCollector.start(t)
  const { tracing, clock, told } = await startTracing(t, collector.url)
  collector.answer = 'what it was sent'
  const send = async (status: number) => {
    collector.status = status
    const before = collector.requests.length
    tracing.begin('sent', { kind: 'server' }).end()
    await eventually(() => {
      if (collector.requests.length === before) throw new Error('not sent')
    })
  }
  for (let i = 0; i < 5; i++) await send(401)
  await send(200) // sent after the one before has ended and was reported
  t.match(told(), [{ level: 'warn', reason: 'Unauthorized (401)', count: undefined }])
  clock.advance(60_000)
  await send(401)
  await send(200)
  t.match(told().slice(1), [{ level: 'warn', reason: 'Unauthorized (401)', count: 4 }])
  t.notMatch(JSON.stringify(told()), collector.answer)
  clock.advance(60_000)
  collector.silent = true
  await send(401)
  for (let i = 0; i < 20_000; i++) tracing.begin('one of many', { kind: 'server' }).end()
  const began = performance.now()
  await tracing.stop()
  t.ok(performance.now() - began < 2000)
  t.equal(told().length, 3)
})

t.test('what a caller may choose has a limit', async (t) => {
  const collector = await OtlpCollector.start(t)
  const { tracing } = await startTracing(t, collector.url)
  const span = tracing.begin('n'.repeat(12_000), { kind: 'server', attributes: { first: 'a'.repeat(12_000) } })
  span.set({ later: 'b'.repeat(12_000) })
  span.end()
  const [sent] = await collector.collected(1)
  t.equal(sent?.name, 'n'.repeat(256))
  t.strictSame(sent?.attributes, { first: 'a'.repeat(1024), later: 'b'.repeat(1024) })
})

t.test('an export has its own time, which is not that of the end', async (t) => {
  const collector = await OtlpCollector.start(t)
  collector.silent = true
  const { tracing, told } = await startTracing(t, collector.url, { exportMs: 50, flushMs: 60_000 })
  tracing.begin('lost', { kind: 'server' }).end()
  await eventually(() => {
    if (told().length === 0) throw new Error('not told')
  })
  t.match(told(), [{ reason: /time/i }])
})

t.test('a collector that is not there costs nothing', async (t) => {
  const { tracing, told } = await startTracing(t, 'http://127.0.0.1:1')
  tracing.begin('lost', { kind: 'server' }).end()
  await eventually(() => {
    if (told().length === 0) throw new Error('not told')
  })
  t.match(told(), [{ reason: /ECONNREFUSED/ }])
  await tracing.stop()
})

t.test('by TLS a collector is known by its authority', async (t) => {
  const [authority, other] = await Promise.all([Authority.create('one'), Authority.create('other')])
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  let requests = 0
  const server = createServer({ cert, key }, (request, response) => {
    requests += 1
    request.resume().on('end', () => response.end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`
  const send = async (ca: string) => {
    const { tracing, told } = await startTracing(t, url, { secureContext: createSecureContext({ ca }), flushMs: 3000 })
    tracing.begin('sent', { kind: 'server' }).end()
    await tracing.stop()
    return told()
  }
  t.strictSame(await send(authority.certificate), [])
  t.equal(requests, 1)
  t.match(await send(other.certificate), [{ reason: /unable to verify/ }])
  t.equal(requests, 1)
})

t.test('the library is loaded by who switches traces on, and by nobody else', async (t) => {
  const root = join(import.meta.dirname, '../../..')
  const importers = globSync('src/**/*.ts', { cwd: root })
    .flatMap((file) =>
      readFileSync(join(root, file), 'utf8')
        .split('\n')
        .map((line) => ({ file, line })),
    )
    .filter(({ line }) => /otlp-tracing\.ts'|'@opentelemetry\//.test(line) && !line.startsWith('import type '))
    .filter(({ file }) => file !== 'src/lib/tracing/otlp-tracing.ts')
  t.strictSame([...new Set(importers.map(({ file }) => file))].sort(), [
    'src/agentk/config/tracing.ts',
    'src/kas/observability/tracing.ts',
  ])
  t.ok(importers.every(({ line }) => line.includes("await import('../../lib/tracing/otlp-tracing.ts')")))
})
