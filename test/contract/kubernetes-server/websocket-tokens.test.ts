import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import {
  tokenLifeMs,
  WebSocketTokens,
  webSocketTokens,
} from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { FakeWatches } from './fake-watches.ts'
import { RawClient } from './raw-client.ts'
import { agentId, createKubernetesServer } from './start-server.ts'
import { tokenProtocol, WatchClient, watchProtocol } from './watch-client.ts'

/**
 * Ways in which a page opens its WebSocket (doc/reference/tunnel-protocol.md 6.8, doc/reference/gitlab-contract.md 3.6
 * and 9.4 no. 39).
 */

const page = 'https://gitlab.example.com'
const secret = Buffer.alloc(72, 7)
const asUser = { Cookie: '_gitlab_kas=as-user', 'Gitlab-Agent-Id': '42', 'X-Csrf-Token': 'c', Origin: page }

/** Starts one replica. Replicas with the same secret accept each other's tokens. */
async function replica(t: Test, more: { secret?: Uint8Array; clock?: ManualClock; off?: boolean } = {}) {
  const clock = more.clock ?? new ManualClock()
  const watches = new FakeWatches()
  const webSocketTokens = new WebSocketTokens({ secret: more.secret ?? secret, clock })
  const components = { clock, ...(more.off ? {} : { webSocketTokens }) }
  const { server, log } = createKubernetesServer(watches.forward, {}, undefined, components)
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const get = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${port}/k8s-proxy${path}`, { headers, ...init })
  const token = async (path = '/watch', headers: Record<string, string> = asUser) => {
    const response = await get(`${path}?kas-websocket-token-request=true`, headers)
    const { token } = (await response.json()) as { token: string }
    return token
  }
  return { port, get, token, watches, webSocketTokens, log }
}

/** Returns the headers that a browser sends. */
const upgrade = (token: string) => [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  `Sec-WebSocket-Protocol: ${watchProtocol}, ${tokenProtocol(token)}`,
]

const refusedWith = (status: number) => ({ message: `Unexpected server response: ${status}` })

// wire: watch.protocol, watch.token, watch.token.protocol, watch.token.replicas
t.test('a page asks one replica for a token and opens its WebSocket at another', async (t) => {
  const clock = new ManualClock()
  const [one, other] = [await replica(t, { clock }), await replica(t, { clock })]
  const response = await one.get('/watch?kas-websocket-token-request=true', asUser)
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'application/json')
  t.equal(response.headers.get('cache-control'), 'no-store')
  t.equal(response.headers.get('access-control-allow-origin'), page)
  t.equal(response.headers.get('access-control-allow-credentials'), 'true')
  const body = (await response.json()) as { token: string }
  t.same(Object.keys(body), ['token'])
  t.match(body.token, /^[\w.-]+$/, 'what a sub-protocol may hold')
  t.equal(one.watches.all.length, 0, 'nothing is sent to the cluster')

  const protocols = [watchProtocol, tokenProtocol(body.token)]
  const client = await WatchClient.open(t, other.port, { protocols, headers: { Origin: page } })
  t.equal(client.socket.protocol, watchProtocol)
  client.watch('a')
  const { header, call } = await other.watches.nth(0)
  t.equal(header.impersonation?.username, 'gitlab:user:ada')
  t.equal(call.agentId, agentId)
  t.notMatch(JSON.stringify(header), body.token)
  t.notMatch(JSON.stringify([one.log, other.log]), body.token)
})

// wire: watch.token.replicas
t.test('a token says nothing to who finds it, and opens nothing else', async (t) => {
  const clock = new ManualClock()
  const { port, token } = await replica(t, { clock })
  const given = await token()
  const parts = given.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1'))
  t.notMatch(parts.join(), /as-user|gitlab|agent/i, 'too long to stand in random bytes by chance')
  const foreign = await replica(t, { secret: Buffer.alloc(72, 8), clock })
  const elsewhere = await token('/api/v1/namespaces/a/pods/b/attach')
  for (const [what, protocols] of [
    ['another secret', [tokenProtocol(await foreign.token())]],
    ['another path', [tokenProtocol(elsewhere)]],
    ['two', [tokenProtocol(given), tokenProtocol(given.slice(1))]],
    ['none', [tokenProtocol('')]],
    ['changed', [tokenProtocol(`${given.slice(0, -8)}AAAAAAAA`)]],
  ] as const) {
    await t.rejects(WatchClient.open(t, port, { protocols: [watchProtocol, ...protocols] }), refusedWith(401), what)
  }
  const raw = await RawClient.open(port)
  t.teardown(() => raw.close())
  const text = await raw.request('GET /k8s-proxy/watch', ...upgrade('x')).toEnd()
  t.match(text, /^HTTP\/1\.1 401 (?:.+\r\n)+\r\n.*"GitLab Agent Server: Unauthorized: WebSocket token: it is not valid/)
  t.match(text, /\r\nGitlab-Unauthorized: true\r\n/)
  clock.advance(tokenLifeMs + 1000)
  await t.rejects(WatchClient.open(t, port, { protocols: [watchProtocol, tokenProtocol(given)] }), refusedWith(401))
})

t.test('whoever is refused gets no token', async (t) => {
  const { get, watches } = await replica(t)
  const ask = '/watch?kas-websocket-token-request=true'
  for (const [status, headers] of [
    [401, {}],
    [401, { ...asUser, Cookie: '_gitlab_kas=bad' }],
    [401, { Cookie: '_gitlab_kas=as-user', 'Gitlab-Agent-Id': '42' }],
    [403, { ...asUser, Origin: 'https://evil.example.com' }],
  ] as [number, Record<string, string>][]) {
    const response = await get(ask, headers)
    t.equal(response.status, status)
    t.notMatch(await response.text(), 'token"')
  }
  const post = await get(ask, asUser, { method: 'POST', headers: asUser })
  t.equal(post.status, 405)
  t.equal(post.headers.get('allow'), 'GET')
  const long = await get(ask, { ...asUser, Cookie: `_gitlab_kas=${'x'.repeat(14_000)}; _gitlab_kas=as-user` })
  t.match(await long.json(), { code: 400, message: /the credentials are too long for a token/ })
  t.equal(watches.all.length, 0)
})

// wire: watch.credentials
t.test('credentials in a header serve as well; beside them a token is not read', async (t) => {
  const { port, watches } = await replica(t)
  const headers = { Authorization: 'Bearer pat:42:as-user' }
  const client = await WatchClient.open(t, port, { protocols: [watchProtocol, tokenProtocol('x')], headers })
  client.watch('a')
  t.equal((await watches.nth(0)).header.impersonation?.username, 'gitlab:user:ada')
  await t.rejects(WatchClient.open(t, port), refusedWith(401), 'without any')
  const query = '/k8s-proxy/watch?gitlab-agent-id=42&gitlab-csrf-token=c'
  const byQuery = await WatchClient.open(t, port, { path: query, headers: { Cookie: '_gitlab_kas=good' } })
  byQuery.watch('b')
  t.equal((await watches.nth(1)).header.impersonation, undefined)
})

/** Answers with the request's head, also to an upgrade. */
const repeat: Cluster = async function* ({ header }) {
  yield head(200)
  yield data(JSON.stringify(header))
  yield trailer
}

// wire: request.websocket-token
t.test('a token for another path opens a WebSocket there', async (t) => {
  const clock = new ManualClock()
  const webSocketTokens = new WebSocketTokens({ secret, clock })
  const { server } = createKubernetesServer(clusterForward(repeat), {}, undefined, { webSocketTokens, clock })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const path = '/api/v1/namespaces/a/pods/b/attach'
  const base = `http://127.0.0.1:${port}/k8s-proxy${path}`
  const given = await fetch(`${base}?kas-websocket-token-request=1`, { headers: asUser })
  const { token } = (await given.json()) as { token: string }
  const raw = await RawClient.open(port)
  t.teardown(() => raw.close())
  const text = await raw.request(`GET /k8s-proxy${path}?stdin=true`, ...upgrade(token)).toEnd()
  const asked = JSON.parse(/{.*}/.exec(text)?.[0] ?? '') as HttpRequestHeader
  t.match(asked, { urlPath: path, query: [['stdin', ['true']]], impersonation: { username: 'gitlab:user:ada' } })
  t.same(Object.fromEntries(asked.header)['Sec-Websocket-Protocol'], [watchProtocol])
  const plain = await fetch(`${base}?stdin=true`, { headers: { 'Sec-WebSocket-Protocol': tokenProtocol(token) } })
  t.equal(plain.status, 401, 'but nothing else')
  const more = await RawClient.open(port)
  t.teardown(() => more.close())
  const another = more.request(`GET /k8s-proxy${path}?kas-websocket-token-request=1`, ...upgrade(token))
  t.match(await another.toEnd(), /^HTTP\/1\.1 401 /, 'and no other token')
})

// wire: watch.404, error.reason
t.test('without the secret there are neither tokens nor watches: GitLab goes without when it gets 404', async (t) => {
  const { port, get, watches } = await replica(t, { off: true })
  for (const path of ['/watch', '/watch?kas-websocket-token-request=true']) {
    const response = await get(path, asUser)
    t.equal(response.status, 404, path)
    t.match(await response.json(), { kind: 'Status', reason: 'NotFound', message: /^GitLab Agent Server: Not found: / })
  }
  const headers = { Authorization: 'Bearer pat:42:good' }
  await t.rejects(WatchClient.open(t, port, { headers }), refusedWith(404))
  t.equal(watches.all.length, 0, 'the cluster is not asked')
})

// wire: secret.websocket
t.test('the secret comes from a file; one that is absent is said, and stops nothing', async (t) => {
  const folder = t.testdir({ good: secret.toString('base64'), short: 'AAAA' })
  const { log, lines } = capturedLog()
  const components = { log, clock: new ManualClock() }
  t.same(await webSocketTokens(components, undefined), {})
  t.equal(lines.length, 0)
  t.same(await webSocketTokens(components, `${folder}/absent`), {})
  t.match(lines, [{ level: 'warn', msg: /absent: watches over WebSocket are off/, file: `${folder}/absent` }])
  await t.rejects(webSocketTokens(components, `${folder}/short`), { code: 'SETTINGS_INVALID' })
  const { webSocketTokens: tokens } = await webSocketTokens(components, `${folder}/good`)
  const credentials = { kind: 'job', agentId: 5n as AgentId, token: 'x' } as const
  const token = await tokens?.seal(credentials, '/watch')
  t.same(await new WebSocketTokens({ ...components, secret }).open([token ?? ''], '/watch'), credentials)
})

t.test('what is no WebSocket of this API', async (t) => {
  const { port, get } = await replica(t)
  const headers = { Authorization: 'Bearer pat:42:good' }
  const plain = await get('/watch', headers)
  t.equal(plain.status, 426)
  t.equal(plain.headers.get('upgrade'), 'websocket')
  t.match(await plain.json(), { message: /sub-protocol gitlab-agent-watch-api is spoken here/ })
  await t.rejects(WatchClient.open(t, port, { headers, protocols: ['v5.channel.k8s.io'] }), refusedWith(426))
  await t.rejects(WatchClient.open(t, port, { headers, protocols: [] }), refusedWith(426))
  const foreign = { ...asUser, Origin: 'https://evil.example.com' }
  await t.rejects(WatchClient.open(t, port, { headers: foreign }), refusedWith(403))
})
