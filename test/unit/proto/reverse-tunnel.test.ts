import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { StatusSchema } from '../../../src/proto/gen/google/rpc/status_pb.ts'
import { AgentDescriptorSchema } from '../../../src/proto/gen/info_pb.ts'
import { ConnectRequestSchema, ConnectResponseSchema } from '../../../src/proto/gen/reverse_tunnel_pb.ts'
import {
  type ConnectRequest,
  type ConnectResponse,
  connectRequestOrder,
  connectResponseOrder,
  decodeConnectRequest,
  decodeConnectResponse,
  encodeConnectRequest,
  encodeConnectResponse,
} from '../../../src/proto/reverse-tunnel.ts'
import { MessageOrder } from '../../../src/proto/wire/message-order.ts'
import { encoded, rewrittenMessage } from '../../support/rewritten-message.ts'
import { Seeded } from '../../support/seeded.ts'

/** The hand-written codec agrees with the generated one. */

type Meta = Record<string, string[]>

const cases = 300
const invalid = { code: 'INVALID_MESSAGE' }
const field = (number: number, content: Uint8Array) => ({ number, type: 2, content })

const someMeta = (seeded: Seeded): Meta =>
  Object.fromEntries([
    ...seeded.list(4, (i) => [`k${i}`, seeded.list(3, () => Buffer.from(seeded.text(9)).toString('latin1'))]),
    ...seeded.list(2, (i) => [`k${i}-bin`, seeded.list(2, () => seeded.bytes(9).toString('base64'))]),
  ])
const metaOf = (meta: Meta) =>
  Object.fromEntries(
    Object.entries(meta).map(([key, values]) => [
      key,
      { value: values.map((value) => Buffer.from(value, key.endsWith('-bin') ? 'base64' : 'latin1')) },
    ]),
  )
const someDescriptor = (seeded: Seeded) =>
  create(AgentDescriptorSchema, {
    services: seeded.list(3, () => ({
      name: seeded.text(9),
      methods: seeded.list(3, () => ({ name: seeded.text(9) })),
    })),
  })
const someStatus = (seeded: Seeded) =>
  create(StatusSchema, {
    code: seeded.int(17),
    message: seeded.text(20),
    details: seeded.list(2, () => ({ typeUrl: seeded.text(5), value: seeded.bytes(9) })),
  })

/** A message of each kind, with the bytes that the generated code writes and the value to read from them. */
function someRequests(seeded: Seeded) {
  const [descriptor, status, data] = [someDescriptor(seeded), someStatus(seeded), seeded.bytes(300)]
  const [header, trailer] = [someMeta(seeded), someMeta(seeded)]
  const details = status.details.length > 0 ? { details: toBinary(StatusSchema, status) } : {}
  const readStatus = { code: status.code, message: status.message, ...details }
  const pair = (own: Uint8Array, read: ConnectRequest, msg: Parameters<typeof request>[0]) => ({
    own,
    read,
    theirs: request(msg),
  })
  return [
    pair(
      encodeConnectRequest.descriptor(descriptor),
      { kind: 'descriptor', descriptor },
      { case: 'descriptor', value: { agentDescriptor: descriptor } },
    ),
    pair(
      encodeConnectRequest.header(header),
      { kind: 'header', meta: header, isCut: false },
      { case: 'header', value: { meta: metaOf(header) } },
    ),
    pair(
      Buffer.concat([encodeConnectRequest.messageHead(data.length), data]),
      { kind: 'message', data },
      { case: 'message', value: { data } },
    ),
    pair(
      encodeConnectRequest.trailer(trailer),
      { kind: 'trailer', meta: trailer, isCut: false },
      { case: 'trailer', value: { meta: metaOf(trailer) } },
    ),
    pair(
      encodeConnectRequest.error(status),
      { kind: 'error', status: readStatus, isCut: false },
      { case: 'error', value: { status } },
    ),
  ]
}

function someResponses(seeded: Seeded) {
  const [methodName, meta, data] = [seeded.text(30), someMeta(seeded), seeded.bytes(300)]
  const pair = (own: Uint8Array, read: ConnectResponse, msg: Parameters<typeof response>[0]) => ({
    own,
    read,
    theirs: response(msg),
  })
  return [
    pair(
      encodeConnectResponse.requestInfo(methodName, meta),
      { kind: 'requestInfo', methodName, meta },
      { case: 'requestInfo', value: { methodName, meta: metaOf(meta) } },
    ),
    pair(
      Buffer.concat([encodeConnectResponse.messageHead(data.length), data]),
      { kind: 'message', data },
      { case: 'message', value: { data } },
    ),
    pair(encodeConnectResponse.closeSend(), { kind: 'closeSend' }, { case: 'closeSend', value: {} }),
  ]
}

const request = (msg: NonNullable<Parameters<typeof create<typeof ConnectRequestSchema>>[1]>['msg'] & object) =>
  create(ConnectRequestSchema, { msg })
const response = (msg: NonNullable<Parameters<typeof create<typeof ConnectResponseSchema>>[1]>['msg'] & object) =>
  create(ConnectResponseSchema, { msg })

/** Returns a comparable form: bytes as buffers, keys in any order, unknown fields left out. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner) => {
      if (key === '$unknown' || key === '$typeName') return undefined
      if (key === 'details' && inner?.buffer) return fromBinary(StatusSchema, inner).details
      if (inner?.type === 'Buffer') return Buffer.from(inner.data).toString('hex')
      if (inner instanceof Uint8Array) return Buffer.from(inner).toString('hex')
      if (key === 'meta') return Object.fromEntries(Object.entries(inner).sort())
      return inner
    }),
  )

for (const { type, some, schema, decode } of [
  { type: 'ConnectRequest', some: someRequests, schema: ConnectRequestSchema, decode: decodeConnectRequest },
  { type: 'ConnectResponse', some: someResponses, schema: ConnectResponseSchema, decode: decodeConnectResponse },
]) {
  t.test(`${type}, written here and read by the generated code, and the other way round`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases; i++) {
      for (const { own, read, theirs } of some(seeded)) {
        t.same(plain(fromBinary(schema, own)), plain(theirs), read.kind)
        t.same(plain(decode(toBinary(schema, theirs))), plain(read), read.kind)
      }
    }
  })

  t.test(`${type} with unknown fields, in another order, with earlier values of scalars`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases; i++) {
      for (const { own, read, theirs } of some(seeded)) {
        const rewritten = rewrittenMessage(schema, own, seeded)
        t.same(plain(fromBinary(schema, rewritten)), plain(theirs), `${read.kind}: it is the same message`)
        t.same(plain(decode(rewritten)), plain(read), `${read.kind}: ${Buffer.from(rewritten).toString('hex')}`)
      }
    }
  })

  t.test(`${type} cut at any position is refused`, async (t) => {
    for (const { own, read } of some(Seeded.for(t))) {
      for (let length = 0; length < own.length; length++) {
        t.throws(() => decode(own.subarray(0, length)), invalid, `${read.kind}, ${length} of ${own.length} bytes`)
      }
    }
  })

  t.test(`${type} of damaged bytes is read or refused, nothing else`, async (t) => {
    const seeded = Seeded.for(t)
    for (let i = 0; i < cases * 4; i++) {
      for (const { own } of some(seeded)) {
        const damaged = Buffer.from(own)
        for (let j = 0; j <= seeded.int(3); j++) damaged[seeded.int(damaged.length)] = seeded.int(256)
        try {
          decode(damaged)
        } catch (error) {
          if ((error as { code?: string }).code !== 'INVALID_MESSAGE') t.fail(damaged.toString('hex'), { cause: error })
        }
      }
    }
    t.pass('each ended')
  })

  t.test(`${type} without a field of its oneof is refused`, async (t) => {
    t.throws(() => decode(new Uint8Array()), { ...invalid, message: new RegExp(`no field of ${type}\\.msg is set`) })
    t.throws(() => decode(encoded([field(99, Buffer.from('new'))])), invalid, 'a field of a newer version alone')
  })
}

t.test('of several fields of a oneof the last one counts', async (t) => {
  const [trailer, error] = [
    encodeConnectRequest.trailer({ k: ['v'] }),
    encodeConnectRequest.error(create(StatusSchema)),
  ]
  t.equal(decodeConnectRequest(Buffer.concat([trailer, error])).kind, 'error')
  t.same(plain(decodeConnectRequest(Buffer.concat([error, trailer]))), {
    kind: 'trailer',
    meta: { k: ['v'] },
    isCut: false,
  })
})

// wire: error.agent.invalid
t.test('what the wire says is required is required', async (t) => {
  for (const number of [1, 5]) {
    t.throws(() => decodeConnectRequest(encoded([field(number, new Uint8Array())])), {
      ...invalid,
      message: /is required/,
    })
  }
  t.same(plain(decodeConnectRequest(encoded([field(3, new Uint8Array())]))), { kind: 'message', data: '' })
  t.same(decodeConnectRequest(encoded([field(2, new Uint8Array())])), { kind: 'header', meta: {}, isCut: false })
})

t.test('a malformed descriptor or status is refused, with what is wrong', async (t) => {
  for (const [number, name] of [
    [1, /malformed message/],
    [5, /google\.rpc\.Status/],
  ] as const) {
    const bytes = encoded([field(number, encoded([field(1, Uint8Array.of(0x12, 0x7f))]))])
    t.throws(() => decodeConnectRequest(bytes), { ...invalid, message: name })
  }
})

t.test('keys that come twice are one list; keys may be named as what objects have', async (t) => {
  const [one, two] = ['1', '2'].map((value) =>
    encodeConnectRequest.header({ constructor: [value], toString: [] }).subarray(2),
  )
  const bytes = encoded([field(2, Buffer.concat([one as Uint8Array, two as Uint8Array]))])
  t.same(plain(decodeConnectRequest(bytes)), {
    kind: 'header',
    meta: { constructor: ['1', '2'], toString: [] },
    isCut: false,
  })
})

t.test('which message may follow which', async (t) => {
  for (const [name, order] of Object.entries({ connectRequestOrder, connectResponseOrder })) {
    const kinds = new Set(Object.values(order).flat())
    for (const [last, allowed] of Object.entries(order) as [string, readonly string[]][]) {
      for (const next of kinds) {
        const follows = () => {
          const messages = new MessageOrder(order)
          for (const step of wayTo(order, last)) messages.accept(step)
          messages.accept(next)
        }
        if (allowed.includes(next)) t.doesNotThrow(follows, `${name}: ${last}, ${next}`)
        else
          t.throws(follows, {
            ...invalid,
            message: `forbidden transition from ${last} to ${next}, allowed: ${allowed.join(', ')}`,
          })
      }
    }
  }
})

/** Returns the shortest sequence of steps from the start of an order to `step`. */
function wayTo(order: Record<string, readonly string[]>, step: string): string[] {
  const ways: string[][] = [[]]
  for (const way of ways) {
    const last = way.at(-1) ?? 'start'
    if (last === step) return way
    if (way.length < 6) ways.push(...(order[last] ?? []).map((next) => [...way, next]))
  }
  throw new Error(`nothing leads to ${step}`)
}
