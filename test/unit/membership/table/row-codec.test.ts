import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { bounds, type RowItems } from '../../../../src/membership/table/row.ts'
import { decodeGossip, encodeGossip, itemsOf, itemsToMessages } from '../../../../src/membership/table/row-codec.ts'
import { RowItemsSchema } from '../../../../src/proto/gen/replica_pb.ts'
import { connection, delta, instance, registration } from '../rows.ts'

const sent = (items: Partial<RowItems>) => {
  const { connections, registrations } = itemsToMessages({ connections: [], registrations: [], ...items })
  return fromBinary(RowItemsSchema, toBinary(RowItemsSchema, create(RowItemsSchema, { connections, registrations })))
}

t.test('registrations and connections come through as they were', async (t) => {
  const items = {
    connections: [connection('1'), connection('2', 43, { role: 'standby', pod: '', methods: [] })],
    registrations: [registration(2n ** 63n - 1n), registration(0n, 42, { renewed: false, meta: new Uint8Array() })],
  }
  t.strictSame(itemsOf(sent(items)), items)
})

t.test('what is out of bounds is refused, of either kind', async (t) => {
  const large = registration(7n, 42, { meta: new Uint8Array(bounds.metaBytes + 1) })
  const text = /the description of an agent is out of bounds/
  t.throws(() => itemsOf(sent({ registrations: [large] })), { code: 'INVALID_MESSAGE', message: text })
  for (const items of [{ connections: [connection('')] }, { registrations: [registration(7n, 42, { id: '' })] }]) {
    t.throws(() => itemsOf(sent(items)), { code: 'INVALID_MESSAGE', message: /an id of a row is out of bounds/ })
  }
})

t.test('a description is a copy: a part of a message would keep all of it', async (t) => {
  const message = sent({ registrations: [registration(7n)] })
  const [item] = itemsOf(message).registrations
  t.ok(item)
  t.not(item?.meta.buffer, message.registrations[0]?.agentMeta.buffer)
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
    ['connections', 0x2a],
    ['registrations', 0x32],
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
