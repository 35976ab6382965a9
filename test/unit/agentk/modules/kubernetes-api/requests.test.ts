import t from 'tap'
import { impersonationHeaders } from '../../../../../src/agentk/cluster/impersonation-headers.ts'
import { planRequest, responseHeader } from '../../../../../src/agentk/modules/kubernetes-api/passed-headers.ts'
import type { Headers, HttpRequestHeader, Impersonation } from '../../../../../src/proto/http/http-message.ts'
import { requestUrl } from '../../../../../src/proto/http/request-url.ts'
import { identities } from '../../../../support/identities.ts'

const robot: Impersonation = {
  username: 'robot',
  groups: ['a', 'b'],
  uid: '7',
  extra: [{ key: 'x.io/Y z', val: ['1', '2'] }],
}
const nobody: Impersonation = { username: '', groups: [], uid: '', extra: [] }

// wire: http.query
t.test('paths and queries are encoded as Go does', (t) => {
  t.equal(requestUrl('/api/v1', []), '/api/v1')
  t.equal(requestUrl('api', []), '/api')
  t.equal(requestUrl("/a b%?#/ü!'()*[]", []), '/a%20b%25%3F%23/%C3%BC%21%27%28%29%2A%5B%5D')
  t.equal(requestUrl('/a$&+,/:;=@-_.~', []), '/a$&+,/:;=@-_.~')
  t.equal(
    requestUrl('/', [
      ['b', ['2', '1']],
      ['a', ['x y', 'ü=&']],
      ['none', []],
    ]),
    '/?a=x+y&a=%C3%BC%3D%26&b=2&b=1',
  )
  t.equal(requestUrl('/', [['none', []]]), '/')
  t.equal(requestUrl('/a\r\nHost: evil', []), '/a%0D%0AHost:%20evil')
  t.end()
})

// wire: http.impersonation.none, http.impersonation.headers, error.http.nested.own
t.test('impersonation comes from one source', (t) => {
  const expected = [
    ['Impersonate-User', 'robot'],
    ['Impersonate-Group', 'a'],
    ['Impersonate-Group', 'b'],
    ['Impersonate-Uid', '7'],
    ['Impersonate-Extra-X.io%2fy%20z', '1'],
    ['Impersonate-Extra-X.io%2fy%20z', '2'],
  ].flat()
  t.same(impersonationHeaders(robot, undefined, []), expected)
  t.same(impersonationHeaders(undefined, robot, []), expected)
  t.same(impersonationHeaders(undefined, nobody, []), [], 'empty means the agent itself')
  const own: Headers = [
    ['impersonate-user', ['me']],
    ['IMPERSONATE-GROUP', ['g']],
    ['Impersonate-Extra-a', ['1']],
  ]
  t.same(
    impersonationHeaders(undefined, nobody, own),
    ['Impersonate-User', 'me', 'Impersonate-Group', 'g', 'Impersonate-Extra-A', '1'],
    'canonical, whatever came',
  )
  for (const [mine, sent, request] of [
    [robot, robot, []],
    [robot, undefined, own],
    [undefined, robot, [['iMPERSONATE-uID', ['0']]]],
    [undefined, robot, [['impersonate-extra-scopes', ['all']]]],
  ] as [Impersonation | undefined, Impersonation | undefined, Headers][]) {
    t.throws(() => impersonationHeaders(mine, sent, request), { grpcCode: 14, message: /^gRPC -> HTTP: nested/ })
  }
  t.same(
    impersonationHeaders(undefined, { ...nobody, username: 'grüße' }, [])[1],
    Buffer.from('grüße').toString('latin1'),
  )
  t.end()
})

// wire: http.hop-by-hop, http.connection-upgrade, http.length.-1
t.test('what is sent to the API server', (t) => {
  const plan = (header: Headers, more: Partial<HttpRequestHeader> = {}) =>
    planRequest({ method: 'GET', urlPath: '/', query: [], header, ...more }, { identities: identities(), via: 'me' })
  const passed = plan(
    [
      ['Accept', ['a', 'b']],
      ['authorization', ['Bearer x']],
      ['Connection', ['keep-alive, X-Hop']],
      ['X-Hop', ['1']],
      ['Host', ['evil']],
      ['Transfer-Encoding', ['chunked']],
      ['Content-Length', ['5']],
      ['Te', ['trailers']],
      ['Expect', ['100-continue']],
      ['Via', ['kas']],
      ['proxy-authorization', ['Basic x']],
    ],
    { contentLength: 3 },
  )
  t.same(passed.headers, ['Accept', 'a', 'Accept', 'b', 'Via', 'kas', 'Via', 'me', 'Content-Length', '3'])
  t.equal(passed.contentLength, 3)
  t.equal(plan([['content-length', ['5']]]).contentLength, 5, 'kas before 16.0')
  t.equal(plan([['content-length', ['x']]]).contentLength, undefined)
  t.equal(plan([], { contentLength: -1 }).contentLength, -1)
  t.same(plan([], { contentLength: -1 }).headers, ['Via', 'me'])
  const upgrade = plan(
    [
      ['upgrade', ['SPDY/3.1']],
      ['Connection', ['Upgrade']],
    ],
    { contentLength: 0 },
  )
  t.equal(upgrade.upgrade, 'SPDY/3.1')
  t.same(upgrade.headers, ['Via', 'me', 'Connection', 'upgrade', 'Upgrade', 'SPDY/3.1'])
  t.end()
})

// wire: http.hop-by-hop, http.names
t.test('what comes back', (t) => {
  const header = responseHeader(
    200,
    'OK',
    [
      'content-type',
      'text/plain',
      'SET-COOKIE',
      'a=1',
      'set-cookie',
      'b=2',
      'connection',
      'X-Hop',
      'x-hop',
      '1',
      'Keep-Alive',
      '5',
      'transfer-encoding',
      'chunked',
      'upgrade',
      'h2c',
      'audit-id',
      'z',
      'via',
      '1.1 front',
    ].map((each) => Buffer.from(each)),
    'me',
  )
  t.equal(header.status, '200 OK')
  t.same(header.header, [
    ['Content-Type', ['text/plain']],
    ['Set-Cookie', ['a=1', 'b=2']],
    ['Audit-Id', ['z']],
    ['Via', ['1.1 front', 'me']],
  ])
  const upgraded = responseHeader(
    101,
    '',
    ['Upgrade', 'SPDY/3.1', 'Connection', 'Upgrade', 'Sec-WebSocket-Accept', 'x'],
    'me',
  )
  t.equal(upgraded.status, '101')
  t.same(upgraded.header, [
    ['Upgrade', ['SPDY/3.1']],
    ['Sec-Websocket-Accept', ['x']],
    ['Connection', ['upgrade']],
    ['Via', ['me']],
  ])
  t.end()
})
