import t from 'tap'
import { compileSelector } from '../../../../../../src/agentk/modules/views/projection/selectors.ts'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { linksOf } from '../../../../../../src/agentk/modules/views/view/relations.ts'
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
  const { links } = linksOf(one, { records, sees: ({ uid }) => uid !== 'p100', selected })
  t.equal(links.length, 50)
  t.strictSame(links.slice(0, 3), [
    ['owned by', '', 'apps/ReplicaSet', 'shop', 'sat'],
    ['owned by', 'set', 'apps/ReplicaSet', 'shop', 'set'],
    ['selects', 'p101', 'Pod', 'shop', 'p101'],
  ])
})

t.test('what names, runs on or selects an object is linked with it too, if it is seen', async (t) => {
  const records = new RecordsDouble()
  const node = recordOf({ uid: 'n', name: 'worker', namespace: '', kind: kinds.node })
  const settings = recordOf({ uid: 'c', name: 'settings', kind: kinds.configMap })
  const reference = { relation: 'mounts', kind: 'ConfigMap', namespace: 'shop', name: 'settings' }
  const gone = { ...reference, name: 'gone' }
  const labels = new Map([['app', 'web']])
  const pods = ['p1', 'p2'].map((uid) => recordOf({ uid, labels, node: 'worker', references: [reference, gone] }))
  const service = recordOf({ uid: 's', kind: kinds.service, selector: { labels: [['app', 'web']], expressions: [] } })
  for (const record of [node, settings, service, ...pods]) records.put(record)
  const of = (record: ObjectRecord, hidden = '') =>
    linksOf(record, { records, sees: ({ uid }) => uid !== hidden, selected: [] }).links
  t.strictSame(of(node), [
    ['runs', 'p1', 'Pod', 'shop', 'p1'],
    ['runs', 'p2', 'Pod', 'shop', 'p2'],
  ])
  t.strictSame(of(settings, 'p1'), [['mounted by', 'p2', 'Pod', 'shop', 'p2']])
  t.strictSame(of(pods[0] as ObjectRecord, 'c'), [
    ['mounts', '', 'ConfigMap', 'shop', 'gone'],
    ['mounts', '', 'ConfigMap', 'shop', 'settings'],
    ['runs on', 'n', 'Node', '', 'worker'],
    ['selected by', 's', 'Service', 'shop', 's'],
  ])
  t.strictSame(of(pods[0] as ObjectRecord, 's').at(-1)?.[0], 'runs on')
})
