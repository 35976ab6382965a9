import t from 'tap'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { good, startServer } from './start-server.ts'

/** Web applications behind `services/…/proxy`: redirects, cookies, their host name, and unchanged queries. */

type Tap = typeof t | import('tap').Test
const web = '/api/v1/namespaces/t/services/web:http/proxy'
const cookie = ['Cookie: _gitlab_kas=good; s=1; _gitlab_session=x', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']

async function setUp(t: Tap, options: Parameters<typeof startServer>[1] = {}) {
  const seen: HttpRequestHeader[] = []
  const answered = { location: '/' }
  const forward = clusterForward(async function* ({ header, body }) {
    seen.push(header)
    if (!header.header.some(([name]) => name === 'Upgrade')) await body()
    yield head(302, [
      ['Location', [answered.location]],
      ['Content-Location', ['/api']],
      ['Content-Length', ['2']],
    ])
    yield data('ok')
    yield trailer
  })
  const webSocketTokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock })
  const started = await startServer(forward, options, undefined, { webSocketTokens })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = async (line: string, ...headers: string[]) => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    const host = headers.some((each) => each.startsWith('Host:')) ? [] : ['Host: kas.example.com:8154']
    const text = await client
      .write(`${[`${line} HTTP/1.1`, ...host, ...headers].join('\r\n')}\r\n\r\n`)
      .until(/\r\n\r\n(?:ok|.*[\n}])$/s)
    client.close()
    return text
  }
  const got = (name: string) => seen.at(-1)?.header.find(([other]) => other === name)?.[1]
  const redirect = (to: string) => {
    answered.location = to
  }
  return { ...started, seen, ask, got, redirect }
}

t.test('a redirect is relative to the request, behind each prefix', async (t) => {
  for (const [urlPathPrefix, prefix] of [
    ['/', ''],
    ['/-/k8s-proxy/', '/-/k8s-proxy'],
  ] as const) {
    const { ask, redirect } = await setUp(t, { urlPathPrefix })
    for (const [asked, location, led] of [
      [web, `${web}/`, `${web}/`],
      [`${web}/a/b?x=1`, `${web}/target?y=2#z`, `${web}/target?y=2#z`],
      [`${web}/a`, `http://10.211.0.1:6443${web}/target`, `${web}/target`],
      ['/api/v1', '/apis', '/apis'],
    ] as const) {
      redirect(location)
      for (const target of [prefix + asked, `http://kas.example.com:8154${prefix}${asked}`]) {
        const text = await ask(`GET ${target}`, good)
        const [, made = '/'] = /\r\nLocation: (.*)\r\n/.exec(text) ?? []
        t.notMatch(made, /^\/|^http/, `${target} ${location}`)
        const url = new URL(made, `https://kas.example.com:8154${prefix}${asked}`)
        t.equal(url.href.slice(url.origin.length), prefix + led, made)
        t.match(text, /\r\nContent-Location: \/api\r\n/, 'nothing else is rewritten')
      }
    }
    redirect('https://login.example.com/?next=/api')
    t.match(await ask(`GET ${prefix}${web}/a`, good), /\r\nLocation: https:\/\/login\.example\.com\/\?next=\/api\r\n/)
  }
})

t.test('an application learns how it was called, and never by the header Host', async (t) => {
  const line = `GET /k8s-proxy${web}/`
  const plain = await setUp(t)
  await plain.ask(line, good)
  t.strictSame([plain.got('X-Forwarded-Host'), plain.got('X-Forwarded-Proto')], [['kas.example.com:8154'], ['http']])
  t.equal(plain.got('Host'), undefined)
  await plain.ask(line, good, 'X-Forwarded-Host: front.example.com', 'X-Forwarded-Proto: https')
  t.strictSame([plain.got('X-Forwarded-Host'), plain.got('X-Forwarded-Proto')], [['front.example.com'], ['https']])
  await plain.ask(line, good, 'Host: a b<script>')
  t.equal(plain.got('X-Forwarded-Host'), undefined, 'what is no name of a host is not passed on')
  const said = ['X-Forwarded-Host: other.example.com', 'X-Forwarded-Proto: https']
  const direct = await setUp(t, { addresses: { trustedProxies: ['10.0.0.1'], proxyProtocol: false } })
  await direct.ask(line, good, ...said)
  t.strictSame([direct.got('X-Forwarded-Host'), direct.got('X-Forwarded-Proto')], [['kas.example.com:8154'], ['http']])
  const front = await setUp(t, { addresses: { trustedProxies: ['127.0.0.1'], proxyProtocol: false } })
  await front.ask(line, good, ...said)
  t.strictSame([front.got('X-Forwarded-Host'), front.got('X-Forwarded-Proto')], [['other.example.com'], ['https']])
})

// wire: request.credentials
t.test('cookies go on, but for those that say who calls, and those of GitLab', async (t) => {
  const { ask, got, seen } = await setUp(t)
  const line = `GET /k8s-proxy${web}/`
  const session = 'Cookie: s=1; _gitlab_session=x; _gitlab_kas=x; b=2; __Host-c=x; remember_user_token=x'
  for (const credential of ['ci:42:good', 'ci:42:as-job', 'pat:42:good', 'pat:42:as-user']) {
    await ask(line, `Authorization: Bearer ${credential}`, session)
    t.strictSame(got('Cookie'), ['s=1; b=2'], credential)
  }
  const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: a']
  const token = `base64url.bearer.authorization.k8s.io.${Buffer.from('pat:42:good').toString('base64url')}`
  await ask(line, ...websocket, session, `Sec-WebSocket-Protocol: v4.channel.k8s.io, ${token}`)
  t.strictSame(got('Cookie'), ['s=1; b=2'], 'a bearer sub-protocol')
  for (const headers of [cookie, [...cookie, 'Origin: https://gitlab.example.com']]) {
    await ask(line, ...headers)
    t.equal(got('Cookie'), undefined, 'who is known by a cookie')
  }
  const sealed = await ask(`GET /k8s-proxy${web}/?kas-websocket-token-request=1`, ...cookie)
  const [, ofCookie = ''] = /"token":"([^"]+)"/.exec(sealed) ?? []
  await ask(line, ...websocket, 'Cookie: s=1', `Sec-WebSocket-Protocol: a, websocket-token.kas.gitlab.com.${ofCookie}`)
  t.equal(got('Cookie'), undefined, 'or by a token that was made for one')
  t.ok(ofCookie.length > 10)
  const host = ['gitlab.example.com', 'GITLAB.example.com:8154', 'gitlab.example.com.']
  for (const each of host) {
    await ask(line, good, session, `Host: ${each}`)
    t.equal(got('Cookie'), undefined, `a host that GitLab has, too: ${each}`)
    await ask(line, good, session, `X-Forwarded-Host: ${each}`)
    t.equal(got('Cookie'), undefined, `as a front says: ${each}`)
  }
  t.notMatch(JSON.stringify(seen), /_gitlab|remember_user|__Host/)
  const alone = await setUp(t, { externalUrl: undefined } as object)
  await alone.ask(line, good, session, 'Host: gitlab.example.com')
  t.strictSame(alone.got('Cookie'), ['s=1; b=2'], 'without a GitLab')
})

t.test('a front that writes another Host: redirects are right, and GitLab\u2019s cookies stay behind', async (t) => {
  const { ask, got, redirect } = await setUp(t, { urlPathPrefix: '/k8s-proxy/' })
  const line = `GET /k8s-proxy${web}/a`
  const host = 'Host: kas-internal:8154'
  for (const location of [`${web}/target`, `http://10.211.0.1:6443${web}/target`]) {
    redirect(location)
    for (const more of [[], ['X-Forwarded-Host: gitlab.example.com']])
      t.match(await ask(line, good, host, ...more), /\r\nLocation: \.\/target\r\n|\r\nLocation: target\r\n/, location)
  }
  const sent = 'Cookie: known_sign_in=x; s=1'
  const ofGitlab = [
    'X-Forwarded-Host: a.example.com, gitlab.example.com',
    'X-Original-Host: gitlab.example.com:443',
    'X-Host: gitlab.example.com',
    'Forwarded: for=192.0.2.1;host="gitlab.example.com:443";proto=https',
    'Forwarded: for=192.0.2.1, for=192.0.2.2; Host=gitlab.example.com',
    'Origin: https://gitlab.example.com',
    'Referer: https://gitlab.example.com/-/k8s-proxy/',
    'Referer: http://GitLab.example.com:8080',
  ]
  const others = [
    'X-Forwarded-Host: kas.example.com',
    'Forwarded: for=gitlab.example.com;host=kas.example.com',
    'Origin: http://127.0.0.1:8001',
    'Referer: https://kas.example.com/?from=https://gitlab.example.com/',
    'Referer: https://gitlab.example.com/group/project\r\nSec-Fetch-Site: cross-site',
  ]
  for (const addresses of [undefined, { trustedProxies: ['10.0.0.1'], proxyProtocol: false }]) {
    const server = addresses ? await setUp(t, { urlPathPrefix: '/k8s-proxy/', addresses }) : { ask, got }
    for (const header of ofGitlab) {
      await server.ask(line, good, host, header, sent)
      t.equal(server.got('Cookie'), undefined, `GitLab's host: ${header}`)
    }
    for (const header of others) {
      await server.ask(line, good, host, header, sent)
      t.strictSame(server.got('Cookie'), ['known_sign_in=x; s=1'], `another: ${header}`)
    }
  }
})

// wire: request.query
t.test('a query passes as it came, without what is meant for kas', async (t) => {
  const { ask, seen } = await setUp(t)
  const sent = async (query: string) => {
    await ask(`GET /k8s-proxy${web}/?${query}`, good)
    return seen.at(-1)
  }
  for (const query of ['wsdl', 'b=2&a=1', 'a=1;b=2', 'c=x%20y', 'a=%41&&b', 'a=1&'])
    t.equal((await sent(query))?.rawQuery, query, query)
  t.equal((await sent('b=2&gitlab-csrf-token=x&a=1'))?.rawQuery, 'b=2&a=1')
  t.equal((await sent('b&%67itlab-agent-id=42'))?.rawQuery, 'b')
  for (const query of ['a=1&b=2', 'labelSelector=a%3Db', 'a=1&gitlab-agent-id=42'])
    t.equal((await sent(query))?.rawQuery, undefined, `${query}: agents of GitLab write it so themselves`)
})
