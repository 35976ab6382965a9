import { isDeepStrictEqual } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Stream } from '@libp2p/interface'
import t from 'tap'
import { maxParts, readRow, sendRow } from '../../../../src/membership/network/row-stream.ts'
import { bounds, type RowItems } from '../../../../src/membership/table/row.ts'
import { headToMessage, itemsToMessages } from '../../../../src/membership/table/row-codec.ts'
import { RowItemsSchema, type RowPart, RowPartSchema, RowStartSchema } from '../../../../src/proto/gen/replica_pb.ts'
import { connection, head, instance, registration, snapshot } from '../rows.ts'

const a = instance('a')

async function sent(items: RowItems): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = []
  const stream = { send: (bytes: Uint8Array) => chunks.push(bytes) > 0, close: async () => undefined }
  await sendRow(stream as unknown as Stream, snapshot(a, 7, items), new AbortController().signal)
  return chunks
}

async function* received(chunks: Iterable<Uint8Array>) {
  for (const chunk of chunks) yield { subarray: () => chunk }
}

t.test('a row comes through, whatever its parts', async (t) => {
  const euros = (count: number, length: number) => Array.from({ length: count }, (_, i) => `/${i}`.padEnd(length, '€'))
  const connections = [
    connection('1', 42, { methods: euros(240, 250) }),
    connection('2', 42, { methods: euros(256, 160) }),
  ]
  const meta = new Uint8Array(bounds.metaBytes)
  const registrations = Array.from({ length: 100 }, (_, i) => registration(BigInt(i), 43, { meta }))
  const chunks = await sent({ connections, registrations })
  t.ok(chunks.length > 6)
  t.ok(chunks.every(({ length }) => length <= 512 * 1024))
  const row = await readRow(received(chunks), a)
  t.ok(isDeepStrictEqual(row, snapshot(a, 7, { connections, registrations })))
  const whole = Buffer.concat(chunks)
  for (const size of [13, 70_000, whole.length]) {
    const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
      whole.subarray(i * size, (i + 1) * size),
    )
    t.ok(isDeepStrictEqual(await readRow(received(pieces), a), row), `in pieces of ${size} bytes`)
  }
  await t.rejects(readRow(received(chunks.slice(0, -1)), a), { code: 'INVALID_MESSAGE' }, 'cut short')
  await t.rejects(readRow(received(chunks), instance('b')), { code: 'INVALID_MESSAGE' }, 'of another')
})

t.test('a row without end is given up by what it would take here, not by its bytes alone', async (t) => {
  const framed = (part: RowPart['part']) => {
    const bytes = toBinary(RowPartSchema, create(RowPartSchema, { part }))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return Buffer.concat([length, bytes])
  }
  const one = { connections: [connection('1', 42, { pod: '', methods: [] })], registrations: [] }
  const [small] = itemsToMessages(one).connections
  const many = create(RowItemsSchema, { connections: Array(15_000).fill(small) })
  const start = create(RowStartSchema, { instance: a, version: 7n, head: headToMessage(head) })
  const part = framed({ case: 'items', value: many })
  let parts = 0
  function* endless() {
    yield framed({ case: 'start', value: start })
    for (;;) {
      parts++
      yield part
    }
  }
  await t.rejects(readRow(received(endless()), a), { code: 'INVALID_MESSAGE' })
  t.ok(parts * part.length < 64 * 1024 * 1024, `${parts} parts of ${part.length} bytes`)
})

t.test('a row of endless small parts is given up early', async (t) => {
  const part = create(RowItemsSchema)
  const small = toBinary(RowPartSchema, create(RowPartSchema, { part: { case: 'items', value: part } }))
  const parts = { empty: Buffer.alloc(4), 'without items': Buffer.concat([Buffer.from([0, 0, 0, 2]), small]) }
  for (const [name, one] of Object.entries(parts)) {
    const chunk = Buffer.concat(Array(1000).fill(one))
    let chunks = 0
    function* endless() {
      for (;;) {
        chunks++
        yield chunk
      }
    }
    await t.rejects(readRow(received(endless()), a), { message: /the number of parts of a row is out of bounds/ }, name)
    t.equal(chunks, maxParts / 1000 + 1, name)
  }
})
