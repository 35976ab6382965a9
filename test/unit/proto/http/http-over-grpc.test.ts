import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { HttpRequestSchema, HttpResponseSchema } from '../../../../src/proto/gen/grpctool_pb.ts'
import { HeaderExtraSchema } from '../../../../src/proto/gen/kubernetes_api_pb.ts'
import type { HttpRequestHeader } from '../../../../src/proto/http/http-message.ts'
import {
  canonicalHeaderName,
  decodeHttpRequest,
  decodeHttpResponse,
  encodeHttpRequest,
  encodeHttpResponse,
  httpMessageOrder,
} from '../../../../src/proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../../../src/proto/wire/message-order.ts'

/** The hand-written codec agrees with the generated one. */

const text = (value: Uint8Array | undefined) => Buffer.from(value ?? []).toString()

const header: HttpRequestHeader = {
  method: 'PATCH',
  urlPath: '/api/v1/namespaces/größe',
  query: [
    ['watch', ['true']],
    ['fieldSelector', ['a=b', 'c=ü']],
  ],
  header: [
    ['Accept', ['application/json', 'text/plain']],
    ['X-Empty', []],
  ],
  contentLength: 123_456,
  impersonation: {
    username: 'gitlab:user:ada',
    groups: ['gitlab:user', 'gitlab:project_role:1:developer'],
    uid: 'u-1',
    extra: [{ key: 'agent.gitlab.com/id', val: ['42', '43'] }],
  },
}

// wire: http.extra
t.test('a request header is what the generated code reads, and the other way round', async (t) => {
  const generated = fromBinary(HttpRequestSchema, encodeHttpRequest.header(header))
  const message = generated.message.case === 'header' ? generated.message.value : undefined
  t.equal(message?.request?.method, 'PATCH')
  t.equal(message?.request?.urlPath, header.urlPath)
  t.same(message?.request?.query.fieldSelector?.value.map(text), ['a=b', 'c=ü'])
  t.same(message?.request?.header.Accept?.value.map(text), ['application/json', 'text/plain'])
  t.equal(message?.contentLength, 123_456n)
  t.equal(message?.extra?.typeUrl, 'type.googleapis.com/gitlab.agent.kubernetes_api.rpc.HeaderExtra')
  const { impConfig } = fromBinary(HeaderExtraSchema, message?.extra?.value ?? new Uint8Array())
  t.match(impConfig, {
    username: 'gitlab:user:ada',
    groups: ['gitlab:user', 'gitlab:project_role:1:developer'],
    uid: 'u-1',
    extra: [{ key: 'agent.gitlab.com/id', val: ['42', '43'] }],
  })
  t.same(decodeHttpRequest(encodeHttpRequest.header(header)), { kind: 'header', header })
  const again = decodeHttpRequest(toBinary(HttpRequestSchema, generated))
  t.match(again, { kind: 'header', header: { method: 'PATCH', impersonation: header.impersonation ?? {} } })
})

// wire: http.length.0, http.length.-1
for (const contentLength of [0, 1, 127, 128, 2 ** 31, 2 ** 40, -1]) {
  t.test(`content_length ${contentLength}`, async (t) => {
    const bytes = encodeHttpRequest.header({ ...header, contentLength })
    const { message } = fromBinary(HttpRequestSchema, bytes)
    t.equal(message.case === 'header' && message.value.contentLength, BigInt(contentLength))
    t.match(decodeHttpRequest(bytes), { header: { contentLength } })
  })
}

// wire: http.extra.unknown
t.test('an extra of another type is refused: without it the request would act as the agent', async (t) => {
  const bytes = Buffer.from(encodeHttpRequest.header(header))
  bytes[bytes.indexOf('HeaderExtra')] = 'X'.charCodeAt(0)
  t.throws(() => decodeHttpRequest(bytes), { code: 'INVALID_MESSAGE', message: /unknown type/ })
})

// wire: http.length.absent
t.test('an absent content_length stays absent', async (t) => {
  const { contentLength, ...unknown } = header
  t.ok(contentLength)
  const decoded = decodeHttpRequest(encodeHttpRequest.header(unknown))
  t.notOk(decoded.kind === 'header' && 'contentLength' in decoded.header)
})

// wire: http.utf8
t.test(
  'header values are bytes: UTF-8 passes as it is, other bytes as the characters that they stand for',
  async (t) => {
    const utf8 = Buffer.from('ü').toString('latin1')
    const bytes = encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [['X', [utf8, '\xfc']]] })
    const { message } = fromBinary(HttpResponseSchema, bytes)
    t.same(message.case === 'header' && message.value.response?.header.X?.value.map(text), ['ü', 'ü'])
  },
)

for (const size of [0, 1, 127, 128, 16_383, 16_384, 100_000]) {
  t.test(`data of ${size} bytes`, async (t) => {
    const data = Buffer.alloc(size, 7)
    for (const kind of ['data', 'upgradeData'] as const) {
      const { message } = fromBinary(HttpResponseSchema, encodeHttpResponse[kind](data))
      t.equal(message.case, kind)
      t.ok((message.case === 'data' || message.case === 'upgradeData') && data.equals(message.value.data))
      const decoded = decodeHttpRequest(encodeHttpRequest[kind](data))
      t.ok(decoded.kind === kind && data.equals(decoded.data))
    }
  })
}

// wire: http.pairs
t.test('duplicate keys, which newer agents may send, are kept', async (t) => {
  const one = toBinary(
    HttpResponseSchema,
    create(HttpResponseSchema, {
      message: {
        case: 'header',
        value: {
          response: { statusCode: 204, status: '204 No Content', header: { A: { value: [Buffer.from('1')] } } },
        },
      },
    }),
  )
  // appends the last entry again and adjusts all lengths
  const entry = one.subarray(one.length - 10)
  const grown = Buffer.concat([one, entry])
  grown[1] = (one[1] as number) + entry.length
  grown[3] = (one[3] as number) + entry.length
  t.match(decodeHttpResponse(grown), {
    header: {
      header: [
        ['A', ['1']],
        ['A', ['1']],
      ],
    },
  })
})

t.test('a head larger than the first scratch buffer', async (t) => {
  const large = { ...header, header: [['X-Large', ['a'.repeat(20_000), 'b'.repeat(40_000)]]] as [string, string[]][] }
  t.match(decodeHttpRequest(encodeHttpRequest.header(large)), { header: { header: large.header } })
})

t.test('an encoding that throws leaves nothing behind for the next', async (t) => {
  const broken = { ...header, method: undefined as unknown as string }
  t.throws(() => encodeHttpRequest.header(broken))
  t.match(decodeHttpRequest(encodeHttpRequest.header(header)), { header })
})

const malformed: Record<string, Uint8Array> = {
  'an empty message': new Uint8Array(0),
  'a message cut short': encodeHttpRequest.header(header).subarray(0, 30),
  'a varint without end': Buffer.alloc(12, 0xff),
  'a header without request': Uint8Array.of(0x0a, 0),
  'a field number of 0': Uint8Array.of(0x02, 0),
  'a wrong wire type': Uint8Array.of(0x08, 1),
}
for (const [name, bytes] of Object.entries(malformed)) {
  t.test(`${name} is refused`, async (t) => {
    t.throws(() => decodeHttpRequest(bytes), { code: 'INVALID_MESSAGE' })
  })
}

// wire: http.order
t.test('the order of messages', async (t) => {
  const accept = (...kinds: ('header' | 'data' | 'trailer' | 'upgradeData' | 'EOF')[]) => {
    const order = new MessageOrder(httpMessageOrder)
    for (const kind of kinds) order.accept(kind)
  }
  accept('header', 'trailer', 'EOF')
  accept('header', 'data', 'data', 'trailer', 'upgradeData', 'upgradeData', 'EOF')
  t.throws(() => accept('data'), { message: 'forbidden transition from start to data, allowed: header' })
  t.throws(() => accept('header', 'upgradeData'), { code: 'INVALID_MESSAGE' })
  t.throws(() => accept('header', 'EOF'), { code: 'INVALID_MESSAGE' })
  t.throws(() => accept('header', 'trailer', 'data'), { code: 'INVALID_MESSAGE' })
})

// wire: http.names
t.test('names in Go’s form', async (t) => {
  const names = ['content-type', 'SEC-WEBSOCKET-KEY', 'x-csrf-token', 'Impersonate-Extra-agent.gitlab.com%2fid', 'te']
  t.same(names.map(canonicalHeaderName), [
    'Content-Type',
    'Sec-Websocket-Key',
    'X-Csrf-Token',
    'Impersonate-Extra-Agent.gitlab.com%2fid',
    'Te',
  ])
})
