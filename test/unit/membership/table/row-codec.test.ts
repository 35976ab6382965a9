import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { decodeNews, encodeNews, entryOf, entryToMessage } from '../../../../src/membership/table/row-codec.ts'
import { ConnectionSchema } from '../../../../src/proto/gen/replica_pb.ts'
import { entry, instance } from '../rows.ts'

t.test('registrations and connections come through as they were', async (t) => {
  const registration = { podId: 2n ** 63n - 1n, renewed: true }
  for (const one of [
    entry('1'),
    entry('2', 42, { methods: [], pod: '', registration }),
    entry('3', 42, { registration: { podId: 0n, renewed: false } }),
  ]) {
    const delta = { from: 1, to: 2, removed: [], added: [one] }
    const { news } = decodeNews(encodeNews(instance('a'), { kind: 'delta', delta }))
    t.match(news, { kind: 'delta', delta: { added: [one] } })
    t.strictSame(entryOf(entryToMessage(one)).registration, one.registration)
  }
})

t.test('to a replica of the version before, a registration is a connection that serves nothing', async (t) => {
  const bytes = toBinary(
    ConnectionSchema,
    entryToMessage(entry('2', 42, { methods: [], registration: { podId: 7n, renewed: true } })),
  )
  const { registration: _, ...before } = fromBinary(ConnectionSchema, bytes)
  t.strictSame(entryOf(create(ConnectionSchema, before)).methods, [])
})
