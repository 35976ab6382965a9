import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { HttpRequestSchema, HttpResponseSchema } from '../../../../src/proto/gen/grpctool_pb.ts'
import { HeaderExtraSchema } from '../../../../src/proto/gen/kubernetes_api_pb.ts'
import type {
  Headers,
  HttpRequestHeader,
  HttpResponseHeader,
  Impersonation,
} from '../../../../src/proto/http/http-message.ts'
import {
  decodeHttpRequest,
  decodeHttpResponse,
  encodeHttpRequest,
  encodeHttpResponse,
} from '../../../../src/proto/http/http-over-grpc.ts'
import { encoded, fieldsOf, rewrittenMessage } from '../../../support/rewritten-message.ts'
import { Seeded } from '../../../support/seeded.ts'

/** Random messages, whole, encoded otherwise, cut and damaged: the hand-written codec agrees with the generated one. */

const cases = 300
const invalid = { code: 'INVALID_MESSAGE' }
const field = (number: number, content: Uint8Array) => ({ number, type: 2, content })
const extraType = 'type.googleapis.com/gitlab.agent.kubernetes_api.rpc.HeaderExtra'

const someHeaders = (seeded: Seeded): Headers =>
  seeded.list(4, (i) => [`X-${i}`, seeded.list(3, () => Buffer.from(seeded.text(9)).toString('latin1'))])
const someImpersonation = (seeded: Seeded): Impersonation => ({
  username: seeded.text(9),
  groups: seeded.list(3, () => seeded.text(9)),
  uid: seeded.text(5),
  extra: seeded.list(3, () => ({ key: `k${seeded.text(5)}`, val: seeded.list(3, () => seeded.text(9)) })),
})
const someRequest = (seeded: Seeded): HttpRequestHeader => ({
  method: seeded.pick(['GET', 'PATCH', 'X']),
  urlPath: `/${seeded.text(30)}`,
  query: seeded.list(3, (i) => [`q${i}`, seeded.list(3, () => seeded.text(9))]),
  header: someHeaders(seeded),
  ...(seeded.chance(0.7) && { contentLength: seeded.pick([-1, 0, 1, seeded.int(2 ** 31), 2 ** 40 + seeded.int(9)]) }),
  ...(seeded.chance(0.5) && { impersonation: someImpersonation(seeded) }),
})
const someResponse = (seeded: Seeded): HttpResponseHeader => ({
  statusCode: seeded.pick([101, 200, 204, 599, seeded.int(1000)]),
  status: seeded.text(9),
  header: someHeaders(seeded),
})

const mapOf = (entries: Headers, encoding: 'latin1' | 'utf8' = 'latin1') =>
  Object.fromEntries(
    entries.map(([name, values]) => [name, { value: values.map((value) => Buffer.from(value, encoding)) }]),
  )

/** Returns the same request, written by the generated code. */
function generatedRequest({ impersonation, contentLength, ...request }: HttpRequestHeader) {
  const impConfig = impersonation && { ...impersonation, groups: [...impersonation.groups] }
  const extra = impConfig && {
    typeUrl: extraType,
    value: toBinary(
      HeaderExtraSchema,
      create(HeaderExtraSchema, {
        impConfig: { ...impConfig, extra: impConfig.extra.map(({ key, val }) => ({ key, val: [...val] })) },
      }),
    ),
  }
  const { method, urlPath, query, header } = request
  return create(HttpRequestSchema, {
    message: {
      case: 'header',
      value: {
        request: { method, urlPath, header: mapOf(header), query: mapOf(query, 'utf8') },
        ...(contentLength !== undefined && { contentLength: BigInt(contentLength) }),
        ...(extra && { extra }),
      },
    },
  })
}

const generatedResponse = ({ statusCode, status, header }: HttpResponseHeader) =>
  create(HttpResponseSchema, {
    message: { case: 'header', value: { response: { statusCode, status, header: mapOf(header) } } },
  })

const some = {
  HttpRequest(seeded: Seeded) {
    const header = someRequest(seeded)
    return { header, own: encodeHttpRequest.header(header), theirs: generatedRequest(header) }
  },
  HttpResponse(seeded: Seeded) {
    const header = someResponse(seeded)
    return { header, own: encodeHttpResponse.header(header), theirs: generatedResponse(header) }
  },
}

/** Returns a form that does not depend on the writer: entries sorted by name, bytes as text. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner) => {
      if (key === '$unknown' || key === '$typeName') return undefined
      if (typeof inner === 'bigint') return Number(inner)
      if (inner?.type === 'Buffer') return Buffer.from(inner.data).toString('hex')
      if (inner instanceof Uint8Array) return Buffer.from(inner).toString('hex')
      if ((key === 'query' || key === 'header') && Array.isArray(inner)) return [...inner].sort()
      return inner
    }),
  )

for (const { type, make, schema, decode } of [
  { type: 'HttpRequest', make: some.HttpRequest, schema: HttpRequestSchema, decode: decodeHttpRequest },
  { type: 'HttpResponse', make: some.HttpResponse, schema: HttpResponseSchema, decode: decodeHttpResponse },
]) {
  t.test(`a head of ${type}, written here and read by the generated code, and the other way round`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases; i++) {
      const { header, own, theirs } = make(seeded)
      t.same(plain(fromBinary(schema, own)), plain(theirs))
      t.same(plain(decode(toBinary(schema, theirs))), plain({ kind: 'header', header }))
    }
  })

  t.test(`a head of ${type} with unknown fields, in another order, with earlier values of scalars`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases; i++) {
      const { header, own, theirs } = make(seeded)
      const rewritten = rewrittenMessage(schema, own, seeded)
      t.same(plain(fromBinary(schema, rewritten)), plain(theirs), 'it is the same message')
      t.same(plain(decode(rewritten)), plain({ kind: 'header', header }), Buffer.from(rewritten).toString('hex'))
    }
  })

  t.test(`${type} cut at any position is refused`, async (t) => {
    const { own } = make(Seeded.for(t))
    for (let length = 0; length < own.length; length++) {
      t.throws(() => decode(own.subarray(0, length)), invalid, `${length} of ${own.length} bytes`)
    }
  })

  t.test(`a head of ${type} cut inside is read as the generated code reads it, or refused`, async (t) => {
    const { own } = make(Seeded.for(t))
    const inner = fieldsOf(own)[0]?.content as Uint8Array
    let refused = 0
    for (let length = 0; length < inner.length; length++) {
      const cut = encoded([field(1, inner.subarray(0, length))])
      try {
        const message = decode(cut)
        if (message.kind !== 'header') throw new Error(`${message.kind}, not a head`)
        const { header } = message
        const theirs = 'method' in header ? generatedRequest(header) : generatedResponse(header)
        t.same(plain(fromBinary(schema, cut)), plain(theirs), `${length} of ${inner.length} bytes`)
      } catch (error) {
        if ((error as { code?: string }).code !== 'INVALID_MESSAGE') throw error
        refused++
      }
    }
    t.ok(refused > 0, `${refused} of ${inner.length} are refused`)
  })

  t.test(`${type} of damaged bytes is read or refused, nothing else`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases * 4; i++) {
      const damaged = Buffer.from(make(seeded).own)
      for (let j = 0; j <= seeded.int(3); j++) damaged[seeded.int(damaged.length)] = seeded.int(256)
      try {
        decode(damaged)
      } catch (error) {
        if ((error as { code?: string }).code !== 'INVALID_MESSAGE') t.fail(damaged.toString('hex'), { cause: error })
      }
    }
    t.pass('each ended')
  })

  t.test(`${type}: of several fields of the oneof the last one counts, and no field at all is refused`, async (t) => {
    const [data, trailer] = [encodeHttpRequest.data(Buffer.from('x')), encodeHttpRequest.trailer]
    t.same(decode(Buffer.concat([data, trailer])), { kind: 'trailer' })
    t.same(plain(decode(Buffer.concat([trailer, data]))), plain({ kind: 'data', data: Buffer.from('x') }))
    t.throws(() => decode(new Uint8Array()), {
      ...invalid,
      message: new RegExp(`no field of ${type}\\.message is set`),
    })
    t.throws(() => decode(encoded([field(99, Buffer.from('new'))])), invalid, 'a field of a newer version alone')
  })
}

t.test('what the wire says is required is required', async (t) => {
  const head = { method: 'GET', urlPath: '/', query: [], header: [] }
  for (const request of [
    { ...head, method: '' },
    { ...head, urlPath: '' },
  ]) {
    t.throws(() => decodeHttpRequest(encodeHttpRequest.header(request)), { ...invalid, message: /needs request/ })
  }
  t.throws(() => decodeHttpResponse(encoded([field(1, new Uint8Array())])), { ...invalid, message: /needs response/ })
  const underMinusOne = generatedRequest({ ...head, contentLength: -2 })
  t.throws(() => decodeHttpRequest(toBinary(HttpRequestSchema, underMinusOne)), {
    ...invalid,
    message: /content_length/,
  })
})
