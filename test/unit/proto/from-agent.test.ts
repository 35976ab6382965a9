import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { type Status, StatusSchema } from '../../../src/proto/gen/google/rpc/status_pb.ts'
import {
  maxMetadataBytes,
  maxMetadataValues,
  maxStatusDetailsBytes,
  maxStatusTextBytes,
  metadataCut,
} from '../../../src/proto/grpc/sendable.ts'
import { decodeConnectRequest, encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'

type Meta = Record<string, string[]>

function readMeta(kind: 'header' | 'trailer', meta: Meta): Meta {
  const message = decodeConnectRequest(encodeConnectRequest[kind](meta))
  if (message.kind !== 'header' && message.kind !== 'trailer') throw new Error(message.kind)
  if (message.isCut !== 'metadata-cut' in message.meta) throw new Error('a cut is told, and marked')
  return { ...message.meta } as Meta
}

function readStatus(status: Status) {
  const message = decodeConnectRequest(encodeConnectRequest.error(status))
  if (message.kind !== 'error') throw new Error(message.kind)
  return { isCut: message.isCut, ...message.status }
}

const bytesOf = (meta: Meta) =>
  Object.entries(meta)
    .flatMap(([key, values]) => values.map((value) => key.length + value.length))
    .reduce((sum, length) => sum + length, 0)

for (const kind of ['header', 'trailer'] as const) {
  t.test(`${kind}: metadata within its bounds is whole`, async (t) => {
    const value = 'x'.repeat(maxMetadataBytes - 1)
    t.same(readMeta(kind, { a: [value] }), { a: [value] })
    const many = { a: Array.from({ length: maxMetadataValues }, (_, i) => `${i}`) }
    t.same(readMeta(kind, many), many)
  })

  t.test(`${kind}: what is beyond is cut, with a mark`, async (t) => {
    t.same(readMeta(kind, { large: ['x'.repeat(70_000)] }), { 'metadata-cut': metadataCut })
    const values = Array.from({ length: 1000 }, (_, i) => `${i}`)
    t.same(readMeta(kind, { values }), { values: values.slice(0, maxMetadataValues), 'metadata-cut': metadataCut })
    t.same(readMeta(kind, { values: Array(100_000).fill('') }), { 'metadata-cut': metadataCut })
    const keys = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`k${i}`, ['v']]))
    const kept = readMeta(kind, keys)
    t.ok(Object.keys(kept).length <= 2 * maxMetadataValues, 'a key without room keeps no value')
    const { 'metadata-cut': mark, ...rest } = kept
    t.same(mark, metadataCut)
    t.ok(bytesOf(rest) <= maxMetadataBytes)
  })
}

t.test('the text of an error is cut, with its length, and no character in two', async (t) => {
  const exact = 'x'.repeat(maxStatusTextBytes)
  t.equal(readStatus(create(StatusSchema, { code: 5, message: exact })).message, exact)
  for (const letter of ['x', 'é', '漢', '🙂']) {
    const message = letter.repeat(70_000)
    const read = readStatus(create(StatusSchema, { code: 5, message }))
    t.match(read, { code: 5, isCut: true })
    t.ok(Buffer.byteLength(read.message) <= maxStatusTextBytes + 4, letter)
    t.match(read.message, new RegExp(`^(${letter})+ \\.\\.\\. \\(cut, of ${Buffer.byteLength(message)} bytes\\)$`, 'u'))
  }
})

t.test('details are whole, or left out', async (t) => {
  const withDetails = (bytes: number) =>
    create(StatusSchema, { code: 3, message: 'm', details: [{ typeUrl: 't', value: new Uint8Array(bytes) }] })
  t.same(readStatus(withDetails(100)).details, toBinary(StatusSchema, withDetails(100)))
  t.same(readStatus(withDetails(maxStatusDetailsBytes)), { code: 3, message: 'm', isCut: true })
})
