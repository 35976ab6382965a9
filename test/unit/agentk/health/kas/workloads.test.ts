import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import {
  ago,
  type Case,
  condition,
  deployment,
  ended,
  event,
  judge,
  judgeTables,
  object,
  ownedBy,
  pod,
  rolledOut,
  running,
  sinceOf,
} from './world.ts'

/** Rows of the tables of objects under deletion and of workloads that make Pods. The first object is the root. */

const set = (replicas: number) =>
  object('apps/StatefulSet', 'set', { spec: { replicas: 2 }, status: { observedGeneration: 1, replicas } })

/** Returns a Pod that is being deleted and is not ready. */
const leaving = (containersReady: string) =>
  object(
    'Pod',
    'set-0',
    {
      spec: { nodeName: 'node-1', containers: [{ name: 'app' }] },
      status: {
        phase: 'Running',
        conditions: [condition('Ready', 'False', 300), condition('ContainersReady', containersReady, 3000)],
      },
    },
    { deletionTimestamp: ago(-20), deletionGracePeriodSeconds: 30 },
  )

const lostNode = object('Node', 'node-1', { status: { conditions: [condition('Ready', 'Unknown', 300)] } })

const deletion: readonly Case[] = [
  ['no finalizer', 'Progressing Terminating', [object('ConfigMap', 'c', {}, { deletionTimestamp: ago(900) })]],
  [
    'a finalizer at first',
    'Progressing DeletionBlocked',
    [object('ConfigMap', 'c', {}, { deletionTimestamp: ago(299), finalizers: ['x'] })],
  ],
  [
    'a finalizer',
    'Degraded DeletionBlocked',
    [object('ConfigMap', 'c', {}, { deletionTimestamp: ago(300), finalizers: ['x'] })],
  ],
  [
    'the time to end counts',
    'Degraded DeletionBlocked',
    [object('ConfigMap', 'c', {}, { deletionTimestamp: ago(200), deletionGracePeriodSeconds: 100, finalizers: ['x'] })],
  ],
  ['a Pod that leaves', 'Progressing Terminating', [leaving('False')]],
  ['a Pod evicted from a node that is lost', 'Degraded NodeNotReady', [leaving('True')]],
  ['and its node is known', 'Degraded NodeUnreachable', [leaving('True'), lostNode]],
  ['a StatefulSet of such a Pod', 'Degraded NodeUnreachable', [set(2), ownedBy(set(2), leaving('True')), lostNode]],
]

const failure = (message: string, seconds = 60) => condition('ReplicaFailure', 'True', seconds, 'FailedCreate', message)

const replicaSet = (message: string, seconds = 60, replicas = 0) =>
  object('apps/ReplicaSet', 'rs', {
    spec: { replicas: 2 },
    status: { replicas, conditions: [failure(message, seconds)] },
  })

const refusals: readonly (readonly [message: string, reason: string])[] = [
  ['pods "a" is forbidden: exceeded quota: compute, requested: pods=1', 'QuotaExceeded'],
  ['pods "a" is forbidden: failed quota: team: must specify limits.memory for: api', 'LimitsMissing'],
  ['pods "a" is forbidden: failed quota: team: no', 'QuotaExceeded'],
  ['Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: EOF', 'WebhookFailed'],
  ['admission webhook "w.example.com" denied the request: exceeded quota: mine', 'AdmissionDenied'],
  ["pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", 'AdmissionDenied'],
  [
    'pods "a" is forbidden: error looking up service account n/x: serviceaccount "x" not found',
    'ServiceAccountMissing',
  ],
  ['pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged', 'PodSecurityViolation'],
  ['pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2', 'LimitRangeViolation'],
  ['the server is in a bad mood', 'FailedCreate'],
]

const daemons = (has: number) =>
  object('apps/DaemonSet', 'ds', { status: { desiredNumberScheduled: 3, currentNumberScheduled: has } })

const runningJob = (status: object = {}) =>
  object('batch/Job', 'job', { spec: {}, status: { startTime: ago(600), ...status } })

const quota = 'exceeded quota: compute'

const overQuota =
  'pods "a" is forbidden: exceeded quota: compute, requested: limits.memory=1Gi,pods=1, used: limits.memory=2Gi,pods=3, limited: limits.memory=2Gi,pods=3'
const quotaOf = (pods: string, memory: string) =>
  object('ResourceQuota', 'compute', {
    status: { hard: { pods: '3', 'limits.memory': '2Gi' }, used: { pods, 'limits.memory': memory } },
  })
/** the ReplicaSet and the Deployment carry the same message */
const overQuotaSet = replicaSet(overQuota)
const overQuotaDeployment = deployment({}, {}, [failure(overQuota)])

const refused: readonly Case[] = [
  ['by a quota that is full', 'Degraded QuotaExceeded', [overQuotaSet, quotaOf('3', '2Gi')]],
  ['by one of which another resource is', 'Degraded QuotaExceeded', [overQuotaSet, quotaOf('2', '1025Mi')]],
  ['by one that has room again', 'Progressing QuotaExceeded', [overQuotaSet, quotaOf('2', '1024Mi')]],
  ['by one with room, as its Deployment says', 'Progressing QuotaExceeded', [overQuotaDeployment, quotaOf('0', '0')]],
  [
    'by one with room, of a StatefulSet',
    'Progressing QuotaExceeded',
    [set(1), quotaOf('0', '0')],
    [event(set(1), 'FailedCreate', overQuota)],
  ],
  [
    'by one that is full again, a Pod was made since',
    'Progressing QuotaExceeded',
    [
      replicaSet(overQuota, 300),
      quotaOf('3', '2Gi'),
      ownedBy(
        replicaSet(''),
        pod({
          ready: ['True', 59],
          container: { ready: true, state: running(50) },
          metadata: { creationTimestamp: ago(59) },
        }),
      ),
    ],
  ],
  [
    'by one that is full again for a minute',
    'Degraded QuotaExceeded',
    [
      replicaSet(overQuota, 300),
      quotaOf('3', '2Gi'),
      ownedBy(
        replicaSet(''),
        pod({
          ready: ['True', 60],
          container: { ready: true, state: running(50) },
          metadata: { creationTimestamp: ago(60) },
        }),
      ),
    ],
  ],
  ['by one with room, hidden', 'Degraded QuotaExceeded', [overQuotaSet, quotaOf('0', '0')], [], ['ResourceQuota']],
  ['by one that says no amounts', 'Degraded QuotaExceeded', [overQuotaSet, object('ResourceQuota', 'compute')]],
  ...refusals.map(([message, reason]): Case => [message, `Degraded ${reason}`, [replicaSet(message)]]),
  ['at first', 'Progressing QuotaExceeded', [replicaSet(quota, 59)]],
  ['and made since', 'Progressing QuotaExceeded', [replicaSet(quota, 60, 2)]],
  ['of a StatefulSet', 'Degraded QuotaExceeded', [set(1)], [event(set(1), 'FailedCreate', quota)]],
  ['of a StatefulSet that has all', 'Progressing LessReady', [set(2)], [event(set(2), 'FailedCreate', quota)]],
  [
    'of a StatefulSet that has made one since',
    'Progressing LessReplicas',
    [
      set(1),
      ownedBy(
        set(1),
        pod({
          name: 'set-0',
          metadata: { creationTimestamp: ago(5) },
          ready: ['True', 5],
          container: { ready: true, state: running(5) },
        }),
      ),
    ],
    [event(set(1), 'FailedCreate', quota)],
  ],
  ['of a DaemonSet', 'Degraded QuotaExceeded', [daemons(2)], [event(daemons(2), 'FailedCreate', quota)]],
  ['of a Job', 'Degraded QuotaExceeded', [runningJob()], [event(runningJob(), 'FailedCreate', quota)]],
  ['of a Job, hidden', 'Progressing Running', [runningJob()], [event(runningJob(), 'FailedCreate', quota)], ['Event']],
]

const overdue = condition('Progressing', 'False', 1, 'ProgressDeadlineExceeded', 'timed out')

const deployments: readonly Case[] = [
  ['paused', 'Suspended Paused', [deployment({ paused: true }, {})]],
  ['overdue', 'Degraded ProgressDeadlineExceeded', [deployment({}, {}, [overdue])]],
  ['overdue, and changed since', 'Progressing RollingOut', [deployment({}, { observedGeneration: 0 }, [overdue])]],
  ['refused, its ReplicaSet hidden', 'Degraded QuotaExceeded', [deployment({}, {}, [failure(quota)])]],
  ['rolls out', 'Progressing RollingOut', [deployment({}, { replicas: 2, updatedReplicas: 1, availableReplicas: 1 })]],
  ['is there', 'Healthy', [rolledOut]],
]

const job = (...conditions: object[]) =>
  object('batch/Job', 'job', { spec: {}, status: { startTime: ago(60), conditions } })

const cronJob = (status: object, spec: object = {}) => object('batch/CronJob', 'cron', { spec, status })

const runOf = (name: string, seconds: number, ...conditions: object[]) =>
  ownedBy(
    cronJob({}),
    object('batch/Job', name, { spec: {}, status: { conditions } }, { creationTimestamp: ago(seconds) }),
  )

const failedRun = condition('Failed', 'True', 10, 'BackoffLimitExceeded', 'limit')

const jobs: readonly Case[] = [
  ['failed', 'Degraded DeadlineExceeded', [job(condition('Failed', 'True', 1, 'DeadlineExceeded', 'late'))]],
  [
    'is to fail',
    'Degraded PodFailurePolicy',
    [job(condition('FailureTarget', 'True', 1, 'PodFailurePolicy', 'code 42'))],
  ],
  ['complete', 'Healthy', [job(condition('Complete', 'True', 1))]],
  [
    'complete after a try that failed',
    'Healthy',
    [
      job(condition('Complete', 'True', 1)),
      ownedBy(job(), pod({ phase: 'Failed', container: { state: ended(1, 'Error', 9, 8) } })),
    ],
  ],
  ['runs', 'Progressing Running', [job()]],
  ['suspended', 'Suspended Suspended', [object('batch/Job', 'job', { spec: { suspend: true }, status: {} })]],
  ['cron suspended', 'Suspended Suspended', [cronJob({}, { suspend: true })]],
  ['cron never ran', 'Healthy', [cronJob({})]],
  [
    'cron, last run failed',
    'Degraded BackoffLimitExceeded',
    [cronJob({}), runOf('b', 60, failedRun), runOf('a', 600, condition('Complete', 'True', 500))],
  ],
  [
    'cron, last run failed, Jobs hidden',
    'Degraded LastRunFailed',
    [cronJob({ lastScheduleTime: ago(60) }), runOf('b', 60, failedRun)],
    [],
    ['batch/Job'],
  ],
  [
    'cron, a run before failed',
    'Healthy',
    [
      cronJob({ lastScheduleTime: ago(60) }),
      runOf('a', 600, failedRun),
      runOf('b', 60, condition('Complete', 'True', 5)),
    ],
  ],
  [
    'cron without Jobs',
    'Degraded LastRunFailed',
    [cronJob({ lastScheduleTime: ago(60), lastSuccessfulTime: ago(600) })],
  ],
  ['cron that runs', 'Healthy', [cronJob({ lastScheduleTime: ago(60), lastSuccessfulTime: ago(600), active: [{}] })]],
]

judgeTables(t, { deletion, refused, deployments, jobs })

t.test('since', async (t) => {
  t.equal(sinceOf([deletion[3]?.[2][0] as KubernetesObject]), 300)
  t.equal(sinceOf([replicaSet(quota, 77)]), 77)
  t.equal(sinceOf([leaving('True')]), 300, 'since it is lost, not since it is deleted')
})

t.test('of a refusal that is said which a row does not say already', async (t) => {
  const post = 'failed to call webhook: Post "https://w.example.com/v1?timeout=10s": '
  const table = [
    [
      `Create Pod set-1 in StatefulSet set failed error: Internal error occurred: failed calling webhook "w": ${post}x509: unknown authority`,
      'webhook w: x509: unknown authority',
    ],
    ['failed calling webhook "w": failed to call webhook: service "s" not found', 'webhook w: service "s" not found'],
    ['create Pod set-1 in StatefulSet set failed error: pods "set-1" is forbidden: no', 'no'],
    ['Error creating: Internal error occurred: no', 'no'],
    ['what a Pod in StatefulSet set failed error: is', 'what a Pod in StatefulSet set failed error: is'],
  ]
  for (const [message = '', text] of table) t.equal(judge([replicaSet(message)]).cause?.text, text)
})

t.test('a Job that was ended by its deadline says which', async (t) => {
  const late = condition('Failed', 'True', 1, 'DeadlineExceeded', 'Job was active longer than specified deadline')
  const one = object('batch/Job', 'job', { spec: { activeDeadlineSeconds: 20 }, status: { conditions: [late] } })
  t.equal(judge([one]).cause?.text, 'Job was active longer than specified deadline: activeDeadlineSeconds is 20')
  t.equal(judge([job(late)]).cause?.text, 'Job was active longer than specified deadline')
})

t.test('a refusal counts the Pods that are missing', async (t) => {
  t.equal(judge([replicaSet(quota)]).cause?.count, 2)
  t.equal(judge([daemons(1)], { events: [event(daemons(1), 'FailedCreate', quota)] }).cause?.count, 2)
})

t.test('events of one cause: each refused Pod has a name of its own, the first of them says since when', async (t) => {
  const one = daemons(1)
  const events = [200, 400, 300].map((seconds, i) =>
    event(
      one,
      'FailedCreate',
      `${i ? '' : '(combined from similar events): '}Error creating: pods "ds-${i}" is forbidden: ${quota}`,
      {
        metadata: { name: `e${i}` },
        firstTimestamp: ago(seconds),
        lastTimestamp: ago(seconds - 190),
      },
    ),
  )
  const other = event(one, 'FailedCreate', 'the server is in a bad mood', {
    firstTimestamp: ago(3000),
    lastTimestamp: ago(2000),
  })
  const { cause } = judge([one], { events: [...events, other] })
  t.match(cause, {
    reason: 'QuotaExceeded',
    text: quota,
    count: 2,
    others: 0,
  })
  t.equal(cause?.since, Date.parse(ago(400)))
})
