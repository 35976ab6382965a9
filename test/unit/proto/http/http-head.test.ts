import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { HttpRequestSchema } from '../../../../src/proto/gen/grpctool_pb.ts'
import {
  maxHeadBytes,
  maxHeadLines,
  maxHeadValues,
  maxQueryValues,
  maxRequestHeadBytes,
  maxRequestHeadLines,
} from '../../../../src/proto/http/http-head.ts'
import type { Headers, HttpRequestHeader } from '../../../../src/proto/http/http-message.ts'
import {
  decodeHttpRequest,
  decodeHttpResponse,
  decodeModuleRequest,
  encodeHttpRequest,
  encodeHttpResponse,
} from '../../../../src/proto/http/http-over-grpc.ts'
import { BackwardWriter } from '../../../../src/proto/wire/wire.ts'

/** Bounds of a header message. A larger one is refused before it is built. */

const lines = (count: number): Headers => Array.from({ length: count }, (_, i) => [`X-${i}`, ['v']])
const request = (more: Partial<HttpRequestHeader>) =>
  encodeHttpRequest.header({ method: 'GET', urlPath: '/', query: [], header: [], ...more })
const response = (header: Headers) => encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header })
const impersonation = { username: 'u', groups: [], uid: '', extra: [] }
const tooLarge = { code: 'HTTP_HEAD_TOO_LARGE', grpcCode: 8 }
const many = (count: number) => Array.from({ length: count }, () => 'v')

/** Returns `content` as a message nested in these fields. */
function nested(content: Uint8Array, ...fields: number[]): Uint8Array {
  const writer = new BackwardWriter().begin()
  writer.bytes(content)
  for (const field of fields.toReversed()) writer.close(field, 0)
  return writer.take()
}

t.test('as much as is allowed is read', async (t) => {
  const { header } = decodeHttpResponse(response(lines(maxHeadLines))) as { header: { header: Headers } }
  t.equal(header.header.length, maxHeadLines)
  t.equal(decodeHttpResponse(response([['Set-Cookie', many(maxHeadLines)]])).kind, 'header')
  const query: [string, string[]][] = [['q', many(maxQueryValues)]]
  t.equal(decodeHttpRequest(request({ header: lines(maxRequestHeadLines), query })).kind, 'header')
})

const beyond: [what: string, message: Uint8Array, decode: (bytes: Uint8Array) => unknown, text: RegExp][] = [
  ['lines of an answer', response(lines(maxHeadLines + 1)), decodeHttpResponse, /more than 1000 header lines/],
  ['values of one name', response([['A', many(maxHeadLines + 1)]]), decodeHttpResponse, /1000 header lines/],
  ['names without a value', response(many(maxHeadLines + 1).map((v) => [v, []])), decodeHttpResponse, /header lines/],
  ['lines of a request', request({ header: lines(maxRequestHeadLines + 1) }), decodeHttpRequest, /header lines/],
  ['lines of a request to GitLab', request({ header: lines(maxHeadLines + 1) }), decodeModuleRequest, /header lines/],
  [
    'parameters',
    request({ query: [['q', many(maxQueryValues + 1)]] }),
    decodeHttpRequest,
    /120000 values of the query/,
  ],
  [
    'parameters of a request to GitLab',
    request({ query: [['q', many(maxHeadValues + 1)]] }),
    decodeModuleRequest,
    /10000 values of the query/,
  ],
  [
    'bytes of a request',
    request({ header: [['A', ['v'.repeat(maxRequestHeadBytes)]]] }),
    decodeHttpRequest,
    /4194304 by/,
  ],
  [
    'bytes of one to GitLab',
    request({ header: [['A', ['v'.repeat(maxHeadBytes)]]] }),
    decodeModuleRequest,
    /1048576 bytes/,
  ],
  [
    'groups',
    request({ impersonation: { ...impersonation, groups: many(maxHeadValues + 1) } }),
    decodeHttpRequest,
    /10000 values of the impersonation/,
  ],
  [
    'extra values',
    request({ impersonation: { ...impersonation, extra: [{ key: 'k', val: many(maxHeadValues) }] } }),
    decodeHttpRequest,
    /values of the impersonation/,
  ],
  ['bytes', response([['A', ['v'.repeat(maxHeadBytes)]]]), decodeHttpResponse, /1048576 bytes/],
  [
    'two million empty entries in 4 MiB',
    nested(Buffer.alloc(4_000_000, Buffer.of(0x1a, 0)), 1, 1),
    decodeHttpResponse,
    /1048576 bytes/,
  ],
  [
    'half a million empty entries in 1 MiB',
    nested(Buffer.alloc(1_000_000, Buffer.of(0x1a, 0)), 1, 1),
    decodeHttpResponse,
    /header lines/,
  ],
]
for (const [what, message, decode, text] of beyond) {
  t.test(`more is refused: ${what}`, async (t) => {
    t.throws(() => decode(message), { ...tooLarge, message: text })
  })
}

t.test('a message that is set again and again is not read each time', async (t) => {
  for (const decode of [decodeHttpResponse, decodeHttpRequest, decodeModuleRequest]) {
    t.equal(decode(Buffer.alloc(32, Buffer.of(0x12, 0))).kind, 'data')
    t.throws(() => decode(Buffer.alloc(34, Buffer.of(0x12, 0))), { code: 'INVALID_MESSAGE', message: /16 times/ })
  }
})

t.test('the query as it was written: beside a long one the map is not built', async (t) => {
  const decoded = (more: Partial<HttpRequestHeader>) => {
    const message = decodeHttpRequest(request(more))
    return message.kind === 'header' ? message.header : undefined
  }
  const query: [string, string[]][] = [['a', ['1', '2']]]
  t.match(decoded({ query, rawQuery: 'a=1&a=2&' }), { query, rawQuery: 'a=1&a=2&' })
  t.match(decoded({ query: [], rawQuery: '' }), { rawQuery: '' })
  t.notOk('rawQuery' in (decoded({ query }) ?? {}))
  const rawQuery = `${'a='.repeat(200_000)}&b`
  t.match(decoded({ query: [['a', many(maxQueryValues + 1)]], rawQuery }), { query: [], rawQuery })
  for (const bad of ['a b', 'a\n', 'a\x7f', 'a\u00e9'])
    t.throws(() => decodeHttpRequest(request({ rawQuery: bad })), { code: 'INVALID_MESSAGE' }, JSON.stringify(bad))
})

t.test('the field of the query is that of the .proto, and has its number', async (t) => {
  const rawQuery = 'b=2&a=%20'
  const message = fromBinary(HttpRequestSchema, request({ query: [['a', ['1']]], rawQuery })).message
  t.match(message, { case: 'header', value: { rawQuery } })
  const unset = fromBinary(HttpRequestSchema, request({})).message
  t.equal(unset.case === 'header' && unset.value.rawQuery, undefined)
  const written = {
    message: { case: 'header', value: { request: { method: 'GET', urlPath: '/' }, rawQuery } },
  } as const
  const bytes = toBinary(HttpRequestSchema, create(HttpRequestSchema, written))
  t.match(decodeHttpRequest(bytes), { kind: 'header', header: { rawQuery } })
})
