import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { App } from '../../src/agentk/app.ts'
import { ClusterAccess } from '../../src/agentk/cluster/cluster-access.ts'
import { readConfig } from '../../src/agentk/config/config.ts'
import { parseFlags } from '../../src/agentk/config/flags.ts'
import { createTracing } from '../../src/agentk/config/tracing.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { RawClient } from '../contract/kubernetes-server/raw-client.ts'
import { capturedLog } from '../support/captured-log.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { type Replica, startWholeReplicas } from '../support/gitlab/whole-replicas.ts'
import { type CollectedSpan, OtlpCollector } from '../support/otlp-collector.ts'

/** Traces over an entry replica, the replica that holds the agent, agentk and a cluster, all in this process. */

t.setTimeout(60_000)
const version = { version: '18.5.0', commit: 'test' }
const token = 'Bearer ci:42:job-clusters'
const rpc = kubernetesApiMethod.slice(1)

async function startAgentk(t: Test, { port, cluster, otlp }: { port: number; cluster: string; otlp?: string }) {
  const flags = parseFlags([`--kas-address=grpc://127.0.0.1:${port}`, '--observability-listen-address=127.0.0.1:0'])
  const pod = { AGENTK_TOKEN: 'glagent-prod', POD_NAME: 'agentk-0', POD_NAMESPACE: 'agentk' }
  const config = readConfig(flags, { ...pod, ...(otlp === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: otlp }) })
  const { log } = capturedLog()
  const tracing = await createTracing(log, { config, version })
  const access = new ClusterAccess({ server: cluster })
  const app = new App({ log, access, tracing }, { config, version })
  t.teardown(() => app.stop(AbortSignal.abort()))
  await app.start()
  return app
}

/** Starts the agent at the second replica; callers use the first. Without `otlp`, nothing is traced. */
async function ground(t: Test, otlp?: string) {
  const cluster = await ClusterDouble.start(t)
  const options = { withProxy: true, ...(otlp === undefined ? {} : { otlpEndpoint: otlp }) }
  const { replicas, gitlab } = await startWholeReplicas(t, 2, options)
  const [entry, holder] = replicas as [Replica, Replica]
  const port = holder.portOf('Agentk API')
  const agentk = await startAgentk(t, { port, cluster: cluster.url, ...(otlp === undefined ? {} : { otlp }) })
  const proxy = entry.portOf('Kubernetes API')
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${proxy}${path}`, { headers: { authorization: token, ...headers } })
  const stop = async () => {
    const patience = AbortSignal.timeout(10_000)
    await agentk.stop(patience)
    await Promise.all(replicas.map(({ app }) => app.stop(patience)))
  }
  return { gitlab, replicas, entry, holder, proxy, get, stop }
}

/** A caller that has a trace of its own. */
function caller(sampled = true) {
  const traceId = randomBytes(16).toString('hex')
  const spanId = randomBytes(8).toString('hex')
  const headers = { traceparent: `00-${traceId}-${spanId}-0${Number(sampled)}`, tracestate: 'vendor=some' }
  return { traceId, spanId, headers }
}

const at = ({ service, kind, name }: CollectedSpan) => `${service['service.instance.id']} ${kind} ${name}`

/**
 * The trace that links to the caller's span, from its first span on, each the child of the one before. @throws Error if
 * they are no chain
 */
function chain(spans: readonly CollectedSpan[], { traceId, spanId }: { traceId: string; spanId: string }) {
  const first = spans.find(({ links }) => links.includes(`${traceId} ${spanId}`))
  const left = new Set(spans.filter((span) => span.traceId === first?.traceId))
  const found: CollectedSpan[] = []
  for (let parent = ''; left.size > 0; ) {
    const [next, ...others] = [...left].filter(({ parentId }) => parentId === parent)
    if (!next || others.length > 0) throw new Error(`after ${found.map(at)} come ${[...left].map(at)}`)
    found.push(next)
    left.delete(next)
    parent = next.spanId
  }
  return found
}

// wire: tunnel.metadata.trace, rest.traceparent
t.test('one call is one trace, over entry, holder and agentk', async (t) => {
  const collector = await OtlpCollector.start(t)
  const { gitlab, entry, proxy, get, stop } = await ground(t, collector.url)
  const first = caller()
  t.equal((await get('/warm-up', first.headers)).status, 200)
  const asked = gitlab.of('/job/allowed_agents').at(-1)
  t.match(asked?.headers.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/, 'GitLab is asked as part of a trace')
  t.equal(asked?.headers.tracestate, undefined)

  const plain = caller()
  const seen = (await (await get('/api/v1/pods?token=secret', plain.headers)).json()) as { headers: object }
  t.match(seen.headers, plain.headers, 'the cluster gets what the caller said, as from upstream')
  const refused = await get('/api', { ...caller().headers, authorization: 'Bearer ci:42:unknown' })
  const unsampled = caller(false)
  t.equal((await get('/unsampled', unsampled.headers)).status, 200)
  const alone = (await (await get('/alone')).json()) as { headers: object }
  t.notOk('traceparent' in alone.headers, 'a cluster gets nothing of ours')

  const upgraded = caller()
  const client = await RawClient.open(proxy)
  t.teardown(() => client.close())
  client.request(
    'GET /api/v1/namespaces/a/pods/b/exec?command=secret',
    `Authorization: ${token}`,
    'Connection: Upgrade',
    'Upgrade: SPDY/3.1',
    `traceparent: ${upgraded.headers.traceparent}`,
  )
  await client.until(/101 Switching Protocols[\s\S]*first,/)
  client.write('bytes')
  await client.until(/first,bytes/)
  client.close()
  const broken = caller()
  await t.rejects(
    get('/short', broken.headers).then((answer) => answer.text()),
    'the answer breaks off',
  )

  await stop()
  const { spans } = collector
  const chained = chain(spans, plain)
  t.strictSame(chained.map(at), [
    'kas-0 server GET /*',
    `kas-0 client ${rpc}`,
    `kas-1 server ${rpc}`,
    `kas-1 client ${rpc}`,
    `agentk-0 server ${rpc}`,
    'agentk-0 client GET',
  ])
  t.match(chained, [
    {
      service: { 'service.name': 'gitlab-kas', 'service.version': 'v18.5.0' },
      parentId: '',
      traceState: '',
      attributes: {
        'http.request.method': 'GET',
        'http.response.status_code': 200,
        'url.path': '/api/v1/pods',
        'server.address': '127.0.0.1',
        'server.port': proxy,
        agent_id: 42,
        'kas.outcome': 'answered',
      },
    },
    {
      isParentRemote: false,
      attributes: { 'rpc.system.name': 'grpc', 'rpc.method': rpc, 'rpc.status_code': 'OK', 'kas.answer': 'ready' },
    },
    { isParentRemote: true, attributes: { agent_id: 42, 'rpc.status_code': 'OK' } },
    { attributes: { agent_id: 42 } },
    { service: { 'service.name': 'gitlab-agent' }, isParentRemote: true },
    { attributes: { 'http.response.status_code': 200, 'server.address': '127.0.0.1' } },
  ])
  const own = [first, plain, unsampled].map(({ traceId }) => traceId)
  t.notOk(
    spans.some(({ traceId }) => own.includes(traceId)),
    'nobody from outside decides on a trace',
  )
  t.equal(chain(spans, unsampled).length, chained.length, 'nor on whether there is one')
  const askedIn = asked?.headers.traceparent?.split('-')[1]
  t.ok(spans.some((span) => span.traceId === askedIn && span.links.includes(`${first.traceId} ${first.spanId}`)))
  const exec = chain(spans, upgraded)
  t.match(exec.at(0), { attributes: { 'http.response.status_code': 101, 'kas.outcome': 'upgraded' }, isError: false })
  t.match(exec.at(-1), { name: 'GET', attributes: { 'http.response.status_code': 101 }, isError: false })
  const cut = chain(spans, broken)
  t.match(cut.at(0), { isError: true, attributes: { 'kas.outcome': 'cut', 'error.type': 'UNAVAILABLE' } })
  t.equal(cut.at(-1)?.isError, true)

  const told = JSON.stringify(spans)
  for (const secret of ['secret', 'job-clusters', 'glagent-prod']) t.notMatch(told, secret)
  t.ok(spans.every(({ message }) => message === ''))
  const { message } = (await refused.json()) as { message: string }
  const traceId = /\. Trace ID: ([0-9a-f]{32})$/.exec(message)?.[1]
  t.match(
    spans.find((span) => span.traceId === traceId && span.kind === 'server'),
    {
      attributes: { 'http.response.status_code': 401 },
      isError: false,
    },
  )
  t.ok(entry.lines.some((line) => line.trace_id === traceId && line.msg === 'A request failed'))
})

// wire: tunnel.metadata.trace
t.test('nothing is added for anybody where nothing is traced', async (t) => {
  const { replicas, gitlab } = await startWholeReplicas(t, 2, { withProxy: true })
  const [entry, holder] = replicas as [Replica, Replica]
  const agent = await holder.dial()
  const ask = (authorization: string) =>
    fetch(`http://127.0.0.1:${entry.portOf('Kubernetes API')}/api/v1/pods`, {
      headers: { authorization, ...caller().headers },
    })
  const tunnel = agent.open([kubernetesApiMethod])
  const answer = ask(token)
  const info = await tunnel.next()
  t.equal(info?.kind, 'requestInfo')
  t.strictSame(Object.keys((info as { meta: object }).meta), [], 'also of what the caller said of its own')
  tunnel.error(7, 'not you')
  tunnel.stream.end()
  t.match(await (await answer).json(), { code: 502, message: /not you$/ })
  t.match(await (await ask('Bearer ci:42:unknown')).json(), { message: /401 for path \/api\/v4\/job\/allowed_agents$/ })
  t.ok(gitlab.calls.length > 1)
  t.ok(gitlab.calls.every((call) => call.headers.traceparent === undefined))
})

t.test('a collector that takes nothing costs no call', async (t) => {
  const collector = await OtlpCollector.start(t)
  collector.status = 400
  const { entry, get, stop } = await ground(t, `${collector.url}/some/path`)
  for (let i = 0; i < 20; i++) t.equal((await get('/api')).status, 200)
  await stop()
  t.ok(collector.requests.some(({ url }) => url === '/some/path'))
  t.match(
    entry.lines.filter(({ msg }) => msg === 'Spans could not be sent to the collector of traces'),
    [{ level: 'warn', mod_name: 'observability', reason: 'Bad Request (400)' }],
  )
})
