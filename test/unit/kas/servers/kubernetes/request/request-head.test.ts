import t from 'tap'
import { maxHeaderLines, readRequestHead } from '../../../../../../src/kas/servers/kubernetes/request/request-head.ts'

const read = (
  lines: string[][],
  options: { upgrading?: boolean; minor?: number; major?: number; host?: boolean } = {},
) => {
  const { upgrading = false, minor = 1, major = 1, host = true } = options
  const rawHeaders = [...(host ? ['Host', 'kas'] : []), ...lines.flat()]
  return readRequestHead({ rawHeaders, httpVersionMajor: major, httpVersionMinor: minor }, upgrading)
}

// wire: request.credentials
t.test('what is for kas does not go on', async (t) => {
  const head = read([
    ['authorization', 'Bearer x'],
    ['COOKIE', '_gitlab_kas=1'],
    ['GitLab-Agent-Id', '42'],
    ['X-CSRF-Token', 'c'],
    ['Gitlab-Kas-Accel', 's'],
    ['gitlab-kas-route', 'kas-1'],
    ['Expect', '100-continue'],
    ['Content-Length', '3'],
    ['user-agent', 'kubectl'],
  ])
  t.same(head.header, [['User-Agent', ['kubectl']]])
  t.same(
    [head.authorization, head.cookies, head.agentIds, head.csrfTokens],
    [['Bearer x'], ['_gitlab_kas=1'], ['42'], ['c']],
  )
  t.equal(head.contentLength, 3)
})

// wire: request.hop-by-hop, http.hop-by-hop
t.test('hop-by-hop headers, and all that Connection names', async (t) => {
  const head = read([
    ['Connection', 'keep-alive, X-Hop'],
    ['connection', 'x-other'],
    ['Keep-Alive', 'timeout=5'],
    ['Proxy-Connection', 'keep-alive'],
    ['Proxy-Authenticate', 'a'],
    ['Proxy-Authorization', 'a'],
    ['TE', 'trailers'],
    ['Trailer', 'X'],
    ['Transfer-Encoding', 'chunked'],
    ['Upgrade', 'h2c'],
    ['X-Hop', '1'],
    ['X-Other', '1'],
    ['X-Kept', '1'],
  ])
  t.same(head.header, [['X-Kept', ['1']]])
  t.equal(head.contentLength, -1)
  t.same(head.upgrade, ['h2c'])
})

// wire: http.names
t.test('names become canonical, values stay in order', async (t) => {
  const head = read([
    ['impersonate-user', 'ada'],
    ['impersonate-group', 'b'],
    ['IMPERSONATE-GROUP', 'a'],
    ['x-csrf-tokens', '1'],
    ['accept', 'text/plain'],
    ['Accept', '*/*'],
  ])
  t.same(head.header, [
    ['Impersonate-User', ['ada']],
    ['Impersonate-Group', ['b', 'a']],
    ['X-Csrf-Tokens', ['1']],
    ['Accept', ['text/plain', '*/*']],
  ])
  t.same(head.accept, ['text/plain', '*/*'])
})

// wire: http.connection-upgrade, upgrade.names, request.websocket-token
t.test('an upgrade keeps its header', async (t) => {
  const head = read(
    [
      ['connection', 'Upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-key', 'k'],
      ['sec-websocket-protocol', 'v5.channel.k8s.io, websocket-token.kas.gitlab.com.SECRET'],
      ['sec-websocket-protocol', 'websocket-token.kas.gitlab.com.SECRET'],
    ],
    { upgrading: true },
  )
  t.same(head.header, [
    ['Sec-Websocket-Key', ['k']],
    ['Sec-Websocket-Protocol', ['v5.channel.k8s.io']],
    ['Upgrade', ['websocket']],
    ['Connection', ['upgrade']],
  ])
})

t.test('what is refused', async (t) => {
  const refused = { code: 'BAD_REQUEST' }
  t.throws(() => read([['Host', 'again']]), refused, 'two hosts')
  t.throws(() => read([], { host: false }), refused, 'no host')
  t.doesNotThrow(() => read([], { host: false, minor: 0 }), 'HTTP/1.0 needs none')
  t.throws(() => read([], { major: 2, minor: 0 }), refused)
  t.throws(() => read([], { major: 0, minor: 9 }), refused)
  t.throws(() => read([['Transfer-Encoding', 'gzip, chunked']]), refused)
  t.throws(() => read([['Transfer-Encoding', 'chunked']], { minor: 0 }), refused)
  t.throws(() => read([['Content-Length', '99999999999999999999']]), refused)
  const lines = Array.from({ length: maxHeaderLines }, (_, i) => [`X-${i}`, ''])
  t.doesNotThrow(() => read(lines.slice(1)))
  t.throws(() => read(lines), { code: 'HEAD_TOO_LARGE' })
})
