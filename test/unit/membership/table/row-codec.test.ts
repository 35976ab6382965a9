import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { bounds } from '../../../../src/membership/table/row.ts'
import { decodeGossip, encodeGossip, itemOf, itemToMessage } from '../../../../src/membership/table/row-codec.ts'
import { type Connection, ConnectionSchema } from '../../../../src/proto/gen/replica_pb.ts'
import { connection, delta, instance, registration } from '../rows.ts'

const sent = (message: Connection) => fromBinary(ConnectionSchema, toBinary(ConnectionSchema, message))

t.test('registrations and connections come through as they were', async (t) => {
  for (const item of [
    connection('1'),
    connection('2', 43, { role: 'standby', pod: '', methods: [] }),
    registration(2n ** 63n - 1n),
    registration(0n, 42, { renewed: false, meta: new Uint8Array() }),
  ]) {
    t.strictSame(itemOf(sent(itemToMessage(item))), item)
  }
})

t.test('to a replica that does not know them, a registration is a connection that serves nothing', async (t) => {
  const { registration: _, ...before } = sent(itemToMessage(registration(7n)))
  t.match(itemOf(create(ConnectionSchema, before)), { id: 'pod 42 7', role: 'home', pod: '', methods: [] })
})

t.test('what is of the other kind is dropped', async (t) => {
  const meta = new Uint8Array(bounds.metaBytes)
  t.strictSame(
    itemOf(create(ConnectionSchema, { ...itemToMessage(connection('1')), agentMeta: meta })),
    connection('1'),
  )
  const message = { ...itemToMessage(registration(7n)), pod: 'pod-1', methods: ['/a.B/C'] }
  t.strictSame(itemOf(create(ConnectionSchema, message)), registration(7n))
})

t.test('a description is a copy: a part of a message would keep all of it', async (t) => {
  const message = sent(itemToMessage(registration(7n)))
  const item = itemOf(message)
  t.ok('meta' in item && item.meta.buffer !== message.agentMeta.buffer)
})

t.test('changes of two bytes each are counted before they are built', async (t) => {
  const many = (key: number, count: number) => {
    const changes = Buffer.alloc(2 * count)
    for (let at = 0; at < changes.length; at += 2) changes[at] = key
    const length = Buffer.from([
      (changes.length & 127) | 128,
      ((changes.length >> 7) & 127) | 128,
      changes.length >> 14,
    ])
    return Buffer.concat([Buffer.from([0x0a, 1, 0x78, 0x12]), length, changes])
  }
  for (const [kind, key] of [
    ['removed', 0x22],
    ['added', 0x2a],
  ] as const) {
    t.throws(
      () => decodeGossip(many(key, 125_000)),
      { message: /the number of changes in a message is out of bounds/ },
      kind,
    )
  }
  const removed = Array.from({ length: bounds.itemsOfMessage - 3 }, () => 'x')
  const { message } = decodeGossip(encodeGossip(instance('a'), { kind: 'delta', delta: delta(1, { removed }) }))
  t.equal(message?.kind === 'delta' && message.delta.removed.length, removed.length)
})
