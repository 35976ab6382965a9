import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import t from 'tap'
import { BackwardWriter, payloadHead, Reader, varintLength, writeVarint } from '../../../../src/proto/wire/wire.ts'
import { Seeded } from '../../../support/seeded.ts'

/** The hand-written parts of the encoding agree with the library. */

const invalid = { code: 'INVALID_MESSAGE' }
const library = (write: (writer: BinaryWriter) => unknown) => {
  const writer = new BinaryWriter()
  write(writer)
  return writer.finish()
}
/** values around each change of the encoded length, and at the limits of exact numbers */
const numbers = [0, 1, ...[7, 14, 21, 28, 31, 32, 35, 42, 49, 52].flatMap((n) => [2 ** n - 1, 2 ** n, 2 ** n + 1])]
numbers.push(Number.MAX_SAFE_INTEGER)

/** Returns a reader at the first field of a message. */
function first(message: Uint8Array): Reader {
  const reader = new Reader(message)
  reader.next()
  return reader
}

t.test('varints, as the library has them', async (t) => {
  const seeded = Seeded.for(t)
  for (const value of [...numbers, ...Array.from({ length: 500 }, () => Math.floor(2 ** (seeded.fraction() * 53)))]) {
    const expected = Buffer.from(library((writer) => writer.int64(BigInt(value))))
    const writer = new BackwardWriter().begin()
    writer.varint(value)
    t.equal(Buffer.compare(writer.take(), expected), 0, `${value}`)
    t.equal(varintLength(value), expected.length)
    const into = Buffer.alloc(12)
    t.equal(writeVarint(into, 1, value), 1 + expected.length)
    t.equal(Buffer.compare(into.subarray(1, 1 + expected.length), expected), 0)
    t.equal(first(Buffer.concat([Uint8Array.of(1 << 3), expected])).int, value)
  }
})

t.test('negative numbers take ten bytes', async (t) => {
  for (const value of [-1, -2, -128, -(2 ** 31), -(2 ** 31) - 1, Number.MIN_SAFE_INTEGER]) {
    const bytes = library((writer) => writer.uint32(1 << 3).int64(BigInt(value)))
    t.equal(bytes.length, 11)
    t.equal(first(bytes).int, value)
  }
})

t.test('a varint written longer than it needs to be means the same', async (t) => {
  t.equal(first(Uint8Array.of(0x08, 0x81, 0x80, 0x80, 0x00)).int, 1)
  t.equal(first(Buffer.from('0881808080808080808000', 'hex')).int, 1, 'ten bytes')
  t.equal(first(Buffer.from('88800001', 'hex')).int, 1, 'a tag')
})

t.test('a varint over ten bytes is refused, as value, tag and length', async (t) => {
  const endless = 'ff'.repeat(10)
  for (const [name, hex] of Object.entries({
    value: `08${endless}01`,
    tag: `${endless}01`,
    length: `0a${endless}01`,
    'length in a field that is skipped': `7a${endless}01`,
  })) {
    t.throws(() => first(Buffer.from(hex, 'hex')), { ...invalid, message: /varint over 10 bytes/ }, name)
  }
})

t.test('a length under zero, or over what is there, is refused', async (t) => {
  // each such length would point backwards, so reading would never end
  for (let back = 1; back <= 24; back++) {
    const bytes = library((writer) => writer.uint32((15 << 3) | 2).int64(BigInt(-back)))
    t.throws(() => first(bytes), { ...invalid, message: /negative length/ }, `${-back}`)
  }
  for (const length of [1, 2, 127, 128, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53]) {
    const bytes = library((writer) => writer.uint32((15 << 3) | 2).int64(BigInt(length)))
    t.throws(() => first(bytes), { ...invalid, message: /cut short/ }, `${length}`)
  }
})

t.test('field numbers', async (t) => {
  const tagged = (tag: bigint) => library((writer) => writer.int64(tag).bool(true))
  t.equal(first(tagged(1n << 3n)).field, 1)
  t.equal(first(tagged((2n ** 29n - 1n) << 3n)).field, 2 ** 29 - 1)
  for (const field of [0n, 2n ** 29n, 2n ** 40n, -1n]) {
    t.throws(() => first(tagged(field << 3n)), { ...invalid, message: /field number/ }, `${field}`)
  }
})

t.test('groups and unknown wire types are refused', async (t) => {
  for (const type of [3, 4, 6, 7]) t.throws(() => first(Uint8Array.of(0x08 | type, 0)), invalid, `${type}`)
})

t.test('a value of another wire type is refused where it is read, and skipped where it is not', async (t) => {
  const message = library((writer) =>
    writer
      .uint32((1 << 3) | 5)
      .fixed32(1)
      .uint32((2 << 3) | 1)
      .fixed64(1n),
  )
  const reader = new Reader(message)
  const seen: number[] = []
  while (reader.next()) {
    seen.push(reader.field)
    for (const kind of ['int', 'bytes', 'utf8', 'latin1', 'message'] as const)
      t.throws(() => reader[kind], invalid, kind)
  }
  t.same(seen, [1, 2])
})

t.test('bytes and texts, as the library reads them', async (t) => {
  const seeded = Seeded.for(t)
  const writer = new BackwardWriter()
  for (let i = 0; i < 200; i++) {
    const [text, bytes] = [seeded.text(300), seeded.bytes(300)]
    writer.begin()
    writer.bytes(bytes)
    writer.close(300, 0)
    const from = writer.length
    writer.utf8(text)
    writer.close(1, from)
    const message = writer.take()
    const read = new BinaryReader(message)
    t.same([read.tag()[0], read.string(), read.tag()[0]], [1, text, 300])
    t.equal(bytes.compare(read.bytes()), 0)
    const own = new Reader(message)
    own.next()
    t.equal(own.utf8, text)
    t.equal(own.latin1, Buffer.from(text).toString('latin1'))
    own.next()
    t.equal(own.bytes.compare(bytes), 0)
    t.notOk(own.next())
  }
})

t.test('a message cut at any position, its first field always whole or refused', async (t) => {
  const message = library((writer) =>
    writer
      .uint32((1 << 3) | 2)
      .bytes(Buffer.alloc(300, 7))
      .uint32(2 << 3)
      .int32(-5),
  )
  const second = 3 + 300
  for (let length = 1; length < message.length; length++) {
    const reader = new Reader(message.subarray(0, length))
    if (length < second) {
      t.throws(() => reader.next(), invalid, `${length}`)
      continue
    }
    t.ok(reader.next())
    t.equal(reader.bytes.length, 300)
    if (length === second) t.notOk(reader.next(), 'cut between two fields: nothing tells')
    else t.throws(() => reader.next(), invalid, `${length}`)
  }
})

t.test('the head of a payload makes a message with it', async (t) => {
  for (const size of [0, 1, 127, 128, 16_383, 16_384, 2 ** 21 - 1, 2 ** 21]) {
    const payload = Buffer.alloc(size, 1)
    const whole = Buffer.concat([payloadHead(3, size), payload])
    const inner = size === 0 ? payload : library((writer) => writer.uint32((1 << 3) | 2).bytes(payload))
    t.equal(whole.compare(library((writer) => writer.uint32((3 << 3) | 2).bytes(inner))), 0, `${size}`)
  }
})

t.test('a writer grows, and keeps what it has', async (t) => {
  const writer = new BackwardWriter().begin()
  const parts = [10_000, 10_000, 100_000, 3].map((size, i) => Buffer.alloc(size, i + 1))
  for (const part of parts) writer.bytes(part)
  t.equal(Buffer.compare(writer.take(), Buffer.concat(parts.reverse())), 0)
  t.equal(writer.length, 0)
})
