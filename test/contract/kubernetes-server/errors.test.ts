import t from 'tap'
import { type Forward, noMetadata } from '../../../src/call/call.ts'
import type { Caller } from '../../../src/call/caller.ts'
import type { GrantQuestion } from '../../../src/kas/directory/directory.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { clusterForward, data, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { good, startServer } from './start-server.ts'

/**
 * Answers that callers see when kas refuses, or when the route to the cluster fails (doc/reference/tunnel-protocol.md
 * 6.6, doc/reference/captured.md 3).
 */

async function setUp(t: Tap, forward: Forward) {
  const started = await startServer(forward)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const client = await RawClient.open(started.port)
  t.teardown(() => client.close())
  const ask = async (line: string, ...headers: string[]) => {
    client.text = ''
    return (await client.request(line, ...headers).until(/"code":\d+}\n$/)).split('\r\n')
  }
  return { ...started, client, ask }
}
type Tap = typeof t | import('tap').Test

// wire: answer.server, log.tokens, error.credential.header, error.ci.agent, error.user.refused, error.status
// wire: error.prefix, error.json, error.credential.agent-id, error.credential.empty, error.credential.two
// wire: error.credential.csrf, error.credential.none, error.credential.scheme, error.credential.value
// wire: error.credential.type, error.reason
t.test('credentials', async (t) => {
  const { ask, count, log } = await setUp(t, () => Promise.reject(new Error('must not be asked')))
  const cases: [number, string, string[]][] = [
    [401, 'Unauthorized: no valid credentials provided', []],
    [401, 'Unauthorized: Authorization header: expecting Bearer token', ['Authorization: Basic eDp5']],
    [401, 'Unauthorized: Authorization header: invalid value', ['Authorization: Bearer glpat-abc']],
    [401, 'Unauthorized: Authorization header: unknown token type', ['Authorization: Bearer x:42:abc']],
    [
      401,
      'Unauthorized: Authorization header: failed to parse: strconv.ParseInt: parsing \\"x\\": invalid syntax',
      ['Authorization: Bearer ci:x:abc'],
    ],
    [401, 'Unauthorized: Authorization header: empty token', ['Authorization: Bearer ci:42:']],
    [401, 'Unauthorized: Authorization header: expecting a single header, got 2', [good, good]],
    [401, 'Unauthorized: CI job token', ['Authorization: Bearer ci:42:SECRET']],
    [403, 'Forbidden: agentId is not allowed', ['Authorization: Bearer ci:43:good']],
    [401, 'Unauthorized', ['Authorization: Bearer pat:42:SECRET']],
    [
      401,
      'Unauthorized: exactly one CSRF token must be provided either in the \\"X-Csrf-Token\\" header or \\"gitlab-csrf-token\\" query parameter',
      ['Cookie: _gitlab_kas=SECRET', 'Gitlab-Agent-Id: 42'],
    ],
  ]
  for (const [code, text, headers] of cases) {
    const lines = await ask('GET /k8s-proxy/api', ...headers)
    const reason = code === 401 ? 'Unauthorized' : 'Forbidden'
    t.equal(lines[0], `HTTP/1.1 ${code} ${reason}`, text)
    t.equal(
      lines.at(-1),
      `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"GitLab Agent Server: ${text}","reason":"${reason}","code":${code}}\n`,
    )
    t.equal(lines.includes('Gitlab-Unauthorized: true'), code === 401)
    for (const line of ['Content-Type: application/json', 'Server: gitlab-kas/v1.2.3/abc', 'Kas-Delivery: none']) {
      t.ok(lines.includes(line), line)
    }
  }
  t.equal(await count('failed'), cases.length)
  t.equal(await count('CREDENTIALS_INVALID'), 8)
  t.notMatch(log.join(''), /SECRET|good/, 'no token in the log')
})

t.test('credentials that were not checked: the caller is asked to come again', async (t) => {
  const asked: unknown[] = []
  const refuse = async (_: unknown, __: unknown, ___: unknown, how?: GrantQuestion) => {
    asked.push(how?.from)
    throw new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })
  }
  const directory = { grantJob: refuse, grantUser: refuse }
  const forward = () => Promise.reject(new Error('must not be asked'))
  const { server, port } = await startServer(forward, {}, undefined, { directory })
  t.teardown(() => server.stop(AbortSignal.abort()))
  for (const kind of ['ci', 'pat']) {
    const headers = { authorization: `Bearer ${kind}:42:made-up` }
    const answer = await fetch(`http://127.0.0.1:${port}/k8s-proxy/api`, { headers })
    t.equal(answer.status, 429)
    t.equal(answer.headers.get('retry-after'), '1')
    t.equal(answer.headers.get('kas-delivery'), 'none')
    const message = 'GitLab Agent Server: Too many unknown credentials are to be checked. Please try again later'
    t.match(await answer.json(), { kind: 'Status', message, reason: 'TooManyRequests', code: 429 })
  }
  t.strictSame(asked, ['127.0.0.1', '127.0.0.1'], 'the directory hears whose they are')
})

// wire: 8154.origin.good
t.test('a page of GitLab may read errors too; HEAD has no body', async (t) => {
  const { ask, client } = await setUp(t, clusterForward(echo))
  const lines = await ask('GET /k8s-proxy/', 'Origin: https://gitlab.example.com')
  t.ok(lines.includes('Access-Control-Allow-Origin: https://gitlab.example.com'))
  client.text = ''
  const text = await client.request('HEAD /k8s-proxy/').until(/\r\n\r\n$/)
  t.match(text, /^HTTP\/1\.1 401 /)
  t.match(text, /\r\nContent-Length: 1\d\d\r\n/)
})

// wire: 8154.prefix, 8154.prefix.openapi
t.test('paths and methods', async (t) => {
  const { ask, client, count } = await setUp(t, clusterForward(echo))
  const path = await ask('GET /api/v1', good)
  t.equal(path[0], 'HTTP/1.1 400 Bad Request')
  t.match(path.at(-1), 'GitLab Agent Server: Bad request: URL does not start with expected prefix')
  client.text = ''
  const openapi = await client.request('GET /openapi/v3/api/v1?hash=x', good).until(/"safety":"safe"}$/)
  t.match(openapi, /^HTTP\/1\.1 200 OK\r\n.*"urlPath":"\/openapi\/v3\/api\/v1"/s)
  for (const more of [[], ['Cookie: _gitlab_kas=good', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']])
    t.equal((await ask('GET /openapi/v3/api/v1', ...more))[0], 'HTTP/1.1 400 Bad Request')
  t.equal((await ask('GET /openapi/v3/api/v1', 'Authorization: Bearer made-up'))[0], 'HTTP/1.1 401 Unauthorized')
  t.match((await ask('GET /k8s-proxy/%zz', good)).at(-1), 'Bad request: the path has an invalid percent encoding')
  t.match((await ask('GET /k8s-proxy/../x', good)).at(-1), 'Bad request: the path has a segment')
  const trace = await ask('TRACE /k8s-proxy/', good)
  t.equal(trace[0], 'HTTP/1.1 405 Method Not Allowed')
  t.ok(trace.some((line) => line.startsWith('Allow: GET, ')))
  t.equal(
    (await ask('POST /k8s-proxy/', good, 'Expect: cake', 'Content-Length: 0'))[0],
    'HTTP/1.1 417 Expectation Failed',
  )
  t.equal(await count('METHOD_NOT_ALLOWED'), 1)
  t.equal(await count('PREFIX_MISSING'), 3)
  t.equal(await count('BAD_REQUEST'), 2)
  t.equal(await count('EXPECTATION_FAILED'), 1)
  client.text = ''
  t.match(await client.request('CONNECT example.com:443', good).toEnd(), /^HTTP\/1\.1 405 /)
})

// wire: error.502, error.find.absent, error.trace-id, log.trace_id, error.reason
t.test('the way to the cluster', async (t) => {
  const failures = new Map<string, () => Promise<never>>([
    ['absent', () => Promise.reject(new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 }))],
    ['leaving', () => Promise.reject(new KasError({ code: 'SHUTTING_DOWN' }))],
    ['bug', () => Promise.reject(new TypeError('secret detail'))],
  ])
  const { ask, log } = await setUp(t, async (call) => {
    for await (const message of call.messages) {
      const name = Buffer.from(message)
        .toString('latin1')
        .match(/\/(absent|leaving|bug)/)?.[1]
      return (failures.get(name ?? '') as () => Promise<never>)()
    }
    throw new Error('no message')
  })
  const absent = await ask('GET /k8s-proxy/absent', good)
  t.equal(absent[0], 'HTTP/1.1 502 Bad Gateway')
  t.equal(
    absent.at(-1),
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"GitLab Agent Server: ' +
      'HTTP-\\u003egRPC: failed to read gRPC response: rpc error: code = DeadlineExceeded desc = ' +
      'Agent connection not found. Is agent up to date and connected?","reason":"AgentNotConnected","code":502}\n',
  )
  t.ok(absent.includes('Kas-Delivery: none'))
  t.notOk(absent.includes('Gitlab-Unauthorized: true'))
  const leaving = await ask('GET /k8s-proxy/leaving', good)
  t.equal(leaving[0], 'HTTP/1.1 503 Service Unavailable')
  t.ok(leaving.includes('Retry-After: 1'))
  const bug = await ask('GET /k8s-proxy/bug', good)
  t.equal(bug[0], 'HTTP/1.1 502 Bad Gateway')
  t.notMatch(bug.join(), /secret/)
  const broken = await ask('GET /k8s-proxy/', 'Authorization: Bearer ci:42:broken')
  t.equal(broken[0], 'HTTP/1.1 500 Internal Server Error')
  const traceId = /Trace ID: ([0-9a-f]{32})/.exec(broken.at(-1) ?? '')?.[1]
  t.ok(log.some((line) => line.includes(`"trace_id":"${traceId}"`) && line.includes('secret detail')))
})

t.test('who holds too many tunnels is told how many, and when to come again', async (t) => {
  const seen: (Caller | boolean | undefined)[] = []
  const { ask } = await setUp(t, ({ caller, isWatch }) => {
    seen.push(caller, isWatch)
    const held = { agentId: '42', held: 480, living: 520, watches: 479 }
    throw new KasError({ code: 'CALLER_OVER_SHARE', ...held, retryAfterS: 17 })
  })
  const lines = await ask('GET /k8s-proxy/api/v1/pods?watch=1', good)
  t.equal(lines[0], 'HTTP/1.1 429 Too Many Requests')
  t.ok(lines.includes('Retry-After: 17'))
  t.ok(lines.includes('Kas-Delivery: none'))
  t.match(
    lines.at(-1),
    /You hold 480 of the 520 tunnels that agent 42 has here, 479 of them watches, and others wait\. Please end some, or try again later/,
  )
  t.match(seen, [{ name: 'project 3', key: /^[\w-]{22}$/ }, true])
})

// wire: error.502, error.status
t.test('an agent that ends with an error, or answers what is no answer', async (t) => {
  const { ask, client, count } = await setUp(
    t,
    clusterForward(async function* ({ header }) {
      if (header.urlPath === '/status')
        throw new KasError({ code: 'STATUS', grpc: 14, message: 'gRPC -> HTTP: no <route>' })
      if (header.urlPath === '/100') yield head(100)
      if (header.urlPath === '/101') yield head(101)
      if (header.urlPath === '/order') yield trailer
      if (header.urlPath === '/garbage') yield Uint8Array.of(1, 2, 3)
      if (header.urlPath === '/name') yield head(200, [['Bad Name', ['x']]])
      if (header.urlPath === '/value') yield head(200, [['X-Split', ['a\r\nSet-Cookie: b']]])
      if (header.urlPath === '/length') yield head(200, [['Content-Length', ['1', '2']]])
      if (header.urlPath === '/code') yield head(42)
      if (header.urlPath === '/lines') yield head(200, [['X', Array.from({ length: 60_000 }, () => 'v')]])
    }),
  )
  const status = await ask('GET /k8s-proxy/status', good)
  t.match(status.at(-1), 'rpc error: code = Unavailable desc = gRPC -\\u003e HTTP: no \\u003croute\\u003e')
  t.ok(status.includes('Kas-Delivery: maybe'))
  for (const path of ['100', '101', 'order', 'garbage', 'name', 'value', 'length', 'code', 'nothing']) {
    const answer = await ask(`GET /k8s-proxy/${path}`, good)
    t.equal(answer[0], 'HTTP/1.1 502 Bad Gateway', path)
    t.notMatch(answer.join(), /Set-Cookie/)
  }
  const lines = (await ask('GET /k8s-proxy/lines', good)).at(-1)
  t.match(lines, 'code = ResourceExhausted desc = The head of the HTTP message has more than 1000 header lines')
  t.equal(await count('HTTP_HEAD_TOO_LARGE'), 1)
  t.equal(client.ended, undefined, 'the connection goes on')
  t.equal(await count('failed'), 11)
})

// wire: answer.cut
t.test('a failure after the status line is visible as a cut', async (t) => {
  const failing = (name: string) =>
    async function* () {
      yield head(200, name === 'short' || name === 'long' ? [['Content-Length', ['3']]] : [])
      yield data(name === 'long' ? 'abcdef' : 'ab')
      if (name === 'error') throw new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
      if (name !== 'unfinished') yield trailer
    }
  for (const name of ['error', 'unfinished', 'short', 'long']) {
    const started = await startServer(clusterForward(failing(name)))
    t.teardown(() => started.server.stop(AbortSignal.abort()))
    const client = await RawClient.open(started.port)
    client.request('GET /k8s-proxy/', good)
    const text = await client.toEnd()
    t.notMatch(text, /\r\n0\r\n\r\n$/, name)
    t.notMatch(text, /abc/, 'never more than announced')
    t.equal(await started.count('cut'), 1)
    const old = await RawClient.open(started.port)
    old.write(`GET /k8s-proxy/ HTTP/1.0\r\n${good}\r\n\r\n`)
    await old.toEnd()
    t.equal(old.ended, 'ECONNRESET', `${name}, where the end of the connection is the end of the answer`)
  }
})

t.test('a reply that ended before its headers tells once, by done', async (t) => {
  const error = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
  const { ask } = await setUp(t, async () => ({
    metadata: Promise.resolve(undefined),
    messages: (async function* () {})(),
    done: Promise.resolve({ error, trailers: noMetadata }),
  }))
  const lines = await ask('GET /k8s-proxy/', good)
  t.equal(lines[0], 'HTTP/1.1 502 Bad Gateway')
  t.ok(lines.includes('Kas-Delivery: none'))
})
