import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import {
  ago,
  condition,
  deployment,
  ended,
  event,
  judge,
  judgeAll,
  object,
  ownedBy,
  pod,
  running,
  summary,
  waiting,
  well,
} from './world.ts'

/** Faults that users of other tools reported, each next to similar cases. */

type Objects = readonly KubernetesObject[]

const claim = (spec: object, status: object = { phase: 'Pending' }) =>
  object('PersistentVolumeClaim', 'c', { spec, status }, { creationTimestamp: ago(900) })
const volume = (claimUid: string, phase: string, more: object = {}) =>
  object('PersistentVolume', 'pv', {
    spec: { claimRef: { namespace: 'n', name: 'c', uid: claimUid }, ...more },
    status: { phase },
  })
const storageClass = (volumeBindingMode: string) => object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode })
const mounting = (spec: object = {}, more: object = {}) =>
  pod({
    spec: { volumes: [{ name: 'd', persistentVolumeClaim: { claimName: 'c' } }], ...spec },
    metadata: { creationTimestamp: ago(900) },
    ...more,
  })

t.test('claims: the volume that they name, a class without an object, a node that nobody chooses', async (t) => {
  const named = claim({ storageClassName: 'by-hand', volumeName: 'pv' })
  const first = claim({ storageClassName: 'fast' })
  judgeAll(t, [
    [
      'of another claim',
      [named, volume('other', 'Released')],
      'Degraded FailedBinding',
      /already bound to a different claim: it is Released, of an earlier claim n\/c/,
    ],
    [
      'hidden, by its event',
      [named],
      'Degraded FailedBinding',
      /^volume "pv" already bound/,
      [event(named, 'FailedBinding', 'volume "pv" already bound to a different claim.')],
      ['PersistentVolume'],
    ],
    ['not there', [named], 'Degraded VolumeMissing', /^volume pv does not exist$/],
    [
      'its own',
      [named, volume('uid-PersistentVolumeClaim-c', 'Available')],
      'Progressing NotBound',
      /waits for volume pv/,
    ],
    ['by hand, unnamed', [claim({ storageClassName: 'by-hand' })], 'Degraded StorageClassMissing', /by-hand/],
    [
      'the Pod names its node',
      [first, storageClass('WaitForFirstConsumer'), mounting()],
      'Degraded NotBound',
      /names its node itself \(nodeName\)/,
    ],
    [
      'a class that binds at once',
      [first, storageClass('Immediate'), mounting()],
      'Degraded NotBound',
      /no volume is bound/,
    ],
    ['no Pod', [first, storageClass('WaitForFirstConsumer')], 'Suspended WaitForFirstConsumer', /no Pod/],
  ])
  const creating = mounting({}, { phase: 'Pending', container: { ...waiting('ContainerCreating') } })
  const { cause } = judge([creating, first, storageClass('WaitForFirstConsumer')], {
    events: [event(creating, 'FailedMount', 'error processing PVC n/c: PVC is not bound')],
  })
  t.match(cause, { kind: 'PersistentVolumeClaim', reason: 'NotBound' }, 'it is the culprit of its Pod')
})

t.test('volumes that their driver does not delete, and nodes that are not there', async (t) => {
  const failed = object('PersistentVolume', 'pv', {
    status: { phase: 'Failed', message: 'host_path deleter only supports /tmp/.+' },
  })
  const released = volume('gone', 'Released')
  const late = event(released, 'VolumeFailedDelete', 'disk is in use', { firstTimestamp: ago(300) })
  const local = (node: string) => ({
    nodeAffinity: {
      required: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }] }],
      },
    },
  })
  const text = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
  const unscheduled = pod({
    phase: 'Pending',
    spec: { nodeName: '', volumes: [{ name: 'd', persistentVolumeClaim: { claimName: 'c' } }] },
    status: { conditions: [condition('PodScheduled', 'False', 900, 'Unschedulable', text)] },
  })
  const bound = claim({ volumeName: 'pv' }, { phase: 'Bound' })
  const node = object('Node', 'node-8', { status: { conditions: [condition('Ready', 'True', 900)] } })
  judgeAll(t, [
    ['Failed', [failed], 'Degraded VolumeFailed', /host_path deleter only supports/],
    ['Released, by its event', [released], 'Degraded VolumeFailedDelete', /disk is in use/, [late]],
    ['Released and kept', [released], 'Healthy', /^$/],
    [
      'a node that is gone',
      [unscheduled, bound, volume('x', 'Bound', local('node-9')), node],
      'Degraded Unschedulable',
      /; volume pv is on node node-9, which is not there$/,
    ],
    [
      'a node that is there',
      [unscheduled, bound, volume('x', 'Bound', local('node-8')), node],
      'Degraded Unschedulable',
      /node affinity\.$/,
    ],
    [
      'volumes hidden',
      [unscheduled, bound, volume('x', 'Bound', local('node-9')), node],
      'Degraded Unschedulable',
      /node affinity\.$/,
      [],
      ['PersistentVolume'],
    ],
  ])
})

t.test('what may not be made or deleted: of each kind that makes it', async (t) => {
  const cron = object('batch/CronJob', 'report', { spec: {}, status: {} })
  const quota =
    'Error creating job: jobs.batch "report-1" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0'
  const refused = [event(cron, 'FailedCreate', quota)]
  const counts = { 'count/jobs.batch': '0' }
  const full = object('ResourceQuota', 'jobs', { status: { hard: counts, used: counts } })
  const zero = { persistentvolumeclaims: '0' }
  const noClaims = object('ResourceQuota', 'claims', { status: { hard: zero, used: zero } })
  const run = ownedBy(
    cron,
    object(
      'batch/Job',
      'report-2',
      { status: { conditions: [condition('Complete', 'True', 10)] } },
      { creationTimestamp: ago(20) },
    ),
  )
  const hook =
    'Internal error occurred: failed calling webhook "protect.example.com": failed to call webhook: Post "https://protector.n.svc:443/": service "protector" not found'
  const set = object('apps/StatefulSet', 'db', { spec: { replicas: 1 }, status: { replicas: 2, readyReplicas: 2 } })
  const replicaSet = (replicas: number) =>
    object('apps/ReplicaSet', 'web', {
      spec: { replicas },
      status: {
        replicas: 3,
        readyReplicas: 3,
        availableReplicas: 3,
        conditions: [condition('ReplicaFailure', 'True', 300, 'FailedDelete', `Error deleting: ${hook}`)],
      },
    })
  const configuration = webhooks({ operations: ['DELETE'], apiGroups: [''], resources: ['pods'] })
  judgeAll(t, [
    [
      'a CronJob by a quota',
      [cron, full],
      'Degraded QuotaExceeded',
      /^exceeded quota: jobs, requested: count\/jobs\.batch=1/,
      refused,
    ],
    ['that has run since', [cron, run], 'Healthy', /^$/, refused],
    ['events hidden', [cron], 'Healthy', /^$/, refused, ['Event']],
    [
      'a StatefulSet that may not delete',
      [set],
      'Degraded WebhookFailed',
      /^webhook protect\.example\.com: service "protector" not found$/,
      [event(set, 'FailedDelete', `Delete Pod db-1 in StatefulSet db failed error: ${hook}`)],
    ],
    [
      'a StatefulSet by a quota of claims: how it begins is cut',
      [object('apps/StatefulSet', 'db', { spec: { replicas: 1 }, status: { replicas: 0 } }), noClaims],
      'Degraded QuotaExceeded',
      /^exceeded quota: claims, requested: persistentvolumeclaims=1/,
      [
        event(
          set,
          'FailedCreate',
          'create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: claims, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=0, limited: persistentvolumeclaims=0',
        ),
      ],
    ],
    ['a ReplicaSet that may not', [replicaSet(1)], 'Degraded WebhookFailed', /^webhook protect/],
    [
      'by another error',
      [set],
      'Degraded FailedDelete',
      /^etcdserver: request timed out$/,
      [event(set, 'FailedDelete', 'Delete Pod db-1 in StatefulSet db failed error: etcdserver: request timed out')],
    ],
  ])
  t.match(judge([replicaSet(1), configuration]).cause, { kind: configurationKind, reason: 'WebhookServiceMissing' })
})

const configurationKind = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
const webhooks = (rule: object, more: object = {}) =>
  object(configurationKind, 'protect', {
    webhooks: [
      {
        name: 'protect.example.com',
        failurePolicy: 'Fail',
        clientConfig: { service: { namespace: 'n', name: 'protector' } },
        rules: [rule],
        ...more,
      },
    ],
  })

t.test('a Pod that a webhook keeps: its node is well', async (t) => {
  const stuck = pod({ phase: 'Running', metadata: { deletionTimestamp: ago(300), deletionGracePeriodSeconds: 30 } })
  const culprit = (...more: Objects) => judge([stuck, ...more]).cause?.kind
  const deletes = { operations: ['DELETE'], apiGroups: [''], resources: ['pods'] }
  t.equal(culprit(webhooks(deletes)), configurationKind)
  t.equal(culprit(webhooks({ operations: ['*'], apiGroups: ['*'], resources: ['*/*'] })), configurationKind)
  const service = object('Service', 'protector', { spec: { type: 'ClusterIP', selector: { app: 'protector' } } })
  const crashing = pod({
    name: 'protector-1',
    metadata: { labels: { app: 'protector' } },
    container: { restartCount: 5, ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 90, 80) },
  })
  t.match(judge([stuck, webhooks(deletes), service, crashing]).cause, {
    name: 'protector-1',
    reason: 'CrashLoopBackOff',
  })
  t.equal(culprit(webhooks(deletes), service), 'Service', 'it selects nothing')
  t.equal(
    culprit(webhooks(deletes, { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'n' } } })),
    configurationKind,
  )
  t.equal(
    culprit(webhooks(deletes, { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'other' } } })),
    'Pod',
  )
  const notIn = { matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['n'] }] }
  t.equal(culprit(webhooks(deletes, { namespaceSelector: notIn })), 'Pod')
  t.equal(culprit(webhooks(deletes, { objectSelector: { matchLabels: { a: 'b' } } })), 'Pod', 'nobody knows')
  t.equal(culprit(webhooks({ ...deletes, operations: ['CREATE'] })), 'Pod')
  t.equal(culprit(webhooks(deletes, { failurePolicy: 'Ignore' })), 'Pod')
})

t.test('deletions that wait for others: in the foreground, and of definitions', async (t) => {
  const ending = { deletionTimestamp: ago(900) }
  const foreground = { ...ending, finalizers: ['foregroundDeletion'] }
  const top = object('apps/Deployment', 'old', { spec: {} }, foreground)
  const set = ownedBy(top, object('apps/ReplicaSet', 'old-1', { spec: {} }, foreground))
  const kept = ownedBy(set, pod({ name: 'old-1-x', metadata: { ...ending, finalizers: ['example.com/drain'] } }))
  t.match(judge([top, set, kept]).cause, { kind: 'Pod', name: 'old-1-x', text: /example\.com\/drain/ })
  t.match(judge([top, set]).cause, { kind: 'apps/ReplicaSet', reason: 'DeletionBlocked' })
  const custom = object('example.com/Stack', 's', {}, foreground)
  const bucket = ownedBy(
    custom,
    object('example.com/Bucket', 'b', {}, { ...ending, finalizers: ['example.com/empty'] }),
  )
  t.match(judge([custom, bucket]).cause, { kind: 'example.com/Bucket' })

  const definition = (...conditions: object[]) =>
    object(
      'apiextensions.k8s.io/CustomResourceDefinition',
      'buckets.example.com',
      { spec: { group: 'example.com', names: { kind: 'Bucket' } }, status: { conditions } },
      { ...ending, finalizers: ['customresourcecleanup.apiextensions.k8s.io'] },
    )
  t.match(judge([definition(), bucket]).cause, { kind: 'example.com/Bucket', text: /example\.com\/empty/ })
  const failed = condition(
    'Terminating',
    'True',
    900,
    'InstanceDeletionFailed',
    'could not list instances: conversion webhook failed',
  )
  t.match(judge([definition(failed)]).cause, { reason: 'InstanceDeletionFailed', text: /conversion webhook failed/ })
  const waits = condition(
    'Terminating',
    'True',
    900,
    'InstanceDeletionInProgress',
    'CustomResource deletion is in progress',
  )
  t.match(judge([definition(waits), bucket]).cause, { kind: 'example.com/Bucket' })
})

t.test('Pods that fail for good and come again are a loop; what was evicted once is none', async (t) => {
  const set = (replicas: number) =>
    object('apps/ReplicaSet', 'cache', {
      spec: { replicas },
      status: { replicas, readyReplicas: replicas, availableReplicas: replicas, fullyLabeledReplicas: replicas },
    })
  const failed = (owner: KubernetesObject, seconds: readonly number[], reason = 'Evicted') =>
    seconds.map((one, i) =>
      ownedBy(
        owner,
        pod({
          name: `cache-${i}`,
          phase: 'Failed',
          status: { reason, message: 'Usage of EmptyDir volume "scratch" exceeds the limit "5Mi". ' },
          metadata: { creationTimestamp: ago(one) },
        }),
      ),
    )
  const up = (owner: KubernetesObject) => ownedBy(owner, well('cache-up'))
  const one = set(1)
  const ten = set(10)
  judgeAll(t, [
    [
      'each minute',
      [one, ...failed(one, [200, 140, 80]), up(one)],
      'Degraded Evicted',
      /^3 Pods one after the other, e\.g\. cache-2: Usage of EmptyDir volume "scratch"/,
    ],
    ['by the kubelet, at once', [one, ...failed(one, [9, 9, 8, 8], 'OutOfcpu')], 'Degraded OutOfcpu', /^4 Pods/],
    ['twice', [one, ...failed(one, [140, 80]), up(one)], 'Healthy', /^$/],
    ['long ago', [one, ...failed(one, [2000, 1900, 1800]), up(one)], 'Healthy', /^$/],
    ['ten at once, of ten', [ten, ...failed(ten, Array(10).fill(300)), up(ten)], 'Healthy', /^$/],
    ['one of ten, again and again', [ten, ...failed(ten, [200, 140, 80]), up(ten)], 'Degraded Evicted', /3 Pods/],
    ['Pods hidden', [one, ...failed(one, [200, 140, 80])], 'Healthy', /^$/, [], ['Pod']],
  ])
  const parent = deployment({}, { replicas: 1, updatedReplicas: 1, availableReplicas: 1 })
  const child = ownedBy(parent, one)
  t.equal(summary(judge([parent, child, ...failed(child, [200, 140, 80])])), 'Degraded Evicted')
})

t.test('containers: rules of their own, one beside that runs on, images of volumes', async (t) => {
  const rule = (operator: string, values: readonly number[], action = 'Restart') => ({
    action,
    exitCodes: { operator, values },
  })
  const crashed = (rules: readonly object[], restarts = 5) =>
    pod({
      spec: { restartPolicy: 'Never' },
      containerSpec: { restartPolicy: 'Never', restartPolicyRules: rules },
      container: { restartCount: restarts, state: ended(42, 'Error', 12, 10), lastState: ended(42, 'Error', 40, 38) },
    })
  const beside = (policy: string, code: number) =>
    pod({
      spec: { restartPolicy: policy },
      status: {
        containerStatuses: [
          { name: 'main', ready: false, restartCount: 0, state: ended(code, 'Completed', 90, 60) },
          { name: 'proxy', ready: true, started: true, restartCount: 0, state: running(90) },
        ],
      },
    })
  const image = 'reg.example.com/models/weights:1'
  const pulling = pod({
    phase: 'Pending',
    spec: { volumes: [{ name: 'w', image: { reference: image } }] },
    container: waiting(
      'ImagePullBackOff',
      `Back-off pulling image "${image}": ErrImagePull: failed to do request: dial tcp: connection refused`,
    ),
  })
  judgeAll(t, [
    ['restarts on 42', [crashed([rule('In', [42])])], 'Degraded CrashLoopBackOff', /exit code 42, 5 restarts/],
    ['on all but 0', [crashed([rule('NotIn', [0])])], 'Degraded CrashLoopBackOff', /exit code 42/],
    [
      'with all others',
      [crashed([rule('In', [42], 'RestartAllContainers')])],
      'Degraded CrashLoopBackOff',
      /exit code 42/,
    ],
    [
      'the main one has ended',
      [beside('Never', 0)],
      'Progressing RunsOn',
      /container main has ended \(exit code 0\), proxy runs on/,
    ],
    ['the main one has ended, OnFailure', [beside('OnFailure', 0)], 'Progressing RunsOn', /proxy runs on/],
    [
      'an image of a volume',
      [pulling],
      'Degraded RegistryUnavailable',
      /^container app: image reg\.example\.com\/models\/weights:1 \(of volume w\): /,
    ],
  ])
  t.not(judge([crashed([rule('In', [1])])]).cause?.reason, 'CrashLoopBackOff', 'a code that no rule names is the end')
  t.not(judge([beside('Always', 0)]).cause?.reason, 'RunsOn')
})

t.test('Pods that nobody schedules: gates, claims of devices, noise', async (t) => {
  const unscheduled = (reason: string, message: string, spec: object = {}) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: '', ...spec },
      status: { conditions: [condition('PodScheduled', 'False', 900, reason, message)] },
    })
  const gated = unscheduled('SchedulingGated', 'Scheduling is blocked due to non-empty scheduling gates', {
    schedulingGates: [{ name: 'example.com/quota' }, { name: 'example.com/b' }],
  })
  const none = object(
    'Pod',
    'pod',
    { spec: { containers: [{ name: 'app' }] }, status: { phase: 'Pending' } },
    { creationTimestamp: ago(900) },
  )
  const tail = '0/2 nodes are available: 2 Insufficient cpu.'
  judgeAll(t, [
    [
      'gates',
      [gated],
      'Progressing SchedulingGated',
      /^waits for scheduling gates: example\.com\/quota, example\.com\/b$/,
    ],
    [
      'a template that is missing',
      [none],
      'Degraded FailedResourceClaimCreation',
      /"big-gpu" not found/,
      [event(none, 'FailedResourceClaimCreation', 'PodResourceClaim gpu: resource claim template "big-gpu" not found')],
    ],
    ['nothing said', [none], 'Degraded NotScheduled', /no scheduler/],
    [
      'victims',
      [
        unscheduled(
          'Unschedulable',
          `${tail} no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.`,
        ),
      ],
      'Degraded Unschedulable',
      /^0\/2 nodes are available: 2 Insufficient cpu$/,
    ],
    [
      'both',
      [
        unscheduled(
          'Unschedulable',
          `${tail} preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.`,
        ),
      ],
      'Degraded Unschedulable',
      /Insufficient cpu$/,
    ],
  ])
})

t.test('nodes by known conditions alone', async (t) => {
  const node = (type: string, status: string) =>
    object('Node', 'node-1', {
      status: { conditions: [condition('Ready', 'True', 900), condition(type, status, 300, 'X', 'it says so')] },
    })
  for (const type of ['ReadonlyFilesystem', 'KernelDeadlock', 'CorruptDockerOverlay2']) {
    t.equal(summary(judge([node(type, 'True')])), `Degraded ${type}`)
    t.equal(summary(judge([node(type, 'False')])), 'Healthy')
  }
  t.equal(summary(judge([node('NetworkingReady', 'False')])), 'Degraded NetworkingReady')
  t.equal(summary(judge([node('VendorIsFine', 'True')])), 'Healthy', 'it may be good')
})

t.test('Ingresses: class, port, controller', async (t) => {
  const path = (port: object) => ({ http: { paths: [{ backend: { service: { name: 's', port } } }] } })
  const ingress = (spec: object, more: object = {}) =>
    object('networking.k8s.io/Ingress', 'i', { spec: { rules: [path({ number: 80 })], ...spec }, ...more })
  const service = object('Service', 's', { spec: { type: 'ClusterIP', ports: [{ name: 'http', port: 80 }] } })
  const className = (annotations: object = {}) =>
    object('networking.k8s.io/IngressClass', 'nginx', { spec: { controller: 'k8s.io/ingress-nginx' } }, { annotations })
  const isDefault = className({ 'ingressclass.kubernetes.io/is-default-class': 'true' })
  const legacy = object(
    'networking.k8s.io/Ingress',
    'i',
    { spec: {} },
    { annotations: { 'kubernetes.io/ingress.class': 'gce' } },
  )
  judgeAll(t, [
    [
      'no class, none is default',
      [ingress({}), service, className()],
      'Degraded IngressClassMissing',
      /names no class, and no class is the default/,
    ],
    ['no class, one is default', [ingress({}), service, isDefault], 'Progressing AddressPending', /^no address yet$/],
    ['no class at all', [ingress({}), service], 'Progressing AddressPending', /there is no ingress class/],
    ['by annotation', [legacy, className()], 'Progressing AddressPending', /^no address yet$/],
    [
      'it has an address',
      [ingress({}, { status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } } }), service, className()],
      'Healthy',
      /^$/,
    ],
    [
      'of a controller',
      [ingress({ ingressClassName: 'nginx' }), service, className()],
      'Progressing AddressPending',
      /controller k8s\.io\/ingress-nginx/,
    ],
    [
      'no such port',
      [ingress({ ingressClassName: 'nginx', rules: [path({ number: 8080 })] }), service, className()],
      'Degraded BackendPortMissing',
      /^service s has no port 8080$/,
    ],
    [
      'no port of that name',
      [ingress({ ingressClassName: 'nginx', rules: [path({ name: 'web' })] }), service, className()],
      'Degraded BackendPortMissing',
      /no port named "web"$/,
    ],
    [
      'a port by its name',
      [ingress({ ingressClassName: 'nginx', rules: [path({ name: 'http' })] }), service, className()],
      'Progressing AddressPending',
      /controller/,
    ],
    [
      'classes hidden',
      [ingress({}), service, className()],
      'Progressing AddressPending',
      /^no address yet$/,
      [],
      ['networking.k8s.io/IngressClass'],
    ],
  ])
})

t.test('Jobs of another controller, and without parallelism', async (t) => {
  const job = (spec: object, status: object = {}) => object('batch/Job', 'j', { spec, status })
  judgeAll(t, [
    [
      'managed',
      [job({ managedBy: 'kueue.x-k8s.io/multikueue' })],
      'Progressing WaitsForManager',
      /kueue\.x-k8s\.io\/multikueue/,
    ],
    [
      'taken up',
      [job({ managedBy: 'kueue.x-k8s.io/multikueue' }, { startTime: ago(5) })],
      'Progressing Running',
      /not finished/,
    ],
    [
      'its own controller',
      [job({ managedBy: 'kubernetes.io/job-controller' }, { startTime: ago(5) })],
      'Progressing Running',
      /not finished/,
    ],
    ['parallelism 0', [job({ parallelism: 0 })], 'Suspended Suspended', /parallelism is 0/],
  ])
})

t.test('a StatefulSet whose Pod of the revision before fails', async (t) => {
  const set = (more: object = {}) =>
    object(
      'apps/StatefulSet',
      'db',
      {
        spec: { replicas: 1, updateStrategy: { type: 'RollingUpdate' }, ...more },
        status: { observedGeneration: 2, replicas: 1, currentRevision: 'db-1', updateRevision: 'db-2' },
      },
      { generation: 2 },
    )
  const of = (owner: KubernetesObject, revision: string) =>
    ownedBy(
      owner,
      pod({
        name: 'db-0',
        metadata: { labels: { 'controller-revision-hash': revision } },
        container: { restartCount: 5, ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 60, 50) },
      }),
    )
  const case1 = set()
  t.match(judge([case1, of(case1, 'db-1')]).cause, {
    kind: 'apps/StatefulSet',
    reason: 'OldRevisionFails',
    text: /db-0 is of the revision before.*delete it$/,
  })
  t.match(judge([case1, of(case1, 'db-2')]).cause, { kind: 'Pod', reason: 'CrashLoopBackOff' }, 'the new one fails')
  const parallel = set({ podManagementPolicy: 'Parallel' })
  t.match(judge([parallel, of(parallel, 'db-1')]).cause, { kind: 'Pod' })
  const byHand = set({ updateStrategy: { type: 'OnDelete' } })
  t.match(judge([byHand, of(byHand, 'db-1')]).cause, { kind: 'Pod' })
})

t.test('budgets that share a Pod, or select nothing', async (t) => {
  const budget = (name: string, matchLabels: object) =>
    object('policy/PodDisruptionBudget', name, {
      spec: { selector: { matchLabels } },
      status: { disruptionsAllowed: 1, conditions: [condition('DisruptionAllowed', 'True', 900)] },
    })
  const workload = object('apps/Deployment', 'w', {
    spec: { replicas: 0, template: { metadata: { labels: { app: 'a' } } } },
  })
  judgeAll(t, [
    [
      'two of one Pod',
      [budget('one', { app: 'a' }), budget('two', { app: 'a' }), well()],
      'Degraded BudgetsOverlap',
      /^Pod pod is of PodDisruptionBudget two, too/,
    ],
    ['of others', [budget('one', { app: 'a' }), budget('two', { app: 'b' }), well()], 'Healthy', /^$/],
    [
      'one of all Pods',
      [budget('one', { app: 'a' }), budget('all', {}), well()],
      'Degraded BudgetsOverlap',
      /^Pod pod is of PodDisruptionBudget all, too/,
    ],
    ['the one of all', [budget('all', {}), budget('one', { app: 'a' }), well()], 'Degraded BudgetsOverlap', /one, too/],
    ['all of nothing', [budget('all', {})], 'Healthy', /^$/],
    [
      'a Pod that has ended',
      [budget('one', { app: 'a' }), budget('all', {}), pod({ phase: 'Succeeded' })],
      'Healthy',
      /^$/,
    ],
    ['of nothing', [budget('one', { app: 'b' }), well()], 'Degraded SelectsNothing', /^no Pod has app=b$/],
    ['of a workload at 0', [budget('one', { app: 'a' }), workload], 'Healthy', /^$/],
    ['Pods hidden', [budget('one', { app: 'b' }), well()], 'Healthy', /^$/, [], ['Pod']],
  ])
})

t.test('what no controller has observed', async (t) => {
  const untouched = (key: string, seconds: number, status: object = {}) =>
    object(key, 'x', { spec: { replicas: 2 }, status }, { generation: 1, creationTimestamp: ago(seconds) })
  for (const key of ['apps/Deployment', 'apps/StatefulSet', 'apps/DaemonSet', 'batch/Job']) {
    t.equal(summary(judge([untouched(key, 61)])), 'Degraded NotReconciled', key)
    t.equal(judge([untouched(key, 59)]).verdict, 'Progressing', key)
  }
  judgeAll(t, [
    [
      'it is asked for',
      [untouched('apps/Deployment', 61)],
      'Degraded NotReconciled',
      /does kube-controller-manager run\?$/,
    ],
    [
      'counts of nothing',
      [untouched('apps/StatefulSet', 61, { replicas: 0, availableReplicas: 0 })],
      'Degraded NotReconciled',
      /^no controller/,
    ],
    ['observed', [untouched('apps/DaemonSet', 900, { observedGeneration: 1 })], 'Healthy', /^$/],
    [
      'with Pods that are there',
      [untouched('apps/StatefulSet', 61), ownedBy(untouched('apps/StatefulSet', 61), well())],
      'Degraded NotReconciled',
      /^no controller/,
    ],
    [
      'changed just now',
      [deployment({}, { observedGeneration: 0 })],
      'Progressing RollingOut',
      /not yet|observed the change yet/,
    ],
  ])
})
