import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { HttpResponseSchema, ValuesSchema } from '../../../../src/proto/gen/prototool_pb.ts'
import { readEntry, writeByteValue, writeEntries, writeUtf8Value } from '../../../../src/proto/wire/values.ts'
import { BackwardWriter, Reader } from '../../../../src/proto/wire/wire.ts'
import { encoded, fieldsOf, rewrittenMessage } from '../../../support/rewritten-message.ts'
import { Seeded } from '../../../support/seeded.ts'

/** Maps of headers, queries and metadata, in the field `header` of a prototool.HttpResponse. */

type Entries = [key: string, values: string[]][]

const mapField = 3
const schema = HttpResponseSchema
const latin1 = (text: string) => Buffer.from(text).toString('latin1')

function written(entries: Entries, write = writeByteValue): Uint8Array {
  const writer = new BackwardWriter().begin()
  writeEntries(writer, mapField, entries, write)
  return writer.take()
}

function read(message: Uint8Array, encoding: 'latin1' | 'utf8' = 'latin1'): Entries {
  const entries: Entries = []
  const reader = new Reader(message)
  while (reader.next()) if (reader.field === mapField) entries.push(readEntry(reader, encoding))
  return entries
}

/** Returns the entries as the generated code reads them, with values as latin1. */
const generated = (message: Uint8Array): Entries =>
  Object.entries(fromBinary(schema, message).header).map(([key, { value }]) => [
    key,
    value.map((bytes) => Buffer.from(bytes).toString('latin1')),
  ])

const someEntries = (seeded: Seeded): Entries => {
  const keys = new Set(seeded.list(5, (i) => `k${i}-${seeded.text(4)}`))
  return [...keys].map((key) => [key, seeded.list(3, () => latin1(seeded.text(8)))])
}

t.test('written here, read there, and the other way round', async (t) => {
  const seeded = Seeded.for(t)
  for (let i = 0; i < 300; i++) {
    const entries = someEntries(seeded)
    t.same(generated(written(entries)), entries, 'in their order')
    const header = Object.fromEntries(
      entries.map(([key, values]) => [key, { value: values.map((value) => Buffer.from(value, 'latin1')) }]),
    )
    const theirs = toBinary(schema, create(schema, { header, statusCode: 200 }))
    t.same(read(theirs), entries)
    const rewritten = rewrittenMessage(schema, theirs, seeded)
    t.same(
      Object.fromEntries(read(rewritten)),
      Object.fromEntries(entries),
      `${Buffer.from(rewritten).toString('hex')}`,
    )
  }
})

t.test('a query is text', async (t) => {
  const seeded = Seeded.for(t)
  for (let i = 0; i < 100; i++) {
    const entries: Entries = [['q', seeded.list(3, () => seeded.text(8))]]
    t.same(read(written(entries, writeUtf8Value), 'utf8'), entries)
  }
})

// wire: http.pairs
t.test(
  'what newer agents may send: keys that come twice, lists without a value, values that are no UTF-8',
  async (t) => {
    const entries: Entries = [
      ['A', ['1']],
      ['B', []],
      ['A', ['2', '']],
    ]
    t.same(read(written(entries)), entries, 'all are kept, in their order')
    const value = toBinary(ValuesSchema, create(ValuesSchema, { value: [Uint8Array.of(0xff, 0xfe)] }))
    const entry = encoded([
      { number: 1, type: 2, content: Buffer.from('K') },
      { number: 2, type: 2, content: value },
    ])
    t.same(read(encoded([{ number: mapField, type: 2, content: entry }])), [['K', ['\xff\xfe']]])
  },
)

t.test('parts of an entry that are absent, empty, doubled or in the other order', async (t) => {
  const field = (number: number, content: Uint8Array) => ({ number, type: 2, content })
  const [k, j] = ['k', 'j'].map((key) => field(1, Buffer.from(key))) as [ReturnType<typeof field>, never]
  const [a, b] = ['a', 'b'].map((value) => field(2, encoded([field(1, Buffer.from(value))]))) as [typeof k, typeof k]
  for (const [name, entry, expected] of [
    ['nothing', [], ['', []]],
    ['a key alone', [k], ['k', []]],
    ['values alone', [a], ['', ['a']]],
    ['an empty list', [k, field(2, new Uint8Array())], ['k', []]],
    ['the other order', [a, k], ['k', ['a']]],
    ['two keys: the last', [j, a, k], ['k', ['a']]],
    ['two lists: one after the other, as protobuf merges messages', [k, a, b], ['k', ['a', 'b']]],
  ] as const) {
    const message = encoded([field(mapField, encoded(entry))])
    t.same(read(message), [expected], name)
    if (!name.startsWith('two lists')) t.same(generated(message), [expected], `${name}, generated`)
  }
})

t.test('an entry cut at any position is refused, or means what is left of it', async (t) => {
  const [entry] = fieldsOf(written([['key', ['one', 'two']]]))
  const whole = entry?.content as Uint8Array
  for (let length = 0; length < whole.length; length++) {
    const message = encoded([{ number: mapField, type: 2, content: whole.subarray(0, length) }])
    if (length === 0) t.same(read(message), [['', []]])
    else if (length === 5) t.same(read(message), [['key', []]], 'cut between key and values')
    else t.throws(() => read(message), { code: 'INVALID_MESSAGE' }, `${length}`)
  }
})

// wire: http.utf8
t.test('bytes that are no UTF-8 are sent as the characters that they stand for', async (t) => {
  for (const [value, expected] of [
    ['plain', 'plain'],
    [latin1('ü€😀'), latin1('ü€😀')],
    ['\xfc', latin1('ü')],
    ['\xc3', latin1('Ã')],
    ['\xed\xa0\x80', latin1('\xed\xa0\x80')],
  ] as const) {
    t.same(generated(written([['k', [value]]])), [['k', [expected]]])
  }
})
