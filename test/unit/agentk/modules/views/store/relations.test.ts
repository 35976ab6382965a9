import t from 'tap'
import { linksOf } from '../../../../../../src/agentk/modules/views/store/relations.ts'
import { compileSelector } from '../../../../../../src/agentk/modules/views/store/selectors.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'

t.test('selectors, as Kubernetes reads them', async (t) => {
  const of = new Map([
    ['app', 'web'],
    ['tier', 'front'],
  ])
  const expression = (key: string, operator: string, ...values: string[]) =>
    compileSelector({ labels: [], expressions: [{ key, operator, values }] })(of)
  t.ok(compileSelector({ labels: [], expressions: [] })(of), 'an empty one selects all')
  t.ok(compileSelector({ labels: [['app', 'web']], expressions: [] })(of))
  const front = { labels: [['app', 'web'] as const, ['tier', 'back'] as const], expressions: [] }
  t.notOk(compileSelector(front)(of))
  t.ok(expression('app', 'In', 'db', 'web'))
  t.notOk(expression('app', 'In', 'db'))
  t.notOk(expression('zone', 'In', 'a'))
  t.ok(expression('zone', 'NotIn', 'a'))
  t.notOk(expression('app', 'NotIn', 'web'))
  t.ok(expression('app', 'Exists'))
  t.notOk(expression('app', 'DoesNotExist'))
  t.ok(expression('zone', 'DoesNotExist'))
  t.notOk(expression('app', 'Gt', '1'), 'what is not known selects nothing')
})

t.test('links are in order, and so many; an owner counts where all agrees', async (t) => {
  const records = new RecordsDouble()
  const selected = Array.from({ length: 100 }, (_, i) => `p${i + 100}`)
  for (const uid of selected) records.put(recordOf({ uid }))
  records.put(recordOf({ uid: 'set', kind: kinds.replicaSet }))
  const otherOwners = ['set', 'sat'].map((name) => ({ uid: 'set', kind: 'apps/ReplicaSet', name }))
  const one = recordOf({ uid: 'one', otherOwners })
  const { links } = linksOf(one, { records, isSeen: (uid) => uid !== 'p100', selected })
  t.equal(links.length, 50)
  t.strictSame(links.slice(0, 2), [
    ['owned by', 'set'],
    ['selects', 'p101'],
  ])
})
