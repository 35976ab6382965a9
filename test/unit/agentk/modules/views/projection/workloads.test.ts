import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const facts = (kind: string, object: object) => projectionOf(kind, object as Record<string, unknown>).facts
const template = (...images: unknown[]) => ({ template: { spec: { containers: images.map((image) => ({ image })) } } })

t.test('workloads say how many are ready, and what they run', async (t) => {
  const spec = { replicas: 3, ...template('registry.example.com:5000/shop/web:1.2', 'envoy') }
  const well = { replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3 }
  t.same(facts('apps/Deployment', { spec, status: well }), ['3/3 ready', 'web:1.2', 'envoy'])
  t.same(facts('apps/StatefulSet', { spec, status: well }), ['3/3 ready', 'web:1.2', 'envoy'])
  t.same(facts('apps/Deployment', { spec: { replicas: 0, paused: true } }), ['0/0 ready', 'paused'])
  t.same(facts('apps/ReplicaSet', { spec: { replicas: 1 }, status: { readyReplicas: 1 } }), ['1/1 ready'])
  const status = { numberReady: 4, numberAvailable: 4, desiredNumberScheduled: 4, currentNumberScheduled: 4 }
  t.same(facts('apps/DaemonSet', { status: { ...status, updatedNumberScheduled: 4 } }), ['4/4 ready'])
})

t.test('of what is not all available they say whether anything serves', async (t) => {
  const of = (readyReplicas: number, availableReplicas: number) => {
    const status = { replicas: 3, updatedReplicas: 3, readyReplicas, availableReplicas }
    return facts('apps/Deployment', { spec: { replicas: 3 }, status })
  }
  t.same(of(0, 0), ['0 of 3 available: nothing serves'])
  t.same(of(2, 2), ['2 of 3 available: reduced'])
  t.same(of(3, 0), ['0 of 3 available'], 'ready, but not for minReadySeconds')
  const set = (status: object) => facts('apps/StatefulSet', { spec: {}, status })
  t.same(set({}), ['0 of 1 available: nothing serves'], 'one, unless it says otherwise')
  const status = { numberReady: 4, numberAvailable: 4, desiredNumberScheduled: 5 }
  t.same(facts('apps/DaemonSet', { status }), ['4 of 5 available: reduced'])
})

t.test('while old Pods are there they say so, and how many are of the images that are named', async (t) => {
  const spec = { replicas: 3, ...template('web:9', 'envoy') }
  const rollout = (more: object) => {
    const status = { replicas: 4, updatedReplicas: 1, readyReplicas: 3, availableReplicas: 3, ...more }
    return facts('apps/Deployment', { spec, status })
  }
  t.same(rollout({}), ['3 of 3 available: old version serves', '1/3 updated to web:9', 'envoy'])
  t.same(rollout({ readyReplicas: 4, availableReplicas: 4 })[0], '4 of 3 available: old and new version serve')
  t.same(rollout({ replicas: 3, readyReplicas: 2, availableReplicas: 2 }), [
    '2 of 3 available: reduced, old version serves',
    '1/3 updated to web:9',
    'envoy',
  ])
  t.same(rollout({ availableReplicas: 0 })[0], '0 of 3 available')
  const few = rollout({ readyReplicas: 1, availableReplicas: 1 })[0]
  t.same(few, '1 of 3 available: reduced', 'it may be the new one, where none of the old version ever served')

  const set = { replicas: 3, readyReplicas: 3, availableReplicas: 3, currentRevision: 'a', updateRevision: 'b' }
  const facted = facts('apps/StatefulSet', { spec, status: set })
  t.same(facted, ['3 of 3 available: old version serves', '0/3 updated to web:9', 'envoy'])
  t.same(facts('apps/StatefulSet', { spec, status: { ...set, updateRevision: 'a' } })[0], '3/3 ready')
  const status = { numberReady: 2, numberAvailable: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2 }
  t.same(facts('apps/DaemonSet', { spec: template('web:9'), status }), [
    '2 of 2 available: old version serves',
    '0/2 updated to web:9',
  ])
})

t.test('images are named in short, and two of them', async (t) => {
  const digest = `sha256:${'0123456789abcdef'.repeat(4)}`
  const shown = (...images: unknown[]) => facts('apps/DaemonSet', { spec: template(...images) }).slice(1)
  t.same(shown(`ghcr.io/a/b@${digest}`), ['b@0123456789ab'])
  t.same(shown(`ghcr.io/a/b:1@${digest}`), ['b:1'])
  t.same(shown('a', 'a', 'b', 'c'), ['a', 'b'])
  t.same(shown(1, null, 'a'), ['a'])
})

t.test('jobs say how far they are', async (t) => {
  t.same(facts('batch/Job', { spec: { completions: 3 }, status: { succeeded: 1, active: 2, failed: 4 } }), [
    '1/3 succeeded',
    '2 active',
    '4 failed',
  ])
  t.same(facts('batch/Job', { spec: { suspend: true } }), ['0/1 succeeded', 'suspended'])
  t.same(facts('batch/CronJob', { spec: { schedule: '*/5 * * * *' }, status: { active: [{}] } }), [
    '*/5 * * * *',
    '1 active',
  ])
})

t.test('a CronJob says when it succeeded last, where its last run did not', async (t) => {
  const of = (status: object) => facts('batch/CronJob', { spec: { schedule: '@daily' }, status }).slice(1)
  const lastScheduleTime = '2026-11-20T03:00:00Z'
  t.same(of({}), [])
  t.same(of({ lastScheduleTime }), ['never succeeded'])
  t.same(of({ lastScheduleTime, active: [{}] }), ['no success yet', '1 active'], 'it may yet')
  t.same(of({ lastScheduleTime, lastSuccessfulTime: '2026-11-19T03:01:02Z', active: [{}] }), [
    'last success 2026-11-19 03:01Z',
    '1 active',
  ])
  t.same(of({ lastScheduleTime, lastSuccessfulTime: '2026-11-19T03:01:02Z' }), ['last success 2026-11-19 03:01Z'])
  t.same(of({ lastScheduleTime, lastSuccessfulTime: '2026-11-20T03:01:02Z' }), [])
  t.same(of({ lastScheduleTime, lastSuccessfulTime: 'soon' }), ['never succeeded'])
})

t.test('nothing of it need be there, or be what it should', async (t) => {
  for (const kind of ['apps/Deployment', 'apps/DaemonSet', 'batch/Job', 'batch/CronJob']) {
    for (const value of [null, 'x', 7, [], true]) {
      t.doesNotThrow(() => facts(kind, { spec: value, status: value, metadata: value }))
    }
  }
  t.same(facts('apps/Deployment', { spec: { replicas: '3' }, status: { readyReplicas: [] } }), [
    '0 of 1 available: nothing serves',
  ])
  const long = facts('batch/CronJob', { spec: { schedule: 'x'.repeat(9999) } })
  t.equal(long[0]?.length, 128)
})
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
