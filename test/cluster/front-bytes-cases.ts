import { good } from '../contract/kubernetes-server/start-server.ts'
import type { RawHead } from './raw-http2.ts'

/** Bytes of hostile callers for a front, and the requests of them that may arrive at kas. */

export interface BytesCase {
  /** requests in order, each with its body; a front may also refuse all, where another front repairs them */
  readonly reaches: readonly (readonly [line: string, body: string])[]
  /** every front must pass it on */
  readonly isGood?: true
}

export interface RawCase extends BytesCase {
  readonly bytes: string
}

export interface Http2Case extends BytesCase {
  readonly head: RawHead
  readonly body?: string
  /** it may arrive as an upgrade */
  readonly isWebSocket?: true
}

const kubernetes = '/-/kubernetes-agent/k8s-proxy'
const own = `Host: h\r\n${good}\r\n`
/** a whole request, without its last line break */
const request = (line: string, ...lines: readonly string[]) =>
  `${line} HTTP/1.1\r\n${own}${lines.map((one) => `${one}\r\n`).join('')}`
const get = (path: string, ...lines: readonly string[]) => `${request(`GET ${kubernetes}${path}`, ...lines)}\r\n`
const post = (body: string, ...lines: readonly string[]) => `${request(`POST ${kubernetes}/x`, ...lines)}\r\n${body}`

const smuggled = get('/smuggled')
/** ends early for a parser of chunks, late for a parser of the length */
const both = `0\r\n\r\n${smuggled}`
const length = (body: string) => `Content-Length: ${body.length}`
const chunked = 'Transfer-Encoding: chunked'
const ofPath = (target: string) => `${request(`GET ${target}`)}\r\n`
const webSocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: k']

/** Sent after each case: the front then ends the connection, if it has not done so before. */
export const last = get('/last', 'Connection: close')
export const control = get('/control', 'Connection: close')

const refused = { reaches: [] } as const
const x = { reaches: [['GET /x', '']] } as const
const posted = (body: string) => ({ reaches: [['POST /x', body]] }) as const

export const rawCases: Readonly<Record<string, RawCase>> = {
  'a request': { bytes: get('/x'), ...x, isGood: true },
  'two in a row': {
    bytes: get('/a') + get('/b'),
    reaches: [
      ['GET /a', ''],
      ['GET /b', ''],
    ],
    isGood: true,
  },
  'a length, and chunked': { bytes: post(both, length(both), chunked), ...posted('') },
  'chunked, and a length': { bytes: post(both, chunked, length(both)), ...posted('') },
  'chunked, and a short length': { bytes: post(both, chunked, 'Content-Length: 4'), ...posted('') },
  'a space before the colon': { bytes: post(both, length(both), 'Transfer-Encoding : chunked'), ...refused },
  xchunked: { bytes: post(both, length(both), 'Transfer-Encoding: xchunked'), ...refused },
  'identity, chunked': { bytes: post(both, 'Transfer-Encoding: identity, chunked'), ...refused },
  'a tab before chunked': { bytes: post(both, length(both), 'Transfer-Encoding:\tchunked'), ...posted('') },
  'a vertical tab before chunked': { bytes: post(both, length(both), 'Transfer-Encoding: \x0bchunked'), ...refused },
  'chunked, then identity': { bytes: post(both, chunked, 'Transfer-Encoding: identity', length(both)), ...refused },
  'Transfer_Encoding, which is none': {
    bytes: post(both, 'Transfer_Encoding: chunked', length(both)),
    ...posted(both),
    isGood: true,
  },
  'Content_Length, which is none': {
    bytes: post('abc', 'Content_Length: 0', length('abc')),
    ...posted('abc'),
    isGood: true,
  },
  'two lengths': { bytes: post(smuggled, 'Content-Length: 0', length(smuggled)), ...refused },
  'a list of lengths': { bytes: post(smuggled, `Content-Length: 0, ${smuggled.length}`), ...refused },
  'a signed length': { bytes: post('abc', 'Content-Length: +3'), ...refused },
  'a length in hex': { bytes: post('abc', 'Content-Length: 0x3'), ...refused },
  'a body of GET': {
    bytes: get('/x', length(smuggled)) + smuggled,
    reaches: [['GET /x', smuggled]],
    isGood: true,
  },
  'an extension of a chunk, ended by LF': {
    bytes: post(`3;x\nxx\r\nabc\r\n${'y'.repeat(0xabc)}\r\n0\r\n\r\n`, chunked),
    ...posted(`xx\r${'y'.repeat(0xabc)}`),
  },
  'a quoted extension with LF': { bytes: post('3;a="\n"\r\nabc\r\n0\r\n\r\n', chunked), ...refused },
  'a chunk of 0x3': { bytes: post('0x3\r\nabc\r\n0\r\n\r\n', chunked), ...refused },
  'trailers that are heads': {
    bytes: post('3\r\nabc\r\n0\r\nAuthorization: evil\r\nGitlab-Agent-Id: 7\r\n\r\n', chunked),
    ...posted('abc'),
  },
  'bare LF': { bytes: get('/x').replaceAll('\r\n', '\n'), ...x },
  'bare CR': { bytes: get('/x', 'X-A: b\rX-B: c'), ...refused },
  'NUL in a value': { bytes: get('/x', 'X-A: b\0c'), ...refused },
  'a folded line': { bytes: get('/x', 'X-A: b', ' Authorization: evil'), ...x },
  'a folded coding': { bytes: post(both, length(both), 'Transfer-Encoding:', ' chunked'), ...posted('') },
  'Connection: authorization': { bytes: get('/x', 'Connection: authorization'), ...x, isGood: true },
  'Connection: host, and more': {
    bytes: get('/x', 'Gitlab-Agent-Id: 42', 'Connection: gitlab-agent-id, host, content-length, upgrade'),
    ...x,
  },
  'what replicas and fronts say': {
    bytes: get(
      '/x',
      'gitlab_agent_id: 7',
      'Gitlab-Kas-Accel: evil',
      'Gitlab_Kas_Accel: evil',
      'Gitlab-Kas-Route: kas-1',
    ),
    ...x,
    isGood: true,
  },
  'h2c, and a second request': {
    bytes: get('/x', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk') + smuggled,
    reaches: [
      ['GET /x', ''],
      ['GET /smuggled', ''],
    ],
  },
  'a refused upgrade, and a second request': {
    bytes: get('/x', ...webSocket) + smuggled,
    reaches: [
      ['GET /x', ''],
      ['GET /smuggled', ''],
    ],
  },
  'an upgrade with a body': { bytes: post(smuggled, ...webSocket, length(smuggled)), ...posted(smuggled) },
  'an upgrade in chunks': {
    bytes: post(both, ...webSocket, chunked),
    reaches: [
      ['POST /x', ''],
      ['GET /smuggled', ''],
    ],
  },
  'no host': { bytes: get('/x').replace('Host: h\r\n', ''), ...refused },
  'two hosts': { bytes: get('/x', 'Host: other'), ...refused },
  'a host that is a URL': { bytes: get('/x').replace('Host: h', 'Host: a/b@c?d'), ...x },
  'HTTP/1.0': { bytes: get('/x').replace('HTTP/1.1', 'HTTP/1.0'), ...x },
  'HTTP/1.0 in chunks': { bytes: post(both, chunked).replace('HTTP/1.1', 'HTTP/1.0'), ...refused },
  'another host in the target': { bytes: ofPath(`https://other.example.com${kubernetes}/x`), ...x },
  '..': { bytes: ofPath(`${kubernetes}/../../reports`), ...refused },
  '.. in percent': { bytes: ofPath(`${kubernetes}/%2e%2e/%2e%2e/x`), ...refused },
  '.. that comes back': { bytes: ofPath(`${kubernetes}/%2e%2e/k8s-proxy/x`), ...refused },
  '.. on the way': { bytes: ofPath('/-/x/../kubernetes-agent/k8s-proxy/x'), ...refused },
  'the prefix in percent': { bytes: ofPath('/-/kubernetes-agent/k8s%2dproxy/x'), ...refused },
  'no prefix': { bytes: ofPath('/x'), ...refused },
  'two slashes': { bytes: ofPath('//k8s-proxy/x'), ...refused },
  'two slashes in the prefix': { bytes: ofPath('/-//kubernetes-agent/k8s-proxy/x'), ...refused },
  'two slashes behind the prefix': {
    bytes: ofPath(`${kubernetes}//other.example.com/x`),
    reaches: [['GET //other.example.com/x', '']],
  },
  'a semicolon': { bytes: ofPath(`${kubernetes};/x`), ...refused },
  'an inner location of the front': { bytes: ofPath('/-/kubernetes-agent/once'), ...refused },
  'a fragment': { bytes: ofPath(`${kubernetes}/x#/../y`), ...refused },
  'a space in the target': { bytes: ofPath(`${kubernetes}/x HTTP/1.1 y`), ...refused },
  'line breaks in percent': {
    bytes: ofPath(`${kubernetes}/x%0d%0aX-A:b`),
    reaches: [['GET /x\r\nX-A:b', '']],
  },
  TRACE: { bytes: get('/x').replace('GET', 'TRACE'), ...refused },
  CONNECT: { bytes: `${request('CONNECT 127.0.0.1:22')}\r\n`, ...refused },
  'an agent that asks for another port': {
    bytes: `${request('GET /-/kubernetes-agent/', 'Gitlab-Kas-Route: kas_kubernetes')}\r\n`,
    reaches: [['agents GET /', '']],
    isGood: true,
  },
}

const [, authorization = ''] = /: (.*)/.exec(good) ?? []
const pseudo = (changed: Readonly<Record<string, string>> = {}): RawHead =>
  Object.entries({ ':method': 'GET', ':scheme': 'https', ':path': `${kubernetes}/x`, ':authority': 'h', ...changed })
const headOf = (changed: Readonly<Record<string, string>>, ...more: RawHead): RawHead => [
  ...pseudo(changed),
  ['authorization', authorization],
  ...more,
]
const method = { ':method': 'POST' }

export const http2Cases: Readonly<Record<string, Http2Case>> = {
  'a request': { head: headOf({}), ...x, isGood: true },
  'a body without a length': { head: headOf(method), body: 'abc', ...posted('abc'), isGood: true },
  'a coding': { head: headOf(method, ['transfer-encoding', 'chunked']), body: both, ...posted(both) },
  'a length that is too short': { head: headOf(method, ['content-length', '0']), body: smuggled, ...posted('') },
  'a length that is too long': { head: headOf(method, ['content-length', '100']), body: 'abc', ...refused },
  'two lengths': {
    head: headOf(method, ['content-length', '3'], ['content-length', '0']),
    body: 'abc',
    ...refused,
  },
  'CR LF in a value': { head: headOf({}, ['x-a', 'b\r\nx-b: c']), ...refused },
  'LF in a value': { head: headOf({}, ['x-a', 'b\nx-b: c']), ...refused },
  'NUL in a value': { head: headOf({}, ['x-a', 'b\0c']), ...refused },
  'a header in a name': { head: headOf({}, ['transfer-encoding:chunked\r\nx', '1']), ...refused },
  'a colon in a name': { head: headOf({}, ['transfer-encoding:chunked', '1']), ...refused },
  'signs in a name': { head: headOf({}, ['a(b)"', '1']), ...refused },
  'a name in capitals': { head: headOf({}, ['Gitlab-Kas-Accel', 'evil']), ...refused },
  'a line break in the method': { head: headOf({ ':method': 'GET /y HTTP/1.1\r\nx: ' }), ...refused },
  'a space in the method': { head: headOf({ ':method': 'GET /y HTTP/1.1' }), ...refused },
  'a space in the path': { head: headOf({ ':path': `${kubernetes}/x HTTP/1.1` }), ...refused },
  'a line break in the path': { head: headOf({ ':path': `${kubernetes}/x HTTP/1.1\r\nx: y\r\n` }), ...refused },
  'a fragment': { head: headOf({ ':path': `${kubernetes}/x#/y` }), ...refused },
  'a URL as the path': { head: headOf({ ':path': `https://other.example.com${kubernetes}/x` }), ...refused },
  '..': { head: headOf({ ':path': `${kubernetes}/../../reports` }), ...refused },
  'a star': { head: headOf({ ':path': '*' }), ...refused },
  'an authority and another host': { head: headOf({}, ['host', 'other']), ...x },
  'an authority with a path': { head: headOf({ ':authority': 'a@b/c' }), ...refused },
  'a scheme with a host': { head: headOf({ ':scheme': 'https://other/?' }), ...refused },
  'an upgrade, which HTTP/2 has not': { head: headOf({}, ['upgrade', 'websocket']), ...x },
  'Connection, which HTTP/2 has not': {
    head: headOf({}, ['connection', 'authorization'], ['upgrade', 'websocket']),
    ...x,
  },
  'a WebSocket of HTTP/2': {
    head: [[':protocol', 'websocket'], ...headOf({ ':method': 'CONNECT' })],
    ...x,
    isWebSocket: true,
  },
  'a second path behind the head': { head: headOf({}, ['x-a', 'b'], [':path', '/reports']), ...refused },
  'two paths': { head: [[':path', '/reports'], ...headOf({})], ...refused },
  'what replicas and fronts say': {
    head: headOf({}, ['gitlab-kas-accel', 'evil'], ['gitlab_kas_accel', 'evil'], ['gitlab-kas-route', 'kas-1']),
    ...x,
    isGood: true,
  },
}
