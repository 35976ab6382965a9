import t from 'tap'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { type Cluster, clusterForward, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/** Libraries send `Origin` with each WebSocket. A page of a foreign origin could misuse the cookie of its user. */

type Tap = typeof t | import('tap').Test
const foreign = 'Origin: https://evil.example.com'
const gitlab = 'Origin: https://gitlab.example.com'
const cookie = ['Cookie: _gitlab_kas=as-user', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']
const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: a', 'Sec-WebSocket-Version: 13']
const spdy = ['Connection: Upgrade', 'Upgrade: SPDY/3.1']
const exec = 'GET /k8s-proxy/api/v1/namespaces/t/pods/box/exec?command=id'

const bearer = (token: string, protocols = 'v4.channel.k8s.io, ') =>
  `Sec-WebSocket-Protocol: ${protocols}base64url.bearer.authorization.k8s.io.${Buffer.from(token, 'latin1').toString('base64url')}`
const encoded = (text: string) =>
  `Sec-WebSocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.${text}`

async function setUp(t: Tap) {
  const seen: HttpRequestHeader[] = []
  const cluster: Cluster = async function* (request) {
    seen.push(request.header)
    if (!request.header.header.some(([name]) => name === 'Upgrade')) return yield* echo(request)
    yield head(101, [['Upgrade', ['websocket']]], 'Switching Protocols')
    yield trailer
  }
  const { server, port, count, log } = await startServer(clusterForward(cluster))
  t.teardown(() => server.stop(AbortSignal.abort()))
  /** @returns status line, headers and body of the answer */
  const ask = async (line: string, ...headers: string[]) => {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    const text = await client.request(line, ...headers).until(/\r\n\r\n(?:.*[\n}])?$|^HTTP\/1\.1 101 /s)
    client.close()
    return text
  }
  return { seen, ask, count, log }
}

const headerOf = ({ header }: HttpRequestHeader, name: string) => header.find(([other]) => other === name)?.[1]

// wire: 8154.origin.foreign
t.test('an Authorization header says who calls: whatever page is named, and it reads nothing', async (t) => {
  const { ask, seen } = await setUp(t)
  for (const credential of ['pat:42:as-user', 'ci:42:as-job']) {
    const authorization = `Authorization: Bearer ${credential}`
    for (const origin of [foreign, 'Origin: http://127.0.0.1:8001', 'Origin: null', 'Origin: https://kas']) {
      for (const [line, headers] of [
        ['GET /k8s-proxy/api/v1/pods', []],
        ['POST /k8s-proxy/api/v1/namespaces/t/configmaps', ['Content-Length: 0']],
        ['GET /k8s-proxy/api/v1/namespaces/t/pods?watch=1', websocket],
        [exec, [...websocket, 'Sec-WebSocket-Protocol: v4.channel.k8s.io']],
        ['POST /k8s-proxy/api/v1/namespaces/t/pods/box/exec?command=id', spdy],
      ] as const) {
        const text = await ask(line, authorization, origin, ...cookie, ...headers)
        t.match(text, /^HTTP\/1\.1 (?:200|101) /, `${credential} ${origin} ${line}`)
        t.notMatch(text, /Access-Control|Vary/i)
        const got = seen.pop() as HttpRequestHeader
        t.equal(got.impersonation?.username, credential.startsWith('ci') ? 'gitlab:ci_job:900' : 'gitlab:user:ada')
        t.strictSame(headerOf(got, 'Origin'), [origin.slice(8)], 'API servers want one for a watch by WebSocket')
      }
    }
  }
  const own = await ask('GET /k8s-proxy/api', 'Authorization: Bearer pat:42:as-user', gitlab)
  t.match(own, /\r\nAccess-Control-Allow-Origin: https:\/\/gitlab\.example\.com\r\n/, 'pages of GitLab read as before')
})

// wire: 8154.origin.foreign
t.test('a token as sub-protocol is an Authorization header, and does not go on', async (t) => {
  const { ask, seen, log } = await setUp(t)
  const offers = [
    [bearer('pat:42:as-user')],
    [bearer('pat:42:as-user', ''), 'Sec-WebSocket-Protocol: v4.channel.k8s.io'],
    [bearer('ci:42:as-job', 'v4.channel.k8s.io,')],
    ['Sec-WebSocket-Protocol: v4.channel.k8s.io', bearer('ci:42:as-job', '')],
  ]
  for (const offer of offers) {
    for (const origin of [[], [foreign], [foreign, ...cookie], [gitlab]]) {
      const text = await ask(exec, ...websocket, ...offer, ...origin)
      t.match(text, /^HTTP\/1\.1 101 /, [...offer, ...origin].join('\n'))
      if (!origin.includes(gitlab)) t.notMatch(text, /Access-Control/i)
      const got = seen.pop() as HttpRequestHeader
      t.match(got.impersonation?.username, /gitlab:(?:user:ada|ci_job:900)/)
      t.strictSame(headerOf(got, 'Sec-Websocket-Protocol'), ['v4.channel.k8s.io'])
      t.notMatch(JSON.stringify(got), /bearer/)
    }
  }
  t.notMatch(log.join(), /bearer|as-user|as-job/)
})

// wire: 8154.origin.foreign, 8154.order
t.test('attack: what names its caller badly is not read by its cookie, whoever is named as its page', async (t) => {
  const { ask, seen, count } = await setUp(t)
  const ofRequest: Readonly<Record<string, readonly string[]>> = {
    'an unknown token': ['Authorization: Bearer pat:42:made-up'],
    'a malformed one': ['Authorization: Bearer made-up'],
    'another scheme': ['Authorization: Basic YTpi'],
    'an empty one': ['Authorization:'],
    'two of them': ['Authorization: Bearer pat:42:good', 'Authorization: Bearer pat:42:good'],
  }
  const ofWebSocket: typeof ofRequest = {
    ...ofRequest,
    'a made-up sub-protocol': [bearer('pat:42:made-up')],
    'a sub-protocol without an agent': [bearer('made-up')],
    'an empty sub-protocol': [encoded('')],
    'a sub-protocol in another alphabet': [encoded('a+b/')],
    'a padded one': [encoded('cGF0OjQyOmdvb2QxMQ==')],
    'one that is cut': [encoded('cGF0O')],
    'one that is not UTF-8': [bearer('pat:42:\xff')],
    'one with a line end': [bearer('pat:42:good\r\nX: y')],
    'two sub-protocols': [bearer('pat:42:good'), bearer('pat:42:good')],
    'one alone': [bearer('pat:42:good', '')],
    'one beside none': [bearer('pat:42:good', ', ')],
    'one beside a token of kas': [bearer('pat:42:good', 'websocket-token.kas.gitlab.com.x, ')],
    'one beside an Authorization header': [bearer('pat:42:good'), 'Authorization: Bearer pat:42:good'],
  }
  for (const origin of [[foreign], [gitlab], []]) {
    for (const [name, headers] of Object.entries(ofWebSocket)) {
      const text = await ask(exec, ...websocket, ...headers, ...cookie, ...origin)
      t.match(text, /^HTTP\/1\.1 401 .*"code":401}\n$/s, `${name} ${origin}`)
      t.notMatch(text, /Access-Control-Allow-Origin: (?!https:\/\/gitlab\.example)/i)
    }
    for (const [name, headers] of Object.entries(ofRequest))
      t.match(
        await ask('GET /k8s-proxy/api', ...headers, ...cookie, ...origin),
        /^HTTP\/1\.1 401 /,
        `${name} ${origin}`,
      )
    for (const upgrade of [[], spdy]) {
      const text = await ask(exec, ...upgrade, bearer('pat:42:good'), ...cookie, ...origin)
      t.match(text, /^HTTP\/1\.1 401 .*it counts with a WebSocket alone/s, 'no WebSocket')
    }
  }
  t.strictSame(seen, [])
  t.equal(await count('foreign_origin'), 0)
})

// wire: 8154.origin.foreign, 8154.origin.none
t.test('attack: a page of another origin, by cookie or with a token of kas', async (t) => {
  const { ask, seen, count } = await setUp(t)
  const token = 'Sec-WebSocket-Protocol: v4.channel.k8s.io, websocket-token.kas.gitlab.com.x'
  const almost = 'Sec-WebSocket-Protocol: v4.channel.k8s.io, Base64url.bearer.authorization.k8s.io.cGF0OjQyOmdvb2Q'
  const refused = [
    ['GET /k8s-proxy/api', ...cookie],
    ['POST /k8s-proxy/api', 'Content-Length: 0', ...cookie],
    ['OPTIONS /k8s-proxy/api', ...cookie],
    [exec, ...websocket, ...cookie],
    [exec, ...websocket, token],
    [exec, ...websocket, token, ...cookie],
    [exec, ...websocket, almost, ...cookie],
    ['POST /k8s-proxy/api/v1/namespaces/t/pods/box/exec', ...spdy, ...cookie],
    ['OPTIONS /k8s-proxy/api', 'Access-Control-Request-Method: GET', 'Access-Control-Request-Headers: authorization'],
  ] as const
  for (const [line, ...headers] of refused) {
    const text = await ask(line, ...headers, foreign)
    t.match(text, /^HTTP\/1\.1 403 Forbidden\r\n/, `${line} ${headers}`)
    t.match(text, /\r\nContent-Type: application\/json\r\n.*"kind":"Status".*gitlab\.external_url.*"code":403}\n$/s)
    t.notMatch(text, /Access-Control|Vary|evil/i)
  }
  t.strictSame(seen, [])
  t.equal(await count('foreign_origin'), refused.length)
})
