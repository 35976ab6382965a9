import t from 'tap'
import { inArgosWords, verdictOf } from '../../../../src/agentk/health/verdict.ts'
import type { KubernetesObject } from '../../../../src/kubernetes/object.ts'

/** Cases in which Argo CD and kstatus judge one object differently, with both verdicts. Users see a change of these. */

const now = Date.parse('2026-01-01T00:00:00Z')
const longAgo = '2025-01-01T00:00:00Z'

type Case = readonly [what: string, argo: string | undefined, kstatus: string, object: KubernetesObject]

const object = (kind: string, spec: object, status?: object, metadata: object = {}): KubernetesObject => {
  const slash = kind.lastIndexOf('/')
  const apiVersion = slash < 0 ? 'v1' : kind.slice(0, slash)
  return {
    apiVersion,
    kind: kind.slice(slash + 1),
    metadata: { name: 'one', namespace: 'n', creationTimestamp: longAgo, ...metadata },
    spec,
    ...(status ? { status } : {}),
  }
}
const condition = (type: string, status: string, reason = '', message = '') => ({ type, status, reason, message })
const waiting = (reason: string) => ({ name: 'main', state: { waiting: { reason, message: 'it does not start' } } })

const cases: readonly Case[] = [
  ['a failed Pod', 'Degraded', 'Current', object('Pod', { restartPolicy: 'Never' }, { phase: 'Failed' })],
  ['a running Job', 'Progressing', 'Current', object('batch/v1/Job', {}, { startTime: longAgo, active: 1 })],
  [
    'a LoadBalancer without an address',
    'Progressing',
    'Current',
    object('Service', { type: 'LoadBalancer', clusterIP: '10.0.0.1' }, { loadBalancer: {} }),
  ],
  [
    'an Ingress of a class that writes no status',
    'Progressing',
    'Current',
    object('networking.k8s.io/v1/Ingress', {}, { loadBalancer: {} }),
  ],
  [
    'a claim that waits for its first consumer: both for ever',
    'Progressing',
    'InProgress',
    object('PersistentVolumeClaim', {}, { phase: 'Pending' }),
  ],
  [
    'an APIService whose server is away: never Degraded',
    'Progressing',
    'Current',
    object('apiregistration.k8s.io/v1/APIService', {}, { conditions: [condition('Available', 'False', 'Missing')] }),
  ],
  [
    'a CronJob whose job runs: the text says that nobody knows',
    'Healthy',
    'Current',
    object('batch/v1/CronJob', {}, { active: [{}], lastScheduleTime: longAgo, lastSuccessfulTime: longAgo }),
  ],
  ['an object of a kind that nobody knows', undefined, 'Current', object('example.com/v1/Thing', {})],
  [
    'a ReplicaSet that cannot make Pods',
    'Degraded',
    'InProgress',
    object('apps/v1/ReplicaSet', { replicas: 1 }, { conditions: [condition('ReplicaFailure', 'True')] }),
  ],
  [
    'a StatefulSet whose rolling update names no partition: its revisions are not compared',
    'Healthy',
    'InProgress',
    object(
      'apps/v1/StatefulSet',
      { replicas: 1, updateStrategy: { type: 'RollingUpdate', rollingUpdate: {} } },
      {
        observedGeneration: 1,
        replicas: 1,
        readyReplicas: 1,
        currentReplicas: 1,
        currentRevision: 'a',
        updateRevision: 'b',
      },
      { generation: 1 },
    ),
  ],
  [
    'an object that is being deleted',
    'Progressing',
    'Terminating',
    object('ConfigMap', {}, undefined, { deletionTimestamp: longAgo }),
  ],
  [
    'a paused Deployment',
    'Suspended',
    'InProgress',
    object('apps/v1/Deployment', { paused: true, replicas: 2 }, { replicas: 1 }),
  ],
  [
    'a suspended Job',
    'Suspended',
    'Current',
    object('batch/v1/Job', { suspend: true }, { conditions: [condition('Suspended', 'True')] }),
  ],
  [
    'a CronJob whose last run has failed',
    'Degraded',
    'Current',
    object('batch/v1/CronJob', {}, { lastScheduleTime: '2025-02-01T00:00:00Z', lastSuccessfulTime: longAgo }),
  ],
  [
    'a Pod that cannot be scheduled',
    'Progressing',
    'Failed',
    object('Pod', {}, { phase: 'Pending', conditions: [condition('PodScheduled', 'False', 'Unschedulable')] }),
  ],
  ['a lost claim', 'Degraded', 'InProgress', object('PersistentVolumeClaim', {}, { phase: 'Lost' })],
  [
    'a Pod whose image does not come',
    'Degraded',
    'InProgress',
    object('Pod', { restartPolicy: 'Always' }, { phase: 'Pending', containerStatuses: [waiting('ImagePullBackOff')] }),
  ],
  ['a kind of which only one has a rule', undefined, 'Current', object('Secret', {})],
  [
    'a Job that goes on after it was suspended',
    'Healthy',
    'Current',
    object('batch/v1/Job', {}, { startTime: longAgo, conditions: [condition('Suspended', 'False')] }),
  ],
  [
    'a Pod whose node is silent',
    'Unknown',
    'Unknown',
    object('Pod', { restartPolicy: 'Always' }, { phase: 'Unknown' }),
  ],
  [
    'a Pod whose init container crashes again and again: neither looks there',
    'Progressing',
    'InProgress',
    object(
      'Pod',
      { restartPolicy: 'Always' },
      { phase: 'Pending', initContainerStatuses: [waiting('CrashLoopBackOff')] },
    ),
  ],
]

/** cases in which both verdicts mean the same; the tests pin that too */
const agreeing = new Set([
  'a claim that waits for its first consumer: both for ever',
  'a CronJob whose job runs: the text says that nobody knows',
  'an object that is being deleted',
  'a Job that goes on after it was suspended',
  'a Pod whose node is silent',
  'a Pod whose init container crashes again and again: neither looks there',
])

for (const [what, argo, kstatus, seen] of cases) {
  t.test(what, async (t) => {
    const verdict = verdictOf(seen, now)
    t.equal(verdict.argo?.status, argo)
    t.equal(verdict.kstatus.status, kstatus)
    t.equal(verdict.argo?.status === inArgosWords[verdict.kstatus.status], agreeing.has(what))
  })
}

t.test('they are as many as are known', async (t) => {
  t.equal(cases.length, 21)
})

t.test('before its start a Job that was resumed has not begun', async (t) => {
  const seen = object('batch/v1/Job', {}, { conditions: [condition('Suspended', 'False')] })
  t.match(verdictOf(seen, now), { argo: { status: 'Healthy' }, kstatus: { status: 'InProgress' } })
})

t.test('a Pod has 15 s to be scheduled, and it is said when that is over', async (t) => {
  const young = object(
    'Pod',
    {},
    { phase: 'Pending', conditions: [condition('PodScheduled', 'False', 'Unschedulable')] },
    { creationTimestamp: '2025-12-31T23:59:50Z' },
  )
  t.match(verdictOf(young, now), { kstatus: { status: 'InProgress' }, dueAt: now + 5000 })
  t.match(verdictOf(young, now + 5000), { kstatus: { status: 'Failed' }, dueAt: undefined })
})

t.test("a rule of one's own stands in place of Argo CD's, also where it says nothing", async (t) => {
  const failed = object('Pod', { restartPolicy: 'Never' }, { phase: 'Failed' })
  const health = { status: 'Suspended', text: 'as agreed' } as const
  t.same(verdictOf(failed, now, () => ({ health })).argo, health)
  t.equal(verdictOf(failed, now, () => ({ health: undefined })).argo, undefined)
  t.equal(verdictOf(failed, now, () => undefined).argo?.status, 'Degraded', 'of a kind without one')
})

t.test('annotations that are none are read with care', async (t) => {
  for (const annotations of [null, 'x', { 'autoscaling.alpha.kubernetes.io/conditions': 7 }]) {
    const seen = object('autoscaling/v1/HorizontalPodAutoscaler', {}, {}, { annotations })
    t.equal(verdictOf(seen, now).argo?.status, 'Progressing')
  }
})

t.test('a StatefulSet without a spec is read with care', async (t) => {
  const { spec: _, ...seen } = object('apps/v1/StatefulSet', {}, { observedGeneration: 1 })
  for (const spec of [undefined, null, 'x']) t.equal(verdictOf({ ...seen, spec }, now).argo?.status, 'Healthy')
})
