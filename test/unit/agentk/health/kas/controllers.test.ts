import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { ago, condition, ended, event, judge, judgeAll, object, ownedBy, pod, running, summary, well } from './world.ts'

/** Conditions and events that controllers write on objects without Pods, or without a Pod that causes the failure. */

t.test('a Deployment may not make its next ReplicaSet: its controller observes no change before that', async (t) => {
  const made = (generation: number, text: string, status: object = {}) =>
    object(
      'apps/Deployment',
      'web',
      {
        spec: { replicas: 2 },
        status: {
          ...status,
          conditions: [
            condition(
              'Progressing',
              'False',
              600,
              'ReplicaSetCreateError',
              `Failed to create new replica set "web-5d": ${text}`,
            ),
          ],
        },
      },
      { generation, creationTimestamp: ago(600) },
    )
  const quota =
    'replicasets.apps "web-5d" is forbidden: exceeded quota: objs, requested: count/replicasets.apps=1, used: count/replicasets.apps=2, limited: count/replicasets.apps=2'
  const denied = 'admission webhook "validate.kyverno.svc-fail" denied the request: no latest'
  const running = { observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2 }
  const counts = { 'count/replicasets.apps': '2' }
  const full = object('ResourceQuota', 'objs', { status: { hard: counts, used: counts } })
  judgeAll(t, [
    [
      'a new one, by a quota',
      [made(1, quota), full],
      'Degraded QuotaExceeded',
      /^exceeded quota: objs, requested: count/,
    ],
    ['a change, by a webhook', [made(2, denied, running)], 'Degraded AdmissionDenied', /^admission webhook "validate/],
    [
      'by a webhook that does not answer',
      [
        made(
          2,
          'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: EOF',
          running,
        ),
      ],
      'Degraded WebhookFailed',
      /webhook v\.example\.com: EOF$/,
    ],
  ])
})

t.test('a PodDisruptionBudget that cannot be computed says why', async (t) => {
  const budget = (reason: string, message: string, seconds = 900) =>
    object('policy/PodDisruptionBudget', 'web', {
      spec: { maxUnavailable: 1, selector: { matchLabels: { app: 'a' } } },
      status: { conditions: [condition('DisruptionAllowed', 'False', seconds, reason, message)] },
    })
  const text = 'found no controllers for pod "pod"'
  judgeAll(t, [
    ['for want of a controller', [budget('SyncFailed', text), well()], 'Degraded SyncFailed', /^found no controllers/],
    ['for a moment', [budget('SyncFailed', text, 59), well()], 'Progressing SyncFailed', /^found no controllers/],
    ['it allows nothing', [budget('InsufficientPods', ''), well()], 'Healthy', /^$/],
  ])
})

t.test('what makes balancers says in events why there is no address', async (t) => {
  const service = object('Service', 'web', { spec: { type: 'LoadBalancer', ports: [{ port: 80 }] }, status: {} })
  const ingress = object('networking.k8s.io/Ingress', 'web', { spec: { ingressClassName: 'gce' }, status: {} })
  const ofClass = object('networking.k8s.io/IngressClass', 'gce', { spec: { controller: 'example.com/gce' } })
  const none = 'Failed to allocate IP for "n/web": no available IPs'
  const spec = 'Translation failed: invalid ingress spec: service "n/web" is type "ClusterIP"'
  judgeAll(t, [
    [
      'MetalLB',
      [service],
      'Degraded AllocationFailed',
      /no available IPs$/,
      [event(service, 'AllocationFailed', none)],
    ],
    [
      'no node that could answer',
      [service],
      'Degraded UnAvailableLoadBalancer',
      /^There are no available nodes/,
      [event(service, 'UnAvailableLoadBalancer', 'There are no available nodes for LoadBalancer')],
    ],
    [
      'an ingress',
      [ingress, ofClass],
      'Degraded Translate',
      /invalid ingress spec/,
      [event(ingress, 'Translate', spec)],
    ],
    ['without events', [service], 'Progressing LoadBalancerPending', /^no address yet$/],
  ])
})

t.test('a request to sign waits for who approves it, then for its signer', async (t) => {
  const request = (status: object) =>
    object('certificates.k8s.io/CertificateSigningRequest', 'csr', {
      spec: { signerName: 'kubernetes.io/kubelet-serving' },
      status,
    })
  const conditions = (type: string, seconds: number, reason = '', message = '') => ({
    conditions: [condition(type, 'True', seconds, reason, message)],
  })
  judgeAll(t, [
    ['nobody has', [request({})], 'Progressing Pending', /^nobody has approved it, for signer kubernetes\.io\/kubelet/],
    ['denied', [request(conditions('Denied', 60, 'Policy', 'no such name'))], 'Degraded Policy', /^no such name$/],
    ['failed', [request(conditions('Failed', 60, 'Usages', 'wrong usages'))], 'Degraded Usages', /^wrong usages$/],
    ['just approved', [request(conditions('Approved', 299))], 'Progressing NotSigned', /has not signed it$/],
    ['its signer is away', [request(conditions('Approved', 300))], 'Degraded NotSigned', /has not signed it$/],
    ['signed', [request({ certificate: 'x', ...conditions('Approved', 300) })], 'Healthy', /^$/],
  ])
})

t.test('a driver fails to attach a volume, or to detach it', async (t) => {
  const message = 'rpc error: code = NotFound desc = Instance "i-1" not found'
  const attachment = (error: string, metadata: object) =>
    object(
      'storage.k8s.io/VolumeAttachment',
      'csi-1',
      {
        spec: { attacher: 'ebs.csi.aws.com', nodeName: 'node-1', source: { persistentVolumeName: 'pv' } },
        status: { attached: error === 'detachError', [error]: { time: ago(30), message } },
      },
      metadata as Record<string, unknown>,
    )
  const ending = { deletionTimestamp: ago(900), finalizers: ['external-attacher/ebs-csi-aws-com'] }
  judgeAll(t, [
    ['attach', [attachment('attachError', {})], 'Degraded AttachFailed', /^volume pv, node node-1: rpc error/],
    ['at first', [attachment('attachError', { creationTimestamp: ago(60) })], 'Progressing AttachFailed', /^volume pv/],
    ['detach', [attachment('detachError', ending)], 'Degraded DetachFailed', /^volume pv, node node-1: rpc error/],
    ['it waits', [attachment('other', ending)], 'Degraded DeletionBlocked', /^waits for finalizers: external-attacher/],
    ['attached', [attachment('other', {})], 'Healthy', /^$/],
  ])
})

t.test('a CronJob that may not run twice at a time waits for its run', async (t) => {
  const cron = object('batch/CronJob', 'report', {
    spec: { concurrencyPolicy: 'Forbid' },
    status: { lastScheduleTime: ago(36_000), active: [{ name: 'report-1' }] },
  })
  const job = ownedBy(
    cron,
    object(
      'batch/Job',
      'report-1',
      { spec: { parallelism: 1 }, status: { active: 1, startTime: ago(36_000) } },
      { creationTimestamp: ago(36_000) },
    ),
  )
  const skipped = (count: number, rest: object = {}) => [
    event(cron, 'JobAlreadyActive', 'Not starting job because prior execution is running', {
      type: 'Normal',
      count,
      ...rest,
    }),
  ]
  const { cause, verdict } = judge([cron, job], { events: skipped(120) })
  t.equal(verdict, 'Progressing')
  t.match(cause, {
    kind: 'batch/Job',
    name: 'report-1',
    reason: 'JobAlreadyActive',
    text: '120 starts were skipped: run report-1 is still active',
  })
  t.equal(summary(judge([cron, job], { events: skipped(120), without: ['Event'] })), 'Healthy')
  t.equal(summary(judge([cron, job], { events: skipped(1) })), 'Healthy', 'once is nothing')
  const before = skipped(120, { firstTimestamp: ago(40_000), lastTimestamp: ago(36_001) })
  t.equal(summary(judge([cron, job], { events: before })), 'Healthy', 'they were of a run before')
})

t.test('why a finalizer stays, as far as others and events say it', async (t) => {
  const ending = { deletionTimestamp: ago(900) }
  const claim = object(
    'PersistentVolumeClaim',
    'data',
    { spec: { volumeName: 'pv' }, status: { phase: 'Bound' } },
    { ...ending, finalizers: ['kubernetes.io/pvc-protection'] },
  )
  const volume = object(
    'PersistentVolume',
    'pv',
    { spec: { claimRef: { namespace: 'n', name: 'data' } }, status: { phase: 'Bound' } },
    { ...ending, finalizers: ['kubernetes.io/pv-protection'] },
  )
  const user = pod({ name: 'user', spec: { volumes: [{ name: 'd', persistentVolumeClaim: { claimName: 'data' } }] } })
  const gone = pod({ name: 'a', phase: 'Succeeded', spec: user.spec as Record<string, unknown> })
  const service = object(
    'Service',
    'web',
    { spec: { type: 'LoadBalancer' } },
    { ...ending, finalizers: ['service.kubernetes.io/load-balancer-cleanup'] },
  )
  const failed = (lastTimestamp: string) =>
    event(service, 'SyncLoadBalancerFailed', 'Error syncing load balancer: AccessDenied', {
      firstTimestamp: ago(3000),
      lastTimestamp,
    })
  const blocked = 'Degraded DeletionBlocked'
  judgeAll(t, [
    ['a Pod', [claim, gone, user], blocked, /^waits for finalizers: kubernetes\.io\/pvc-protection; Pod user uses it$/],
    ['hidden', [claim, user], blocked, /^waits for finalizers: kubernetes\.io\/pvc-protection$/, [], ['Pod']],
    ['a claim', [volume], blocked, /pv-protection; it is bound to claim n\/data$/],
    ['an event', [service], blocked, /cleanup; SyncLoadBalancerFailed: Error.*AccessDenied$/, [failed(ago(30))]],
    ['of before', [service], blocked, /cleanup$/, [failed(ago(901))]],
  ])
})

t.test('what a Gateway and a route name, and no controller misses', async (t) => {
  const kind = 'gateway.networking.k8s.io'
  const pending = { conditions: [condition('Accepted', 'Unknown', 900, 'Pending', 'Waiting for controller')] }
  const gateway = (status: object = pending) =>
    object(`${kind}/Gateway`, 'gw', { spec: { gatewayClassName: 'envoi' }, status })
  const ofClass = object(`${kind}/GatewayClass`, 'envoi', {}, { namespace: undefined })
  const route = (status: object = {}, parent: object = { name: 'gw' }) =>
    object(`${kind}/HTTPRoute`, 'r', { spec: { parentRefs: [parent] }, status })
  const answered = { parents: [{ conditions: [condition('Accepted', 'True', 900, 'Accepted')] }] }
  judgeAll(t, [
    ['no class', [gateway()], 'Degraded GatewayClassMissing', /^gateway class envoi does not exist$/],
    ['a class', [gateway(), ofClass], 'Healthy', /^$/],
    ['hidden', [gateway()], 'Healthy', /^$/, [], [`${kind}/GatewayClass`]],
    ['accepted', [gateway({ conditions: [condition('Accepted', 'True', 900)] })], 'Healthy', /^$/],
    ['no Gateway', [route()], 'Degraded GatewayMissing', /^gateway n\/gw does not exist$/],
    ['elsewhere', [route({}, { name: 'gw', namespace: 'm' }), gateway()], 'Degraded GatewayMissing', /^gateway m\/gw/],
    ['a Gateway', [route(), gateway()], 'Healthy', /^$/],
    ['a mesh', [route({}, { group: '', kind: 'Service', name: 'web' })], 'Healthy', /^$/],
    ['answered', [route(answered)], 'Healthy', /^$/],
  ])
})

t.test('a custom resource says by one word that it has failed', async (t) => {
  const backup = (status: object, key = 'example.com/Backup') => object(key, 'b', { status })
  judgeAll(t, [
    ['its phase', [backup({ phase: 'Failed', message: 'bucket not found' })], 'Degraded Failed', /^bucket not found$/],
    ['its state', [backup({ state: 'error' })], 'Degraded error', /^it is error$/],
    ['ready all the same', [backup({ phase: 'Failed', conditions: [condition('Ready', 'True', 9)] })], 'Healthy', /^$/],
    ['another word', [backup({ phase: 'Completed' })], 'Healthy', /^$/],
    ["Kubernetes' own", [backup({ phase: 'Failed' }, 'networking.k8s.io/Thing')], 'Healthy', /^$/],
  ])
  const flow = object('flowcontrol.apiserver.k8s.io/FlowSchema', 'f', {
    status: { conditions: [condition('Dangling', 'True', 900, 'NotFound', 'no such priority level')] },
  })
  t.equal(summary(judge([flow])), 'Degraded NotFound')
})

t.test('a rule that has a text names it: the deepest is the cause', async (t) => {
  const certificate = object('cert-manager.io/Certificate', 'tls', {})
  const order = ownedBy(certificate, object('acme.cert-manager.io/Order', 'tls-1', { status: { state: 'pending' } }))
  const challenge = ownedBy(
    order,
    object('acme.cert-manager.io/Challenge', 'tls-1-2', { status: { state: 'pending', reason: 'wrong status 404' } }),
  )
  const texts: Readonly<Record<string, string>> = {
    Certificate: 'issuing',
    Order: 'is pending',
    Challenge: 'wrong 404',
  }
  const verdicts = ({ kind }: KubernetesObject) =>
    ({ argo: { status: 'Progressing', text: texts[kind as string] ?? '' } }) as const
  t.match(judge([certificate, order, challenge], { verdicts }).cause, {
    kind: 'acme.cert-manager.io/Challenge',
    reason: 'pending',
    text: 'wrong 404',
  })
})

t.test('the webhook that keeps the content of a namespace is why the namespace stays', async (t) => {
  const text =
    'Failed to delete all resource types, 1 remaining: Internal error occurred: failed calling webhook "protect.example.com": failed to call webhook: EOF'
  const failed = condition('NamespaceDeletionContentFailure', 'True', 900, 'ContentDeletionFailed', text)
  const namespace = object('Namespace', 'n', { status: { conditions: [failed] } }, { deletionTimestamp: ago(900) })
  const kind = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
  const configuration = object(kind, 'protect', { webhooks: [{ name: 'protect.example.com', failurePolicy: 'Fail' }] })
  t.match(judge([namespace, configuration]).cause, { kind, name: 'protect', reason: 'ContentDeletionFailed', text })
  t.match(judge([namespace, configuration], { without: [kind] }).cause, { kind: 'Namespace', text })
  t.match(judge([namespace]).cause, { kind: 'Namespace', text })
})

t.test('a Job says which of its indexes have failed', async (t) => {
  const job = (reason: string, message: string) =>
    object('batch/Job', 'j', {
      spec: { completions: 5 },
      status: { failedIndexes: '1,3', conditions: [condition('Failed', 'True', 90, reason, message)] },
    })
  judgeAll(t, [
    [
      'some',
      [job('FailedIndexes', 'Job has failed indexes')],
      'Degraded FailedIndexes',
      /^Job has failed indexes: 1,3$/,
    ],
    ['too many', [job('MaxFailedIndexesExceeded', 'too many')], 'Degraded MaxFailedIndexesExceeded', /^too many: 1,3$/],
    ['by another reason', [job('PodFailurePolicy', 'exit code 42')], 'Degraded PodFailurePolicy', /^exit code 42$/],
  ])
})

t.test('a volume that is reserved for another claim, and a provisioner that makes none', async (t) => {
  const claim = (spec: object, metadata: object = {}) =>
    object(
      'PersistentVolumeClaim',
      'data',
      { spec, status: { phase: 'Pending' } },
      { creationTimestamp: ago(900), ...metadata },
    )
  const volume = (name: string) =>
    object('PersistentVolume', 'pv', { spec: { claimRef: { namespace: 'n', name } }, status: { phase: 'Available' } })
  const provisioner = { annotations: { 'volume.kubernetes.io/storage-provisioner': 'ebs.csi.aws.com' } }
  const made = claim({ storageClassName: 'fast' }, provisioner)
  const ofClass = (mode: string) => object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode: mode })
  judgeAll(t, [
    ['for another', [claim({ volumeName: 'pv' }), volume('other')], 'Degraded FailedBinding', /of claim n\/other$/],
    ['for this one', [claim({ volumeName: 'pv' }), volume('data')], 'Progressing NotBound', /^waits for volume pv$/],
    ['at once', [made, ofClass('Immediate')], 'Degraded NotBound', /^waits for provisioner ebs\.csi\.aws\.com$/],
    ['for a Pod', [made, ofClass('WaitForFirstConsumer')], 'Suspended WaitForFirstConsumer', /^no Pod uses it yet$/],
    ['class hidden', [made], 'Progressing NotBound', /^waits for provisioner/, [], ['storage.k8s.io/StorageClass']],
  ])
})

t.test('a container of a Job has failed for good, and another one runs on', async (t) => {
  const job = object('batch/Job', 'j', { spec: { parallelism: 1 }, status: { active: 1, startTime: ago(900) } })
  const two = (exitCode: number, finished: number, restartPolicy = 'Never') => [
    job,
    ownedBy(
      job,
      pod({
        spec: { restartPolicy },
        status: {
          containerStatuses: [
            { name: 'app', restartCount: 0, ready: false, state: ended(exitCode, 'Error', 900, finished) },
            { name: 'proxy', restartCount: 0, ready: true, started: true, state: running(890) },
          ],
        },
      }),
    ),
  ]
  const text = /^container app has ended \(exit code 1\), proxy runs on: the Pod does not end$/
  judgeAll(t, [
    ['long ago', two(1, 120), 'Degraded NonZeroExit', text],
    ['just now', two(1, 119), 'Progressing NonZeroExit', text],
    ['well', two(0, 600), 'Progressing RunsOn', /\(exit code 0\), proxy runs on/],
  ])
})
