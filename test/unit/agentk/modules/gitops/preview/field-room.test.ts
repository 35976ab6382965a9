import t from 'tap'
import { rankOf } from '../../../../../../src/agentk/modules/gitops/preview/answer.ts'
import { FieldRoom } from '../../../../../../src/agentk/modules/gitops/preview/field-room.ts'

const value = 'x'.repeat(1000)
const object = (action: string, fields: number, ignored = 0) => ({
  action,
  field: Array.from({ length: fields }, () => ({ path: '.a', before: value, after: value })),
  more: 1,
  ignored: Array.from({ length: ignored }, () => ({ path: '.b', after: value })),
  moreIgnored: 0,
})

t.test('fields of the least important objects are counted where there is no room to list them', async (t) => {
  const room = new FieldRoom(rankOf, 32_000)
  const created = object('created', 8)
  const [changed, late] = [object('changed', 5, 2), object('changed', 5)]
  const failing = object('fails', 4)
  for (const one of [created, changed, late, failing]) room.add(one)
  t.strictSame([created.field.length, created.more], [0, 9])
  t.strictSame([changed.field.length, changed.more, changed.ignored.length], [5, 1, 2])
  t.strictSame([late.field.length, late.more], [5, 1])
  t.equal(failing.field.length, 4)
})

t.test('10,000 wide objects take no more than the room', async (t) => {
  const maxBytes = 100_000
  const room = new FieldRoom(rankOf, maxBytes)
  const all = Array.from({ length: 10_000 }, () => object('changed', 20, 20))
  for (const one of all) room.add(one)
  const bytes = Buffer.byteLength(JSON.stringify(all.flatMap(({ field, ignored }) => [...field, ...ignored])))
  t.ok(bytes <= maxBytes, `${bytes} bytes`)
  t.ok(
    all.every(({ field, more }) => field.length + more === 21),
    'each field is listed or counted',
  )
  t.ok((all[0]?.field.length ?? 0) > 0, 'the first ones are listed')
})
