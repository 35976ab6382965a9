import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'
import { statefulSetsOf } from '../../../../../../src/agentk/modules/views/projection/storage.ts'

t.test('a claim and its volume name one another', async (t) => {
  const claim = {
    metadata: { name: 'data-web-0', namespace: 'shop' },
    spec: { volumeName: 'pv-1', storageClassName: 'fast', resources: { requests: { storage: '5Gi' } } },
    status: { phase: 'Bound', capacity: { storage: '10Gi' } },
  }
  const { facts, references } = projectionOf('PersistentVolumeClaim', claim)
  t.same(facts, ['Bound', '10Gi', 'fast'])
  t.same(references, [{ relation: 'binds', kind: 'PersistentVolume', namespace: '', name: 'pv-1' }])
  const waiting = { ...claim, spec: { ...claim.spec, volumeName: undefined }, status: { phase: 'Pending' } }
  t.match(projectionOf('PersistentVolumeClaim', waiting), { facts: ['Pending', '5Gi', 'fast'], references: [] })
  const volume = {
    spec: { capacity: { storage: '10Gi' }, claimRef: { namespace: 'shop', name: 'data-web-0' } },
    status: { phase: 'Bound' },
  }
  t.match(projectionOf('PersistentVolume', volume), {
    facts: ['Bound', '10Gi'],
    references: [{ relation: 'binds', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data-web-0' }],
  })
  for (const odd of [null, 'x', 7, []])
    t.same(projectionOf('PersistentVolume', { spec: odd, status: odd }).references, [])
})

t.test('sets that may have made a claim', async (t) => {
  t.same(statefulSetsOf('data-web-0'), ['web'])
  t.same(statefulSetsOf('redis-data-redis-master-12'), ['data-redis-master', 'redis-master', 'master'])
  t.same(statefulSetsOf('data'), [])
  t.same(statefulSetsOf('data-0'), [], 'a template alone')
  t.same(statefulSetsOf('data-web-x'), [])
  t.same(statefulSetsOf('data--0'), [])
  t.equal(statefulSetsOf(`${'a-'.repeat(200)}0`).length, 16)
})
