import t from 'tap'
import {
  ago,
  condition,
  deployment,
  ended,
  event,
  judgeAll,
  object,
  ownedBy,
  pod,
  type Report,
  running,
  waiting,
  well,
} from './world.ts'

/** Objects that resemble a fault and have none. */

const rests = /./
const nothing = /^$/
const oomLongAgo = pod({
  ready: ['True', 80_000],
  container: {
    ready: true,
    started: true,
    restartCount: 9,
    state: running(80_000),
    lastState: ended(137, 'OOMKilled', 90_000, 80_010),
  },
})
const afterReboot = pod({
  ready: ['True', 3000],
  container: {
    ready: true,
    started: true,
    restartCount: 1,
    state: running(3000),
    lastState: { terminated: { exitCode: 137, reason: 'ContainerStatusUnknown', startedAt: null, finishedAt: null } },
  },
})

t.test('Pods', async (t) => {
  const succeeded = pod({
    phase: 'Succeeded',
    spec: { restartPolicy: 'Never' },
    container: { state: ended(0, 'Completed', 600, 110) },
  })
  const initializing = pod({
    phase: 'Pending',
    ready: ['False', 3000],
    initSpecs: [{ name: 'migrate' }],
    init: [{ name: 'migrate', restartCount: 0, state: running(2990) }],
    container: waiting('PodInitializing'),
  })
  const ending = pod({
    ready: ['True', 3000],
    container: { ready: true, started: true, state: running(3000) },
    metadata: { deletionTimestamp: ago(-20), deletionGracePeriodSeconds: 30 },
  })
  judgeAll(t, [
    ['restarts of long ago', [oomLongAgo], 'Healthy', nothing],
    ['its node was started anew', [afterReboot], 'Healthy', nothing],
    ['Succeeded', [succeeded], 'Healthy', nothing],
    ['an init container runs', [initializing], 'Progressing Starting', /^init container migrate has not ended$/],
    ['it ends', [ending], 'Progressing Terminating', rests],
    [
      'a readiness probe once',
      [well()],
      'Healthy',
      nothing,
      [event(well(), 'Unhealthy', 'Readiness probe failed: 503')],
    ],
  ])
})

t.test('workloads', async (t) => {
  const set = (status: object, more: object = {}) =>
    object('apps/StatefulSet', 'db', {
      spec: { replicas: 2, updateStrategy: { type: 'RollingUpdate', ...more } },
      status: { observedGeneration: 1, replicas: 2, readyReplicas: 2, availableReplicas: 2, ...status },
    })
  const job = object('batch/Job', 'j', {
    spec: { parallelism: 1 },
    status: {
      succeeded: 1,
      failed: 1,
      startTime: ago(900),
      completionTime: ago(90),
      conditions: [condition('Complete', 'True', 90)],
    },
  })
  const failedOnce = ownedBy(
    job,
    pod({ phase: 'Failed', spec: { restartPolicy: 'Never' }, container: { state: ended(1, 'Error', 800, 700) } }),
  )
  const cron = (spec: object, status: object = {}) => object('batch/CronJob', 'c', { spec, status })
  const minReady = deployment({ minReadySeconds: 600 }, { replicas: 1, updatedReplicas: 1, readyReplicas: 1 })
  const reports: readonly Report[] = [
    ['a Deployment at 0', [deployment({ replicas: 0 }, {})], 'Healthy', nothing],
    ['one that is paused', [deployment({ paused: true }, { replicas: 1 })], 'Suspended Paused', rests],
    ['one that lets its Pods prove themselves', [minReady], 'Progressing RollingOut', rests],
    [
      'a StatefulSet with a partition',
      [set({ updatedReplicas: 1, currentRevision: 'a', updateRevision: 'b' }, { rollingUpdate: { partition: 1 } })],
      'Healthy',
      nothing,
    ],
    [
      'a DaemonSet that no node is for',
      [object('apps/DaemonSet', 'd', { spec: {}, status: { desiredNumberScheduled: 0, observedGeneration: 1 } })],
      'Healthy',
      nothing,
    ],
    ['a Job that has failed once', [job, failedOnce], 'Healthy', nothing],
    ['a Job that is suspended', [object('batch/Job', 'j', { spec: { suspend: true } })], 'Suspended Suspended', rests],
    ['a CronJob that is suspended', [cron({ suspend: true })], 'Suspended Suspended', rests],
    ['one that has not run yet', [cron({})], 'Healthy', nothing],
    [
      'an old ReplicaSet',
      [object('apps/ReplicaSet', 'old', { spec: { replicas: 0 }, status: { replicas: 0, observedGeneration: 2 } })],
      'Healthy',
      nothing,
    ],
  ]
  judgeAll(t, reports)
})

t.test('what stands around them', async (t) => {
  const limited = (reason: string) =>
    object('autoscaling/HorizontalPodAutoscaler', 'web', {
      spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } },
      status: {
        conditions: [
          condition('AbleToScale', 'True', 900, 'ReadyForNewScale'),
          condition('ScalingActive', 'True', 900, 'ValidMetricFound'),
          condition('ScalingLimited', 'True', 900, reason, 'it says so'),
        ],
      },
    })
  const budget = object('policy/PodDisruptionBudget', 'web', {
    spec: { minAvailable: 1, selector: { matchLabels: { app: 'a' } } },
    status: { conditions: [condition('DisruptionAllowed', 'False', 900, 'InsufficientPods')] },
  })
  const atZero = object('apps/Deployment', 'web', {
    spec: { replicas: 0, template: { metadata: { labels: { app: 'a' } } } },
    status: {},
  })
  const claim = object('PersistentVolumeClaim', 'c', {
    spec: { storageClassName: 'fast' },
    status: { phase: 'Pending' },
  })
  const lazy = object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode: 'WaitForFirstConsumer' })
  const cordoned = object('Node', 'node-1', {
    spec: { unschedulable: true },
    status: { conditions: [condition('Ready', 'True', 900)] },
  })
  const ignoring = object('admissionregistration.k8s.io/ValidatingWebhookConfiguration', 'w', {
    webhooks: [
      { name: 'a.example.com', failurePolicy: 'Ignore', clientConfig: { service: { namespace: 'n', name: 'gone' } } },
    ],
  })
  const full = { hard: { pods: '2' }, used: { pods: '2' } }
  judgeAll(t, [
    ['an autoscaler at its maximum', [limited('TooManyReplicas')], 'Healthy', nothing],
    ['at its minimum', [limited('TooFewReplicas')], 'Healthy', nothing],
    ['a budget of no Pods', [budget, atZero], 'Healthy', nothing],
    ['a budget that lets none go', [budget, well()], 'Healthy', nothing],
    ['a claim that nobody uses', [claim, lazy], 'Suspended WaitForFirstConsumer', rests],
    [
      'a volume that nobody claims',
      [object('PersistentVolume', 'v', { status: { phase: 'Available' } })],
      'Healthy',
      nothing,
    ],
    ['a node that is cordoned', [cordoned], 'Suspended Cordoned', rests],
    ['a webhook that may be away', [ignoring], 'Healthy', nothing],
    ['a quota that is full', [object('ResourceQuota', 'q', { status: full })], 'Healthy', nothing],
    ['a name in the DNS', [object('Service', 's', { spec: { type: 'ExternalName' } })], 'Healthy', nothing],
    ['endpoints by hand', [object('Service', 's', { spec: { ports: [{ port: 80 }] } })], 'Healthy', nothing],
    ['a policy', [object('networking.k8s.io/NetworkPolicy', 'p', { spec: {} })], 'Healthy', nothing],
  ])
})
