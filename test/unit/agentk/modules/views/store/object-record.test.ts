import t from 'tap'
import {
  CommonRecordParts,
  recordFields,
  recordWith,
} from '../../../../../../src/agentk/modules/views/store/object-record.ts'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { recordOf } from '../../../../../support/views/records.ts'

const fieldsOf = (record: ObjectRecord) => Object.fromEntries(recordFields.map((field) => [field, record[field]]))

t.test('a record says what it was made of, whatever it has in common with others', async (t) => {
  const common = new CommonRecordParts()
  const labels = new Map([['app', 'web']])
  const plain = [
    recordOf({ uid: 'a', labels }),
    recordOf({ uid: 'b', labels }),
    recordOf({ uid: 'c', labels, namespace: 'bank' }),
    recordOf({ uid: 'd', labels, application: 'web' }),
    recordOf({ uid: 'e', labels }),
    recordOf({ uid: 'f', labels, created: 1_763_790_000_123 }),
  ]
  t.strictSame(Object.keys(plain[0] ?? {}).sort(), [...recordFields].sort(), 'no field is forgotten')
  const kept = plain.map((record) => common.record(record))
  t.strictSame(kept.map(fieldsOf), plain.map(fieldsOf))
  common.sweep(new Set())
  t.strictSame(fieldsOf(common.record(plain[0] as ObjectRecord)), fieldsOf(plain[0] as ObjectRecord))
})

t.test('a record with other parts is another one, and leaves those that it was like', async (t) => {
  const common = new CommonRecordParts()
  const [one, other] = [recordOf({ uid: 'a' }), recordOf({ uid: 'b' })].map((record) => common.record(record)) as [
    ObjectRecord,
    ObjectRecord,
  ]
  const before = fieldsOf(other)
  for (const changes of [{ facts: ['new'] }, { labels: new Map(), facts: ['new'] }, { namespace: 'bank' }]) {
    t.strictSame(fieldsOf(recordWith(one, changes)), { ...fieldsOf(one), ...changes })
  }
  t.strictSame(fieldsOf(other), before)
})
