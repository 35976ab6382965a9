import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { GetTreeEntriesResponseSchema, TreeEntryResponseSchema } from '../../../../src/proto/gen/gitaly_pb.ts'
import { fieldCount, fieldCountWithin } from '../../../../src/proto/wire/field-count.ts'

t.test('fields of all wire types count, those of what is inside them do not', async (t) => {
  const entry = { path: Buffer.from('a/b'), oid: 'a'.repeat(40), mode: 0o100644 }
  const listed = toBinary(
    GetTreeEntriesResponseSchema,
    create(GetTreeEntriesResponseSchema, { entries: Array(7).fill(entry) }),
  )
  t.equal(fieldCount(listed, 100), 7)
  t.equal(fieldCount(listed, 6), 7, 'one more than may be')
  t.equal(fieldCount(listed, 3), 4, 'counting stops')
  const file = create(TreeEntryResponseSchema, { type: 1, oid: 'x', size: 1n << 40n, mode: 6, data: Buffer.alloc(300) })
  t.equal(fieldCount(toBinary(TreeEntryResponseSchema, file), 100), 5)
  t.equal(fieldCount(Buffer.from('0d000000000900000000000000000801', 'hex'), 100), 3, 'fixed32, fixed64, varint')
  t.equal(fieldCount(Buffer.alloc(0), 100), 0)
})

t.test('fields within a field, over all messages that stand in it', async (t) => {
  const bytes = Buffer.from('0a040a000a00' + '12020a00' + '0a020a00' + '0a00', 'hex')
  t.equal(fieldCountWithin(bytes, 1, 100), 3)
  t.equal(fieldCountWithin(bytes, 2, 100), 1)
  t.equal(fieldCountWithin(bytes, 3, 100), 0)
  t.equal(fieldCountWithin(bytes, 1, 2), 3, 'one more than may be')
})

t.test('bytes that are no message are refused where they are read', async (t) => {
  for (const bytes of ['ff', '0aff', '0affffffffffffffffff01', '0b', '08ffffffffffffffffffffff']) {
    t.throws(() => fieldCount(Buffer.from(bytes, 'hex'), 100), { code: 'INVALID_MESSAGE' }, bytes)
  }
  t.throws(() => fieldCount(Buffer.from('0a000a000b0a00', 'hex'), 100), { code: 'INVALID_MESSAGE' })
  t.equal(fieldCount(Buffer.from('0a000a000b0a00', 'hex'), 1), 2, 'no further than is counted')
})
