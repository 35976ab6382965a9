import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const facts = (kind: string, object: object) => projectionOf(kind, object as Record<string, unknown>).facts
const template = (...images: unknown[]) => ({ template: { spec: { containers: images.map((image) => ({ image })) } } })

t.test('workloads say how many are ready, and what they run', async (t) => {
  const spec = { replicas: 3, ...template('registry.example.com:5000/shop/web:1.2', 'envoy') }
  t.same(facts('apps/Deployment', { spec, status: { readyReplicas: 2 } }), ['2/3 ready', 'web:1.2', 'envoy'])
  t.same(facts('apps/Deployment', { spec: { replicas: 0, paused: true } }), ['0/0 ready', 'paused'])
  t.same(facts('apps/ReplicaSet', { spec: { replicas: 1 }, status: { readyReplicas: 1 } }), ['1/1 ready'])
  t.same(facts('apps/StatefulSet', { spec: {}, status: {} }), ['0/1 ready'], 'one, unless it says otherwise')
  t.same(facts('apps/DaemonSet', { status: { numberReady: 4, desiredNumberScheduled: 5 } }), ['4/5 ready'])
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

t.test('nothing of it need be there, or be what it should', async (t) => {
  for (const kind of ['apps/Deployment', 'apps/DaemonSet', 'batch/Job', 'batch/CronJob']) {
    for (const value of [null, 'x', 7, [], true]) {
      t.doesNotThrow(() => facts(kind, { spec: value, status: value, metadata: value }))
    }
  }
  t.same(facts('apps/Deployment', { spec: { replicas: '3' }, status: { readyReplicas: [] } }), ['0/1 ready'])
  const long = facts('batch/CronJob', { spec: { schedule: 'x'.repeat(9999) } })
  t.equal(long[0]?.length, 128)
})
