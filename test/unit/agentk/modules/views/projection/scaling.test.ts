import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const metadata = { name: 'web', namespace: 'shop' }

t.test('an autoscaler names what it scales', async (t) => {
  const kind = 'autoscaling/HorizontalPodAutoscaler'
  const scaleTargetRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }
  const spec = { scaleTargetRef, minReplicas: 2, maxReplicas: 10 }
  t.match(projectionOf(kind, { metadata, spec, status: { currentReplicas: 3 } }), {
    facts: ['3 replicas', '2 to 10'],
    references: [{ relation: 'scales', kind: 'apps/Deployment', namespace: 'shop', name: 'web' }],
  })
  t.same(projectionOf(kind, { metadata, spec: { maxReplicas: 4, scaleTargetRef: 'web' }, status: null }), {
    facts: ['1 to 4'],
    selector: undefined,
    references: [],
    node: '',
    customParent: undefined,
  })
})

t.test('a budget selects Pods', async (t) => {
  const budget = (selector: unknown) =>
    projectionOf('policy/PodDisruptionBudget', {
      spec: { selector },
      status: { currentHealthy: 2, desiredHealthy: 1, disruptionsAllowed: 1 },
    })
  const matchExpressions = [{ key: 'tier', operator: 'In', values: ['front', 'back'] }]
  const found = budget({ matchLabels: { app: 'web' }, matchExpressions })
  t.same(found.facts, ['2 healthy', '1 needed', '1 may go'])
  t.same(found.selector, { labels: [['app', 'web']], expressions: matchExpressions })
  const exists = budget({ matchExpressions: [{ key: 'tier', operator: 'Exists' }] })
  t.same(exists.selector, { labels: [], expressions: [{ key: 'tier', operator: 'Exists', values: [] }] })
  t.same(budget({}).selector, { labels: [], expressions: [] }, 'an empty one selects all')
  const values = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ key: `k${i}`, operator: 'In', values: Array(128).fill('v'.repeat(63)) }))
  t.ok(budget({ matchExpressions: values(1) }).selector)
  t.equal(budget({ matchExpressions: values(2) }).selector, undefined, 'too long: cut, it would select more')
  const odd = [
    undefined,
    null,
    'x',
    { matchLabels: 'x' },
    { matchLabels: { a: 1 } },
    { matchExpressions: {} },
    { matchExpressions: [null] },
    { matchExpressions: [{ key: 'a' }] },
    { matchExpressions: [{ key: 'a', operator: 'In', values: 'b' }] },
    { matchExpressions: [{ key: 'a', operator: 'In', values: [1] }] },
    { matchExpressions: Array.from({ length: 65 }, () => matchExpressions[0]) },
  ]
  for (const selector of odd) t.equal(budget(selector).selector, undefined, JSON.stringify(selector))
})
