import t, { type Test } from 'tap'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/** Cookies, repeated headers and names in any case, on the real listener (doc/reference/tunnel-protocol.md 6.2). */

const session = ['Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']
const noCredentials = 'Unauthorized: no valid credentials provided'
const invalidValue = 'Unauthorized: _gitlab_kas invalid cookie value'
const emptyValue = 'Unauthorized: _gitlab_kas cookie value must not be empty'
/** message for a well-formed cookie of no session */
const nobodys = 'Unauthorized'

async function start(t: Test) {
  const { server, port, log } = await startServer(clusterForward(echo))
  t.teardown(() => server.stop(AbortSignal.abort()))
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  /** Returns the status, and kas' message if it refuses. All requests use one connection. */
  const ask = async (...headers: string[]): Promise<[status: number, message?: string]> => {
    client.text = ''
    const text = await client.request('GET /k8s-proxy/api', ...headers).until(/\r\n\r\n.*\}\n?$/s)
    const status = Number(text.slice(9, 12))
    if (status === 200) return [status]
    const { message } = JSON.parse(text.slice(text.indexOf('\r\n\r\n'))) as { message: string }
    return [status, message.replace('GitLab Agent Server: ', '')]
  }
  return { ask, log }
}

const malformed: Readonly<Record<string, readonly [cookie: string, told: string]>> = {
  nothing: ['', noCredentials],
  'a name alone': ['_gitlab_kas', noCredentials],
  'no name': ['=good', noCredentials],
  'another case of the name': ['_GITLAB_KAS=good', noCredentials],
  'a name that only begins so': ['_gitlab_kas2=good', noCredentials],
  'a name that only ends so': ['x_gitlab_kas=good', noCredentials],
  'separators alone': [';;;', noCredentials],
  'commas between cookies': ['a=b, _gitlab_kas=good', noCredentials],
  'a space inside the name': ['_gitlab _kas=good', noCredentials],
  'no value': ['_gitlab_kas=', emptyValue],
  'spaces as the value': ['_gitlab_kas=   ', emptyValue],
  'empty quotes': ['_gitlab_kas=""', emptyValue],
  'no value, twice': ['_gitlab_kas=; _gitlab_kas=', emptyValue],
  'a per cent sign alone': ['_gitlab_kas=%', invalidValue],
  'half an escape': ['_gitlab_kas=%4', invalidValue],
  'no hex digits': ['_gitlab_kas=%zz', invalidValue],
  'an escaped byte that is no UTF-8': ['_gitlab_kas=%ff', invalidValue],
  'an overlong escape': ['_gitlab_kas=%c0%af', invalidValue],
  'a lone surrogate, escaped': ['_gitlab_kas=%ed%a0%80', invalidValue],
  'an escape cut by the end': ['_gitlab_kas=good%e2%82', invalidValue],
  'one empty, one that cannot be read': ['_gitlab_kas=; _gitlab_kas=%zz', invalidValue],
  'one quote': ['_gitlab_kas="good', nobodys],
  'bytes beyond ASCII': ['_gitlab_kas=g\xf6\xf6d', nobodys],
  'an equals sign too many': ['_gitlab_kas==good', nobodys],
  'a tab inside': ['_gitlab_kas=go\tod', nobodys],
  'escaped twice': ['_gitlab_kas=%2567ood', nobodys],
  'an escaped NUL': ['_gitlab_kas=good%00', nobodys],
  'an escaped line end': ['_gitlab_kas=good%0d%0aX-A: b', nobodys],
}

// wire: credential.cookie.decode, error.credential.cookie-empty, error.credential.cookie-value, error.credential.none
t.test('malformed cookies: each costs its own call, and is distinguished', async (t) => {
  const { ask, log } = await start(t)
  t.ok(Object.keys(malformed).length >= 20)
  for (const [name, [cookie, told]] of Object.entries(malformed)) {
    t.strictSame(await ask(`Cookie: ${cookie}`, ...session), [401, told], name)
    t.strictSame(await ask('Cookie: _gitlab_kas=good', ...session), [200], `a good one after ${name}`)
  }
  t.notMatch(log.join(''), /good/, 'no cookie reaches the log')
})

// wire: credential.cookie, credential.cookie.several, credential.cookie.decode
t.test('well-formed cookies, however they are written', async (t) => {
  const { ask } = await start(t)
  const good = {
    'among others': ['Cookie: a=b; _gitlab_kas=good; c=d'],
    'without spaces': ['Cookie: a=b;_gitlab_kas=good;c=d'],
    'in quotes': ['Cookie: _gitlab_kas="good"'],
    escaped: ['Cookie: _gitlab_kas=%67ood'],
    'in the second header': ['Cookie: a=b', 'Cookie: _gitlab_kas=good'],
    'behind one that cannot be read': ['Cookie: _gitlab_kas=%zz; _gitlab_kas=good'],
    'behind one that is nobody’s': ['Cookie: _gitlab_kas=stale', 'cookie: _gitlab_kas=good'],
    'behind pieces that are no cookies': ['Cookie: ;; x; =y; _gitlab_kas=good'],
    'names of headers in lower case': ['cookie: _gitlab_kas=good'],
    'names of headers in upper case': ['COOKIE: _gitlab_kas=good'],
    'names of headers in odd case': ['cOOkIe: _gitlab_kas=good'],
  }
  for (const [name, cookies] of Object.entries(good)) t.strictSame(await ask(...cookies, ...session), [200], name)
  for (const headers of [
    ['gitlab-agent-id: 42', 'x-csrf-token: c'],
    ['GITLAB-AGENT-ID: 42', 'X-CSRF-TOKEN: c'],
    ['gITLAB-aGENT-iD:42', 'x-Csrf-toKEN:   c   '],
  ]) {
    t.strictSame(await ask('Cookie: _gitlab_kas=good', ...headers), [200], headers.join())
  }
  t.strictSame(await ask('aUTHORIZATION: Bearer ci:42:good'), [200])
})

// wire: error.credential.two, error.credential.cookie-agent, error.credential.csrf, error.credential.scheme
t.test('headers that come twice', async (t) => {
  const { ask } = await start(t)
  const cookie = 'Cookie: _gitlab_kas=good'
  const bearer = 'Authorization: Bearer ci:42:good'
  const cases: [told: RegExp, headers: string[]][] = [
    [/Authorization header: expecting a single header, got 2$/, [bearer, bearer]],
    [/Authorization header: expecting a single header, got 2$/, [bearer, bearer.toLowerCase()]],
    [/Authorization header: expecting a single header, got 3$/, [bearer, bearer, 'AUTHORIZATION: x']],
    [/Gitlab-Agent-Id header must have exactly one value$/, [cookie, ...session, 'gitlab-agent-id: 42']],
    [/Gitlab-Agent-Id header must have exactly one value$/, [cookie, ...session, 'Gitlab-Agent-Id: 43']],
    [/X-Csrf-Token header must have exactly one value$/, [cookie, ...session, 'x-CSRF-token: c']],
    [/expecting Bearer token$/, ['Authorization: bearer ci:42:good']],
    [/expecting Bearer token$/, ['Authorization: Basic eDp5', cookie, ...session]],
  ]
  for (const [told, headers] of cases) t.match(await ask(...headers), [401, told], headers.join())
  t.strictSame(await ask(cookie, ...session), [200])
})
