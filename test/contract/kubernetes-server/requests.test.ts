import t from 'tap'
import type { Headers, HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { type Cluster, clusterForward, data, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { good, startServer } from './start-server.ts'

/** Requests that the cluster gets and answers that the caller gets (doc/reference/tunnel-protocol.md 6.1 to 6.4). */

async function setUp(t: Tap, cluster: Cluster) {
  const started = await startServer(clusterForward(cluster))
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const client = await RawClient.open(started.port)
  t.teardown(() => client.close())
  return { ...started, client }
}
type Tap = typeof t | import('tap').Test

type Echo = Omit<HttpRequestHeader, 'header'> & { header: Headers; body: string; safety: string }
const echoed = (text: string) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as Echo

// wire: request.path, request.query, request.credentials, request.hop-by-hop, request.via, 8154.prefix.slash
// wire: http.length.0, http.names, http.path
t.test('a request without a body', async (t) => {
  const { client, count } = await setUp(t, echo)
  client.request(
    'GET /k8s-proxy/api/v1/pods%20x?pretty=1&labelSelector=a%3Db&a=2&gitlab-agent-id=1',
    good,
    'user-agent: kubectl',
    'Cookie: x=1; _gitlab_kas=secret; _gitlab_session=secret',
    'X-Csrf-Token: secret',
    'Gitlab-Kas-Accel: secret',
    'connection: keep-alive, x-hop',
    'x-hop: 1',
    'Via: 1.1 front',
    'impersonate-user: bob',
    'audit-id: of-the-caller',
  )
  const text = await client.until(/"safety":"safe"}$/)
  t.match(text, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(text, /\r\nVia: gRPC\/1\.0 gitlab-kas\/v1\.2\.3\/abc\r\n/)
  t.notMatch(text, /\r\nServer:/i)
  const { body, safety, ...header } = echoed(text)
  const [auditId = ''] = header.header.find(([name]) => name === 'Audit-Id')?.[1] ?? []
  t.same(header, {
    method: 'GET',
    urlPath: '/api/v1/pods x',
    query: [
      ['a', ['2']],
      ['labelSelector', ['a=b']],
      ['pretty', ['1']],
    ],
    rawQuery: 'pretty=1&labelSelector=a%3Db&a=2',
    header: [
      ['User-Agent', ['kubectl']],
      ['Via', ['1.1 front', 'gRPC/1.0 gitlab-kas/v1.2.3/abc']],
      ['Impersonate-User', ['bob']],
      ['X-Forwarded-Host', ['kas']],
      ['X-Forwarded-Proto', ['http']],
      ['Cookie', ['x=1']],
      ['Audit-Id', [auditId]],
    ],
    contentLength: 0,
  })
  t.match(auditId, /^[0-9a-f-]{36}$/, 'that of the caller does not come')
  t.equal(body, '')
  t.equal(safety, 'safe')
  client.text = ''
  client.request('GET /k8s-proxy', good)
  t.equal(echoed(await client.until(/"safety":"safe"}$/)).urlPath, '/', 'the same connection again')
  t.equal(await count('answered'), 2)
})

// wire: request.body, http.length.-1
t.test('bodies', async (t) => {
  const { client } = await setUp(t, echo)
  client.request('POST /k8s-proxy/a', good, 'Content-Length: 5').write('hello')
  t.match(echoed(await client.until(/}$/)), { body: 'hello', contentLength: 5, safety: 'unsafe' })
  client.text = ''
  client
    .request('PATCH /k8s-proxy/a', good, 'Transfer-Encoding: chunked')
    .write('3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n')
  t.match(echoed(await client.until(/}$/)), { method: 'PATCH', body: 'abcde', contentLength: -1 })
  client.text = ''
  client.request('POST /k8s-proxy/a', good, 'Content-Length: 0')
  t.match(echoed(await client.until(/}$/)), { body: '', contentLength: 0 })
  client.text = ''
  client.request('PROPFIND /k8s-proxy/a', good)
  t.match(echoed(await client.until(/}$/)), { method: 'PROPFIND', contentLength: 0 })
})

// wire: credential.ci, credential.pat, credential.cookie, credential.cookie.several, as.agent, as.ci_job, as.user
t.test('who acts', async (t) => {
  const { client } = await setUp(t, echo)
  const impersonation = async (...headers: string[]) => {
    client.text = ''
    client.request('GET /k8s-proxy/a', ...headers)
    return echoed(await client.until(/}$/)).impersonation?.username
  }
  t.equal(await impersonation('Authorization: Bearer ci:42:as-job'), 'gitlab:ci_job:900')
  t.equal(await impersonation('Authorization: Bearer pat:42:good'), undefined)
  t.equal(await impersonation('Authorization: Bearer pat:42:as-user'), 'gitlab:user:ada')
  const browser = ['Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']
  t.equal(await impersonation('Cookie: _gitlab_kas=bad; _gitlab_kas=as-user', ...browser), 'gitlab:user:ada')
})

t.test('a whole URL as target, HTTP/1.0', async (t) => {
  const { client } = await setUp(t, echo)
  client.request('GET http://kas.example.com/k8s-proxy/api?a=1', good)
  t.match(echoed(await client.until(/}$/)), { urlPath: '/api', query: [['a', ['1']]] })
  client.text = ''
  client.write(`GET /k8s-proxy/api HTTP/1.0\r\n${good}\r\n\r\n`)
  t.match(echoed(await client.toEnd()), { urlPath: '/api' })
})

// wire: answer.hop-by-hop, answer.server, answer.cors, answer.via, 8154.origin.good, error.credential.header
t.test('what a cluster answers', async (t) => {
  const { client } = await setUp(t, async function* () {
    yield head(
      418,
      [
        ['Server', ['cluster']],
        ['Via', ['2.0 gitlab-agent/v1/x']],
        ['Warning', ['299 - "a"', '299 - "b"']],
        ['Connection', ['X-Hop']],
        ['X-Hop', ['1']],
        ['X-Accel-Redirect', ['/secret']],
        ['X_Accel_Redirect', ['/secret']],
        ['x-accel-internal', ['/secret']],
        ['X-Sendfile', ['/etc/passwd']],
        ['X_SENDFILE', ['/etc/passwd']],
        ['X-Sendfile2', ['/etc/passwd']],
        ['X-LIGHTTPD-send-file', ['/etc/passwd']],
        ['X-LiteSpeed-Purge', ['*']],
        ['X-Reproxy-URL', ['http://127.0.0.1/']],
        ['X-Envoy-Immediate-Health-Check-Fail', ['1']],
        ['Surrogate-Control', ['content="ESI/1.0"']],
        ['Gitlab_Workhorse_Send_Data', ['x']],
        ['Gitlab-Unauthorized', ['true']],
        ['Access-Control-Allow-Origin', ['*']],
        ['Vary', ['Accept']],
        ['Content-Length', ['2']],
        ['Date', ['Sat, 21 Nov 2026 00:00:00 GMT']],
      ],
      'I am a teapot',
    )
    yield data('ok')
    yield trailer
  })
  client.request('GET /k8s-proxy/', good, 'Origin: https://gitlab.example.com')
  const text = await client.until(/ok$/)
  t.same(
    text.split('\r\n').filter((line) => !line.startsWith('Keep-Alive')),
    [
      'HTTP/1.1 418 I am a teapot',
      'Access-Control-Allow-Origin: https://gitlab.example.com',
      'Access-Control-Allow-Credentials: true',
      'Vary: Origin',
      'Server: cluster',
      'Via: 2.0 gitlab-agent/v1/x',
      'Warning: 299 - "a"',
      'Warning: 299 - "b"',
      'Vary: Accept',
      'Date: Sat, 21 Nov 2026 00:00:00 GMT',
      'Content-Length: 2',
      'Via: gRPC/1.0 gitlab-kas/v1.2.3/abc',
      'Connection: keep-alive',
      '',
      'ok',
    ],
  )
})

t.test('answers without a body', async (t) => {
  const { client } = await setUp(t, async function* ({ header }) {
    const code = Number(header.urlPath.slice(1))
    yield head(code, code === 204 ? [] : [['Content-Length', ['10']]])
    yield trailer
  })
  for (const [line, code] of [
    ['HEAD /k8s-proxy/200', 200],
    ['GET /k8s-proxy/204', 204],
    ['GET /k8s-proxy/304', 304],
  ] as const) {
    client.text = ''
    client.request(line, good)
    t.match(await client.until(/\r\n\r\n$/), new RegExp(`^HTTP/1\\.1 ${code} `))
  }
  client.text = ''
  client.request('GET /k8s-proxy/204', good)
  t.match(await client.until(/\r\n\r\n$/), /^HTTP\/1\.1 204 /, 'nothing was left on the connection')
})

const cookie = ['Cookie: _gitlab_kas=as-user', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']

// wire: 8154.preflight, 8154.origin.good, 8154.origin.port
t.test('preflights and foreign pages', async (t) => {
  const { client, count } = await setUp(t, echo)
  client.request(
    'OPTIONS /anything',
    'Origin: https://gitlab.example.com:8443',
    'Access-Control-Request-Method: GET',
    'Access-Control-Request-Headers: x-a, x-b',
  )
  const text = await client.until(/\r\n\r\n$/)
  t.match(text, /^HTTP\/1\.1 200 OK\r\n/)
  for (const line of [
    'Access-Control-Allow-Origin: https://gitlab.example.com:8443',
    'Access-Control-Allow-Credentials: true',
    'Vary: Origin',
    'Access-Control-Allow-Headers: x-a, x-b',
    'Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH',
    'Access-Control-Max-Age: 86400',
    'Server: gitlab-kas/v1.2.3/abc',
    'Content-Length: 0',
  ]) {
    t.ok(text.includes(`\r\n${line}\r\n`), line)
  }
  const refused = [
    ['OPTIONS /k8s-proxy/', good, 'Access-Control-Request-Method: GET'],
    ['OPTIONS /k8s-proxy/', ...cookie],
    ['GET /k8s-proxy/', ...cookie],
  ] as const
  for (const [line, ...headers] of refused) {
    client.text = ''
    client.request(line, ...headers, 'Origin: https://evil.example.com')
    const text = await client.until(/"code":403}\n$/)
    t.match(text, /^HTTP\/1\.1 403 Forbidden\r\n/)
    t.match(text, /"message":"GitLab Agent Server: Forbidden: the Origin of the request is not that of GitLab/)
    t.notMatch(text, /Access-Control|evil/)
  }
  t.equal(await count('foreign_origin'), 3)
  t.equal(await count('preflight'), 1)
})

// wire: 8154.preflight
t.test('OPTIONS that is no preflight is the caller\u2019s own: it goes to the cluster, with credentials', async (t) => {
  const { client, count } = await setUp(t, echo)
  const gitlab = 'Origin: https://gitlab.example.com'
  const asked = 'Access-Control-Request-Method: GET'
  for (const headers of [[good], [good, gitlab], [good, asked], [good, 'Origin: https://evil.example.com']]) {
    client.text = ''
    client.request('OPTIONS /k8s-proxy/api/v1/namespaces/t/services/web/proxy/', ...headers)
    t.match(echoed(await client.until(/}$/)), { method: 'OPTIONS', safety: 'unsafe' }, headers.join())
  }
  client.text = ''
  client.request('OPTIONS /k8s-proxy/api', ...cookie, gitlab)
  t.match(echoed(await client.until(/}$/)), { method: 'OPTIONS', impersonation: { username: 'gitlab:user:ada' } })
  for (const headers of [[], [gitlab], [asked]]) {
    client.text = ''
    client.request('OPTIONS /k8s-proxy/api', ...headers)
    t.match(await client.until(/"code":401}\n$/), /no valid credentials provided/, headers.join())
  }
  t.equal(await count('preflight'), 0)
})

t.test('requests that are sent before the last one is answered', async (t) => {
  const { client } = await setUp(t, echo)
  client.request('GET /k8s-proxy/1', good).request('GET /k8s-proxy/2', good).request('GET /none', good)
  const text = await client.until(/"code":400}\n$/)
  t.match(text, /"urlPath":"\/1".*"urlPath":"\/2"/s)
})
