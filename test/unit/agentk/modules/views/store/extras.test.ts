import t from 'tap'
import { Extras, ordinaryText } from '../../../../../../src/agentk/modules/views/store/extras.ts'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import { Records } from '../../../../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { recordOf } from '../../../../../support/views/records.ts'
import { kinds, object } from '../objects.ts'

const options = { maxPerNamespace: 3000, max: 5000 }
/** Returns a record with `extra` characters of labels above the ordinary amount. */
const fat = (uid: string, extra: number, namespace = 'mallory') =>
  recordOf({
    uid,
    namespace,
    labels: new Map([
      ['app', 'web'],
      ['x', 'x'.repeat(ordinaryText - 7)],
      ['y', 'y'.repeat(extra - 1)],
    ]),
    references: [{ relation: 'routes', kind: '', namespace: '', name: '' }],
  })

t.test('what is beyond the ordinary: of one namespace, and of all', async (t) => {
  const extras = new Extras(options)
  const put = (record: ReturnType<typeof fat>, before?: ReturnType<typeof fat>) => {
    const kept = extras.fit(record, before)
    extras.change(before, kept)
    return kept
  }
  const first = fat('a', 2000)
  t.equal(put(first), first)
  const cut = put(fat('b', 2000))
  t.strictSame([...cut.labels.keys()], ['app', 'x'], 'the first labels stay')
  t.equal(cut.references.length, 1)
  const ordinary = recordOf({ uid: 'c', namespace: 'mallory', labels: new Map([['app', 'web']]) })
  t.equal(put(ordinary), ordinary)
  const other = fat('d', 3000, 'shop')
  t.equal(put(other), other, 'another namespace has its own')
  t.not(put(fat('e', 1000, 'bank')).labels.size, 3, 'until all have too much')
  const smaller = fat('a', 500)
  t.equal(put(smaller, first), smaller)
  const again = fat('b', 1500)
  t.equal(put(again, cut), again, 'there is room again')
})

t.test('many short ones count too, also those without a character', async (t) => {
  const extras = new Extras(options)
  const short = (uid: string) =>
    recordOf({ uid, namespace: 'mallory', labels: new Map(Array.from({ length: 40 }, (_, i) => [`l${i}`, ''])) })
  const first = short('a')
  t.equal(extras.fit(first, undefined), first)
  extras.change(undefined, first)
  t.equal(extras.fit(short('b'), undefined).labels.size, 16, 'the first labels stay')
  const expressions = Array.from({ length: 64 }, () => ({ key: 'k', operator: 'NotIn', values: Array(128).fill('') }))
  const budget = recordOf({ uid: 'c', namespace: 'shop', selector: { labels: [], expressions } })
  t.equal(extras.fit(budget, undefined).selector, undefined)
})

t.test('records count what they keep', async (t) => {
  const records = new Records(
    { clock: new ManualClock(), rules: new Rules([], []), interned: new Interned() },
    { extras: options },
  )
  const labels = { app: 'web', ...Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`l${i}`, 'x'.repeat(240)])) }
  const size = (uid: string) => records.get(uid)?.labels.size
  for (let i = 0; i < 3; i++) records.put(kinds.configMap, object({ uid: `c${i}`, labels }))
  t.strictSame(['c0', 'c1', 'c2'].map(size), [16, 5, 5])
  records.deleted(kinds.configMap, 'c0')
  records.put(kinds.configMap, object({ uid: 'c2', labels }))
  t.strictSame(['c1', 'c2'].map(size), [5, 16])
  records.put(kinds.configMap, object({ uid: 'c2', labels: { app: 'web' } }))
  records.put(kinds.configMap, object({ uid: 'c1', labels }))
  t.equal(size('c1'), 16)
})
