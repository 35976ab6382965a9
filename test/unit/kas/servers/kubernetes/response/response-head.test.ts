import t from 'tap'
import { readResponseHead } from '../../../../../../src/kas/servers/kubernetes/response/response-head.ts'
import type { Headers } from '../../../../../../src/proto/http/http-message.ts'

const options = { via: 'gRPC/1.0 kas', origin: undefined, upgrade: false }
const read = (
  header: Headers,
  more: Partial<{ statusCode: number; status: string; upgrade: boolean; origin: string }> = {},
) => {
  const { statusCode = 200, status = '200 OK', ...rest } = more
  return readResponseHead({ statusCode, status, header }, { ...options, ...rest })
}

// wire: answer.hop-by-hop, answer.cors, answer.server, error.credential.header
t.test('what a cluster must not say is removed, in any spelling', async (t) => {
  const { headers } = read([
    ['Connection', ['close, X-Hop']],
    ['Keep-Alive', ['timeout=1']],
    ['Transfer-Encoding', ['chunked']],
    ['Trailer', ['X']],
    ['Upgrade', ['h2c']],
    ['X-Hop', ['1']],
    ['Access-Control-Allow-Origin', ['*']],
    ['access-control-allow-credentials', ['true']],
    ['Access-Control-Allow-Methods', ['GET']],
    ['Access-Control-Allow-Headers', ['a']],
    ['Access-Control-Max-Age', ['1']],
    ['X-Accel-Redirect', ['/etc']],
    ['x-accel-buffering', ['no']],
    ['X-Sendfile', ['/etc/passwd']],
    ['Gitlab-Workhorse-Send-Data', ['x']],
    ['Gitlab-Unauthorized', ['true']],
    ['Gitlab-Kas-Route', ['kas-1']],
    ['Kas-Delivery', ['none']],
    ['Server', ['nginx']],
    ['Warning', ['299 - "a"', '299 - "b"']],
  ])
  t.same(headers, ['Server', 'nginx', 'Warning', '299 - "a"', 'Warning', '299 - "b"', 'Via', 'gRPC/1.0 kas'])
})

// wire: answer.via, answer.cors
t.test('Via is appended, Vary merged', async (t) => {
  const header: Headers = [
    ['Via', ['2.0 gitlab-agent/v1/x']],
    ['Vary', ['Accept']],
  ]
  t.same(read(header, { origin: 'http://a' }).headers, [
    ...['Access-Control-Allow-Origin', 'http://a', 'Access-Control-Allow-Credentials', 'true', 'Vary', 'Origin'],
    ...['Via', '2.0 gitlab-agent/v1/x', 'Vary', 'Accept', 'Via', 'gRPC/1.0 kas'],
  ])
})

t.test('what several Connection headers list is for one hop, a million names are not read', async (t) => {
  const header: Headers = [
    ['Connection', ['X-A']],
    ['connection', ['x-b', 'a,'.repeat(500_000)]],
    ['X-A', ['1']],
    ['X-B', ['1']],
    ['X-C', ['1']],
  ]
  t.same(read(header).headers, ['X-C', '1', 'Via', 'gRPC/1.0 kas'])
})

t.test('the length', async (t) => {
  t.equal(read([['Content-Length', ['3', '3']]]).contentLength, 3)
  t.same(read([['Content-Length', ['3', '3']]]).headers.slice(0, 2), ['Content-Length', '3'])
  for (const values of [['3', '4'], ['+3'], ['3, 3'], [''], ['-1'], ['9'.repeat(20)]]) {
    t.throws(() => read([['Content-Length', values]]), { code: 'INVALID_MESSAGE' }, values.join())
  }
  t.throws(
    () =>
      read([
        ['Content-Length', ['3']],
        ['content-length', ['4']],
      ]),
    { code: 'INVALID_MESSAGE' },
  )
})

t.test('status texts', async (t) => {
  t.equal(read([], { status: '418 I am a teapot' }).statusText, 'I am a teapot')
  for (const status of ['', '200', '200 ', '200 a\r\nb', '200 ☃', `200 ${'a'.repeat(257)}`]) {
    t.equal(read([], { status }).statusText, undefined, JSON.stringify(status))
  }
})

t.test('an upgrade keeps its header', async (t) => {
  t.same(
    read(
      [
        ['Upgrade', ['SPDY/3.1']],
        ['Connection', ['Upgrade']],
      ],
      { statusCode: 101, upgrade: true },
    ).headers,
    ['Upgrade', 'SPDY/3.1', 'Connection', 'Upgrade', 'Via', 'gRPC/1.0 kas'],
  )
})
