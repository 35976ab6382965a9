import t from 'tap'
import { finding } from '../../../../../../src/agentk/health/kas/finding.ts'
import type { Judgement } from '../../../../../../src/agentk/modules/views/store/judgement.ts'
import { Family, Node } from '../../../../../../src/agentk/modules/views/tree/forest-node.ts'
import { kasSeverityOf, type VerdictSide } from '../../../../../../src/agentk/modules/views/tree/severity.ts'
import type { VisibleRecords } from '../../../../../../src/agentk/modules/views/tree/visible-records.ts'
import { rowParts } from '../../../../../../src/agentk/modules/views/view/rows.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { agent, user, ViewStage } from '../../../../../support/views/view-stage.ts'

const lost = (text: string): Judgement => {
  const found = finding('Degraded', { reason: 'NodeUnreachable', text, rank: 0, since: 1000, last: 2000 })
  return [{ word: 'Degraded', finding: found, by: 'rules', needs: [] }]
}
const onNode: Judgement = [
  {
    word: 'Degraded',
    finding: finding('Degraded', { reason: 'NodeNotReady', text: 'node n is not ready', rank: 2 }),
    by: 'rules',
    needs: [],
  },
]

t.test('a row says why, to who may list the culprit', async (t) => {
  const stage = new ViewStage()
  stage.options = { verdict: 'kas' }
  t.teardown(() => stage.close())
  stage.api.rights.set('', [['*/*', '*']])
  stage.api.rights.set('ann', [
    ['/pods', '*'],
    ['apps/replicasets', '*'],
  ])
  const set = recordOf({ uid: 'set', kind: kinds.replicaSet, verdict: 'Healthy', traits: {}, generation: 3 })
  stage.records.put(recordOf({ uid: 'n', kind: kinds.node, namespace: '' }), lost('node n: away'))
  stage.records.put(set)
  for (const uid of ['p1', 'p2']) {
    const references = [{ relation: 'mounts', kind: 'ConfigMap', namespace: 'shop', name: 'settings' }]
    const pod = recordOf({ uid, owner: set, node: 'n', references, verdict: 'Healthy' })
    stage.records.put(pod, onNode, { spec: { nodeName: 'n' } })
  }
  const [all, some] = [stage.open(agent, { view: 'tree' }), stage.open(user('ann'), { view: 'tree' })]
  for (const { view } of [all, some]) for (const id of ['set', 'p1']) view.page(id, 10)
  await stage.pass()
  await stage.pass(100)
  const row = all.client.rows.get('set')
  t.strictSame(row?.h, ['Healthy', 'Current', 'Degraded'])
  t.match(row, { g: 3, c: 2, w: 'Degraded' })
  t.strictSame(row?.z, {
    kind: 'Node',
    namespace: '',
    name: 'n',
    id: 'n',
    reason: 'NodeUnreachable',
    text: 'node n: away',
    next: 'kubectl describe node n',
    since: 1000,
    last: 2000,
    count: 2,
  })
  t.match(some.client.rows.get('set')?.z, { kind: 'Pod', name: 'p1', reason: 'NodeNotReady', atLeast: true, count: 2 })
  t.strictSame(all.client.rows.get('p1')?.l, [
    ['mounts', '', 'ConfigMap', 'shop', 'settings'],
    ['runs on', 'n', 'Node', '', 'n'],
  ])
  t.strictSame(all.client.rows.get('p1')?.why, ['', '', 'node n is not ready'])
  t.strictSame(all.client.pages.get('')?.counts, { Degraded: 2 })

  stage.records.put(recordOf({ uid: 'n', kind: kinds.node, namespace: '' }), lost('node n: far away'))
  const updates = some.client.updates.length
  await stage.pass(100)
  t.equal(all.client.rows.get('set')?.z?.text, 'node n: far away', 'the culprit says something else')
  t.equal(some.client.updates.length, updates, 'which is told to nobody else')

  stage.records.put(recordOf({ uid: 'n', kind: kinds.node, namespace: '' }))
  for (const uid of ['p1', 'p2']) stage.records.put(recordOf({ uid, owner: set, verdict: 'Healthy' }))
  await stage.pass(100)
  t.equal(all.client.rows.get('set')?.z, undefined)
  t.equal(all.client.rows.get('set')?.h?.[2], 'Healthy')
})

t.test('texts of causes are short, and keep their end', async (t) => {
  const stage = new ViewStage()
  t.teardown(() => stage.close())
  stage.api.rights.set('', [['*/*', '*']])
  stage.records.put(recordOf({ uid: 'n', kind: kinds.node, namespace: '' }), lost(`begin ${'x'.repeat(400)} end`))
  const { client } = stage.open(agent, { view: 'tree' })
  await stage.pass()
  const text = client.rows.get('n')?.z?.text ?? ''
  t.equal(text.length, 256)
  t.match(text, /^begin .* end$/)
})

t.test('the verdicts of an application, of as many roots as there may be objects', async (t) => {
  const sides: readonly VerdictSide[] = ['kas', 'argo']
  for (const side of sides) {
    const group = new Node({ what: 'group', id: 'g:application/a', kind: 'Application', name: 'a', namespace: '' })
    const family = new Family(group, 'ConfigMap', false)
    group.addFamily(family)
    const well = recordOf({ uid: 'well', kind: kinds.configMap, verdict: 'Healthy' })
    const bad = recordOf({ uid: 'bad', kind: kinds.configMap, verdict: 'Progressing' })
    for (let i = 0; i < 200_000; i++) family.add(new Node(i === 100_000 ? bad : well))
    if (side === 'kas') group.own = kasSeverityOf('Degraded') // the forest computes this from its roots
    const wordOf = ({ uid }: { uid: string }) => (uid === 'bad' ? 'Degraded' : 'Healthy')
    const visible = { wordOf } as unknown as VisibleRecords
    const { around } = rowParts(group, { visible, side, links: [], cause: undefined, aside: [] })
    t.match(JSON.parse(around), { h: ['Progressing', 'Current', 'Degraded'], c: 200_000 }, side)
  }
})
