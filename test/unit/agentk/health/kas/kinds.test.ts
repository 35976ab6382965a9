import t from 'tap'
import type { KubernetesObject } from '../../../../../src/agentk/health/object.ts'
import {
  ago,
  condition,
  ended,
  event,
  judge,
  now,
  object,
  ownedBy,
  pod,
  running,
  said,
  waiting,
  well,
} from './world.ts'

/** A line of the table of other kinds each. The first object is the root. */

type Case = readonly [
  what: string,
  expected: string,
  objects: readonly KubernetesObject[],
  events?: readonly KubernetesObject[],
  without?: readonly string[],
]

const statusOf = (...conditions: object[]) => ({ status: { conditions } })

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
]

const failure = (message: string, seconds = 60) => condition('ReplicaFailure', 'True', seconds, 'FailedCreate', message)
const replicaSet = (message: string, seconds = 60, replicas = 0) =>
  object('apps/ReplicaSet', 'rs', {
    spec: { replicas: 2 },
    status: { replicas, conditions: [failure(message, seconds)] },
  })
const refusals: readonly (readonly [message: string, reason: string])[] = [
  ['pods "a" is forbidden: exceeded quota: compute, requested: pods=1', 'QuotaExceeded'],
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
const set = (replicas: number) =>
  object('apps/StatefulSet', 'set', { spec: { replicas: 2 }, status: { observedGeneration: 1, replicas } })
const daemons = (has: number) =>
  object('apps/DaemonSet', 'ds', { status: { desiredNumberScheduled: 3, currentNumberScheduled: has } })
const runningJob = (status: object = {}) =>
  object('batch/Job', 'job', { spec: {}, status: { startTime: ago(600), ...status } })
const quota = 'exceeded quota: compute'
const refused: readonly Case[] = [
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

const deployment = (spec: object, status: object, conditions: readonly object[] = []) =>
  object(
    'apps/Deployment',
    'web',
    { spec: { replicas: 1, ...spec }, status: { observedGeneration: 1, ...status, conditions } },
    { generation: 1 },
  )
const overdue = condition('Progressing', 'False', 1, 'ProgressDeadlineExceeded', 'timed out')
const allThere = { replicas: 1, updatedReplicas: 1, availableReplicas: 1 }
const deployments: readonly Case[] = [
  ['paused', 'Suspended Paused', [deployment({ paused: true }, {})]],
  ['overdue', 'Degraded ProgressDeadlineExceeded', [deployment({}, {}, [overdue])]],
  ['overdue, and changed since', 'Progressing RollingOut', [deployment({}, { observedGeneration: 0 }, [overdue])]],
  ['refused, its ReplicaSet hidden', 'Degraded QuotaExceeded', [deployment({}, {}, [failure(quota)])]],
  ['rolls out', 'Progressing RollingOut', [deployment({}, { replicas: 2, updatedReplicas: 1, availableReplicas: 1 })]],
  ['is there', 'Healthy', [deployment({}, allThere)]],
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

const node = (conditions: readonly object[], spec: object = {}, created = 9000) =>
  object('Node', 'node-1', { spec, status: { conditions } }, { creationTimestamp: ago(created) })
const readyNode = condition('Ready', 'True', 9000)
const nodes: readonly Case[] = [
  ['ready', 'Healthy', [node([readyNode])]],
  ['silent', 'Degraded NodeUnreachable', [node([condition('Ready', 'Unknown', 1, 'NodeStatusUnknown', 'stopped')])]],
  [
    'not ready',
    'Degraded NodeNotReady',
    [node([condition('Ready', 'False', 1, 'KubeletNotReady', 'no network plugin')])],
  ],
  ['new', 'Progressing NodeNotReady', [node([condition('Ready', 'False', 100, 'KubeletNotReady')], {}, 299)]],
  ...['MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable'].map(
    (type): Case => [type, `Degraded ${type}`, [node([readyNode, condition(type, 'True', 1)])]],
  ),
  ['cordoned', 'Suspended Cordoned', [node([readyNode], { unschedulable: true })]],
]

const claim = (status: object, spec: object = {}, seconds = 9000, annotations: object = {}) =>
  object('PersistentVolumeClaim', 'c', { spec, status }, { creationTimestamp: ago(seconds), annotations })
const pending = { phase: 'Pending' }
const fast = { storageClassName: 'fast' }
const storageClass = (volumeBindingMode = 'Immediate') =>
  object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode })
const user = (seconds: number) =>
  pod({
    spec: { volumes: [{ persistentVolumeClaim: { claimName: 'c' } }] },
    metadata: { creationTimestamp: ago(seconds) },
  })
const chosen = { 'volume.kubernetes.io/selected-node': 'node-1' }
const claims: readonly Case[] = [
  ['bound', 'Healthy', [claim({ phase: 'Bound' })]],
  ['lost', 'Degraded VolumeLost', [claim({ phase: 'Lost' })]],
  ['no such class', 'Degraded StorageClassMissing', [claim(pending, fast, 60)]],
  ['no such class at first', 'Progressing StorageClassMissing', [claim(pending, fast, 59)]],
  ['classes hidden', 'Progressing NotBound', [claim(pending, fast)], [], ['storage.k8s.io/StorageClass']],
  [
    'not provisioned',
    'Degraded ProvisioningFailed',
    [claim(pending, fast), storageClass()],
    [event(claim(pending), 'ProvisioningFailed', 'no')],
  ],
  [
    'none fits',
    'Degraded FailedBinding',
    [claim(pending)],
    [event(claim(pending), 'FailedBinding', 'no', { type: 'Normal' })],
  ],
  [
    'none fits at first',
    'Progressing FailedBinding',
    [claim(pending)],
    [event(claim(pending), 'FailedBinding', 'no', { firstTimestamp: ago(119) })],
  ],
  [
    'waits for a consumer',
    'Suspended WaitForFirstConsumer',
    [claim(pending, fast), storageClass('WaitForFirstConsumer')],
  ],
  [
    'waits, Pods hidden',
    'Progressing NotBound',
    [claim(pending, fast), storageClass('WaitForFirstConsumer')],
    [],
    ['Pod'],
  ],
  [
    'its consumer has no node',
    'Progressing NotBound',
    [claim(pending, fast), storageClass('WaitForFirstConsumer'), user(900)],
  ],
  [
    'its consumer has a node',
    'Degraded NotBound',
    [claim(pending, fast, 9000, chosen), storageClass('WaitForFirstConsumer'), user(300)],
  ],
  ['unused', 'Progressing NotBound', [claim(pending)]],
  ['used', 'Progressing NotBound', [claim(pending), user(299)]],
  ['used for long', 'Degraded NotBound', [claim(pending), user(300)]],
]

const service = (spec: object = {}, status: object = {}, seconds = 9000) =>
  object('Service', 's', { spec: { selector: { app: 'a' }, ...spec }, status }, { creationTimestamp: ago(seconds) })
const slice = (...ready: (boolean | null)[]) =>
  object(
    'discovery.k8s.io/EndpointSlice',
    's-1',
    { endpoints: ready.map((one) => ({ conditions: { ready: one } })) },
    { labels: { 'kubernetes.io/service-name': 's' } },
  )
const maker = (replicas: number) =>
  object('apps/Deployment', 'web', { spec: { replicas, template: { metadata: { labels: { app: 'a' } } } } })
const crashing = pod({
  container: { restartCount: 5, ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 50, 40) },
})
const balanced = { type: 'LoadBalancer' }
const services: readonly Case[] = [
  ['answered', 'Healthy', [service(), slice(false, true), crashing]],
  ['answered by what does not say', 'Healthy', [service(), slice(null)]],
  ['its Pods fail', 'Degraded CrashLoopBackOff', [service(), slice(false), crashing]],
  [
    'its Pods fail, events hidden',
    'Degraded CrashLoopBackOff',
    [service(), slice(false), crashing],
    [event(crashing, 'BackOff', 'Back-off restarting failed container app')],
    ['Event'],
  ],
  ['its Pods fail, it is new', 'Progressing CrashLoopBackOff', [service({}, {}, 59), slice(false), crashing]],
  ['its Pods start', 'Progressing Starting', [service(), slice(false), pod({ container: { state: running(5) } })]],
  ['its Pods are ready this moment', 'Progressing NoReadyEndpoints', [service(), slice(), well()]],
  ['at zero', 'Suspended ScaledToZero', [service(), slice(), maker(0)]],
  [
    'at zero, an evicted Pod is left',
    'Suspended ScaledToZero',
    [service(), slice(), maker(0), pod({ phase: 'Failed' })],
  ],
  ['no Pod yet', 'Progressing NoReadyEndpoints', [service(), slice(), maker(2)]],
  [
    'between two runs',
    'Progressing NoReadyEndpoints',
    [
      service(),
      object('batch/CronJob', 'c', {
        spec: { jobTemplate: { spec: { template: { metadata: { labels: { app: 'a' } } } } } },
      }),
    ],
  ],
  ['selects nothing', 'Degraded SelectsNothing', [service()]],
  ['selects nothing at first', 'Progressing SelectsNothing', [service({}, {}, 59)]],
  ['selects nothing, Deployments hidden', 'Healthy', [service()], [], ['apps/Deployment']],
  ['selects nothing, slices hidden', 'Healthy', [service()], [], ['discovery.k8s.io/EndpointSlice']],
  ['no selector', 'Healthy', [service({ selector: null })]],
  ['another name', 'Healthy', [service({ type: 'ExternalName' })]],
  ['no address yet', 'Progressing LoadBalancerPending', [service(balanced), slice(true)]],
  [
    'no address',
    'Degraded SyncLoadBalancerFailed',
    [service(balanced), slice(true)],
    [event(service(), 'SyncLoadBalancerFailed', 'no credit')],
  ],
  [
    'no address, it was told a moment ago',
    'Progressing SyncLoadBalancerFailed',
    [service(balanced), slice(true)],
    [event(service(), 'SyncLoadBalancerFailed', 'no credit', { firstTimestamp: ago(119) })],
  ],
  [
    'has its address',
    'Healthy',
    [service(balanced, { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }), slice(true)],
  ],
]

const addressed = { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }
const ingress = (spec: object, status: object = addressed, seconds = 60) =>
  object('networking.k8s.io/Ingress', 'i', { spec, status }, { creationTimestamp: ago(seconds) })
const toService = { defaultBackend: { service: { name: 's' } } }
const ingresses: readonly Case[] = [
  ['well', 'Healthy', [ingress(toService), service()]],
  ['no such service', 'Degraded BackendMissing', [ingress(toService)]],
  ['no such service at first', 'Progressing BackendMissing', [ingress(toService, addressed, 59)]],
  ['no such class', 'Degraded IngressClassMissing', [ingress({ ingressClassName: 'nginx' })]],
  ['class', 'Healthy', [ingress({ ingressClassName: 'nginx' }), object('networking.k8s.io/IngressClass', 'nginx')]],
  ['no such secret', 'Degraded SecretMissing', [ingress({ tls: [{ secretName: 'x' }] })]],
  ['no such secret, hidden', 'Healthy', [ingress({ tls: [{ secretName: 'x' }] })], [], ['Secret']],
  ['no address', 'Progressing AddressPending', [ingress({}, {}, 9000)]],
]

const gateways: readonly Case[] = [
  [
    'route',
    'Degraded BackendNotFound',
    [
      object('gateway.networking.k8s.io/HTTPRoute', 'r', {
        status: {
          parents: [
            {
              conditions: [
                condition('Accepted', 'True', 9),
                condition('ResolvedRefs', 'False', 9, 'BackendNotFound', 'no such service'),
              ],
            },
          ],
        },
      }),
    ],
  ],
  [
    'listener',
    'Degraded InvalidCertificateRef',
    [
      object('gateway.networking.k8s.io/Gateway', 'g', {
        status: {
          conditions: [condition('Programmed', 'True', 9), condition('Accepted', 'True', 9)],
          listeners: [
            {
              name: 'https',
              conditions: [
                condition('ResolvedRefs', 'False', 9, 'InvalidCertificateRef', 'no'),
                condition('Conflicted', 'False', 9, 'NoConflicts'),
              ],
            },
          ],
        },
      }),
    ],
  ],
  [
    'of a generation before',
    'Healthy',
    [
      object(
        'gateway.networking.k8s.io/GatewayClass',
        'g',
        {
          status: {
            conditions: [{ ...condition('Accepted', 'False', 9, 'InvalidParameters', 'no'), observedGeneration: 1 }],
          },
        },
        { generation: 2 },
      ),
    ],
  ],
]

const autoscaler = (...conditions: object[]) =>
  object('autoscaling/HorizontalPodAutoscaler', 'h', {
    spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } },
    status: { conditions: [condition('AbleToScale', 'True', 900), ...conditions] },
  })
const inactive = (seconds: number, reason = 'FailedGetResourceMetric') =>
  condition('ScalingActive', 'False', seconds, reason, 'no metrics')
const scaled = deployment({}, allThere)
const autoscalers: readonly Case[] = [
  ['measures', 'Healthy', [autoscaler(condition('ScalingActive', 'True', 900)), scaled]],
  ['disabled', 'Suspended ScalingDisabled', [autoscaler(inactive(900, 'ScalingDisabled')), scaled]],
  ['does not measure yet', 'Progressing FailedGetResourceMetric', [autoscaler(inactive(119)), scaled]],
  ['does not measure', 'Degraded FailedGetResourceMetric', [autoscaler(inactive(120)), scaled]],
  ['its target rolls out', 'Progressing FailedGetResourceMetric', [autoscaler(inactive(900)), deployment({}, {})]],
  [
    'its target is hidden',
    'Degraded FailedGetResourceMetric',
    [autoscaler(inactive(900)), deployment({}, {})],
    [],
    ['apps/Deployment'],
  ],
  [
    'has no target',
    'Degraded FailedGetScale',
    [
      object(
        'autoscaling/HorizontalPodAutoscaler',
        'h',
        statusOf(condition('AbleToScale', 'False', 120, 'FailedGetScale', 'not found')),
      ),
    ],
  ],
]

const apiService = (...conditions: object[]) =>
  object('apiregistration.k8s.io/APIService', 'v1.x', statusOf(...conditions))
const definition = (...conditions: object[]) =>
  object('apiextensions.k8s.io/CustomResourceDefinition', 'x', statusOf(...conditions))
const extensions: readonly Case[] = [
  [
    'API away',
    'Degraded MissingEndpoints',
    [apiService(condition('Available', 'False', 60, 'MissingEndpoints', 'none'))],
  ],
  [
    'API away for a moment',
    'Progressing MissingEndpoints',
    [apiService(condition('Available', 'False', 59, 'MissingEndpoints', 'none'))],
  ],
  [
    'names taken',
    'Degraded KindConflict',
    [definition(condition('NamesAccepted', 'False', 1, 'KindConflict', 'taken'))],
  ],
  ['not established', 'Degraded NotAccepted', [definition(condition('Established', 'False', 1, 'NotAccepted', 'no'))]],
  [
    'is being established',
    'Progressing Installing',
    [definition(condition('Established', 'False', 1, 'Installing', 'soon'))],
  ],
  [
    'no schema',
    'Degraded Violations',
    [definition(condition('Established', 'True', 1), condition('NonStructuralSchema', 'True', 1, 'Violations', 'no'))],
  ],
]

const configuration = (failurePolicy: string, seconds = 60) =>
  object(
    'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
    'w',
    { webhooks: [{ name: 'v.example.com', failurePolicy, clientConfig: { service: { namespace: 'n', name: 's' } } }] },
    { creationTimestamp: ago(seconds) },
  )
const webhooks: readonly Case[] = [
  ['no service', 'Degraded WebhookServiceMissing', [configuration('Fail')]],
  ['no service at first', 'Progressing WebhookServiceMissing', [configuration('Fail', 59)]],
  ['may be away', 'Healthy', [configuration('Ignore')]],
  ['services hidden', 'Healthy', [configuration('Fail')], [], ['Service']],
  ['answered', 'Healthy', [configuration('Fail'), service(), slice(true)]],
  ['nobody answers', 'Degraded SelectsNothing', [configuration('Fail'), service(), slice()]],
  [
    'nobody answers, slices hidden',
    'Healthy',
    [configuration('Fail'), service(), slice()],
    [],
    ['discovery.k8s.io/EndpointSlice'],
  ],
  ['its Pods crash', 'Degraded CrashLoopBackOff', [configuration('Fail'), service(), slice(false), crashing]],
  [
    'its Pods start',
    'Progressing Starting',
    [configuration('Fail'), service(), slice(false), pod({ container: { state: running(5) } })],
  ],
]

const namespace = (type: string, reason: string, seconds: number) =>
  object('Namespace', 'n', statusOf(condition(type, 'True', seconds, reason, 'it says so')), {
    deletionTimestamp: ago(900),
  })
const namespaces: readonly Case[] = [
  ['is deleted', 'Progressing Terminating', [object('Namespace', 'n', {}, { deletionTimestamp: ago(900) })]],
  ['discovery', 'Degraded DiscoveryFailed', [namespace('NamespaceDeletionDiscoveryFailure', 'DiscoveryFailed', 120)]],
  [
    'discovery at first',
    'Progressing DiscoveryFailed',
    [namespace('NamespaceDeletionDiscoveryFailure', 'DiscoveryFailed', 119)],
  ],
  [
    'content',
    'Degraded ContentDeletionFailed',
    [namespace('NamespaceDeletionContentFailure', 'ContentDeletionFailed', 120)],
  ],
  [
    'finalizers',
    'Degraded SomeFinalizersRemain',
    [namespace('NamespaceFinalizersRemaining', 'SomeFinalizersRemain', 120)],
  ],
  [
    'finalizers of an object',
    'Degraded DeletionBlocked',
    [
      namespace('NamespaceFinalizersRemaining', 'SomeFinalizersRemain', 120),
      object('ConfigMap', 'c', {}, { deletionTimestamp: ago(400), finalizers: ['x'] }),
    ],
  ],
  [
    'resources',
    'Progressing SomeResourcesRemain',
    [namespace('NamespaceContentRemaining', 'SomeResourcesRemain', 900)],
  ],
]

const thing = (...conditions: object[]) => object('example.com/Thing', 't', statusOf(...conditions))
const others: readonly Case[] = [
  ...['Stalled', 'Degraded', 'Failed'].map(
    (type): Case => [type, 'Degraded Why', [thing(condition(type, 'True', 0, 'Why'))]],
  ),
  ...['Ready', 'Available', 'Healthy', 'Synced'].flatMap((type): Case[] => [
    [`not ${type} yet`, 'Progressing Why', [thing(condition(type, 'False', 299, 'Why'))]],
    [`not ${type}`, 'Degraded Why', [thing(condition(type, 'False', 300, 'Why'))]],
    [`perhaps ${type}`, 'Progressing Why', [thing(condition(type, 'Unknown', 900, 'Why'))]],
    [type, 'Healthy', [thing(condition(type, 'True', 1))]],
  ]),
  ['without a reason', 'Degraded Ready', [thing(condition('Ready', 'False', 300))]],
  ['conditions that nobody knows', 'Healthy', [thing(condition('Progressing', 'False', 300))]],
  [
    'a budget of one Pod',
    'Healthy',
    [
      object(
        'policy/PodDisruptionBudget',
        'b',
        statusOf(condition('DisruptionAllowed', 'False', 900, 'InsufficientPods')),
      ),
    ],
  ],
  [
    'a quota that is full',
    'Healthy',
    [object('ResourceQuota', 'q', { status: { hard: { pods: '1' }, used: { pods: '1' } } })],
  ],
]

const tables = {
  deletion,
  refused,
  deployments,
  jobs,
  nodes,
  claims,
  services,
  ingresses,
  gateways,
  autoscalers,
  extensions,
  webhooks,
  namespaces,
  others,
}
for (const [table, cases] of Object.entries(tables)) {
  for (const [what, expected, objects, events = [], without = []] of cases) {
    t.test(`${table}: ${what}`, async (t) => {
      t.equal(said(judge(objects, { events, without })), expected)
    })
  }
}

t.test('since', async (t) => {
  const since = (objects: readonly KubernetesObject[]) => {
    const time = judge(objects).cause?.since
    return time === undefined ? 'unknown' : (now - time) / 1000
  }
  t.equal(since([deletion[3]?.[2][0] as KubernetesObject]), 300)
  t.equal(since([replicaSet(quota, 77)]), 77)
  t.equal(since([claim(pending, fast, 88)]), 88)
  t.equal(since([service(balanced), slice(true)]), 9000)
  t.equal(since([service()]), 'unknown')
  t.equal(since([ingress(toService)]), 'unknown')
  t.equal(since([configuration('Fail')]), 'unknown')
  t.equal(judge([configuration('Fail')]).atLeast, now)
  const cordoned = { unschedulable: true, taints: [{ key: 'node.kubernetes.io/unschedulable', timeAdded: ago(99) }] }
  t.equal(since([node([readyNode], cordoned)]), 99)
})

t.test('a refusal counts the Pods that are missing', async (t) => {
  t.equal(judge([replicaSet(quota)]).cause?.count, 2)
  t.equal(judge([daemons(1)], { events: [event(daemons(1), 'FailedCreate', quota)] }).cause?.count, 2)
})
