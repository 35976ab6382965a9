import t from 'tap'
import { isUndoable, nextOf } from '../../../../../src/agentk/health/kas/next.ts'
import { readUpdate } from '../../../../../src/kas/modules/views/cli/received.ts'

const pod = { kind: 'Pod', namespace: 'shop', name: 'web-1', about: 'app' }

const route = { namespace: 'shop', name: 'r', about: '' }
const autoscaler = { kind: 'autoscaling/HorizontalPodAutoscaler', namespace: 'shop', name: 'web' }
const table: readonly (readonly [cause: Parameters<typeof nextOf>[0], next: string])[] = [
  [{ ...pod, reason: 'CrashLoopBackOff' }, 'kubectl -n shop logs web-1 -c app --previous'],
  [{ ...pod, reason: 'OOMKilled' }, 'kubectl -n shop logs web-1 -c app --previous'],
  [{ ...pod, reason: 'LivenessProbeFailed' }, 'kubectl -n shop logs web-1 -c app --previous'],
  [{ ...pod, reason: 'ReadinessProbeFailed' }, 'kubectl -n shop logs web-1 -c app --since=5m'],
  [{ ...pod, reason: 'NonZeroExit' }, 'kubectl -n shop logs web-1 -c app'],
  [{ ...pod, reason: 'Evicted', about: '' }, 'kubectl -n shop describe pod web-1'],
  [{ ...pod, reason: 'StartError' }, 'kubectl -n shop describe pod web-1'],
  [{ ...pod, reason: 'ImageNotFound' }, 'kubectl -n shop describe pod web-1'],
  [{ ...pod, reason: 'Unschedulable', about: '' }, 'kubectl -n shop describe pod web-1'],
  [
    { ...pod, reason: 'Unschedulable', about: '', text: '0/1 nodes are available: 1 node(s) had untolerated taint(s)' },
    'kubectl describe nodes',
  ],
  [
    { ...pod, reason: 'Unschedulable', about: '', text: '1 node(s) had untolerated taint {dedicated: batch}' },
    'kubectl -n shop describe pod web-1',
  ],
  [{ ...pod, reason: 'NodeMissing', about: '', text: 'node node-99 does not exist' }, 'kubectl get nodes'],
  [
    { ...pod, reason: 'Starting', text: 'container app has started, and is not ready yet: Startup probe failed: 503' },
    'kubectl -n shop logs web-1 -c app',
  ],
  [
    { ...pod, reason: 'StartupProbeFailed', text: 'container app has started: Startup probe errored: no such port' },
    'kubectl -n shop describe pod web-1',
  ],
  [{ ...pod, reason: 'FailedMount', about: '' }, 'kubectl -n shop describe pod web-1'],
  [
    {
      ...pod,
      reason: 'FailedMount',
      about: '',
      text: 'MountVolume.SetUp failed for volume "s" : secret "sink" not found',
    },
    'kubectl -n shop get secret sink',
  ],
  [
    { ...pod, reason: 'CreateContainerConfigError', text: 'container app: configmap "settings" not found' },
    'kubectl -n shop get configmap settings',
  ],
  [
    {
      ...pod,
      reason: 'CreateContainerConfigError',
      text: "container app: couldn't find key password in Secret shop/db",
    },
    'kubectl -n shop describe secret db',
  ],
  [
    { ...pod, reason: 'CreateContainerConfigError', text: 'container app: secret "$(id)" not found' },
    'kubectl -n shop describe pod web-1',
  ],
  [
    { ...pod, reason: 'CreateContainerConfigError', text: 'container has runAsNonRoot and image will run as root' },
    'kubectl -n shop describe pod web-1',
  ],
  [
    { ...pod, reason: 'ImagePullDenied', text: 'container app: image x: denied; pull secret reg cannot be read' },
    'kubectl -n shop get secret reg',
  ],
  [
    { ...pod, reason: 'ImageNotFound', text: 'container app: image x: not found; pull secret reg cannot be read' },
    'kubectl -n shop get secret reg',
  ],
  [{ ...pod, reason: 'Starting', text: 'init container app has not ended' }, 'kubectl -n shop logs web-1 -c app'],
  [{ ...pod, reason: 'Starting', text: 'container app has started' }, 'kubectl -n shop describe pod web-1'],
  [{ ...pod, reason: 'ImagePullDenied' }, 'kubectl -n shop get pod web-1 -o jsonpath={.spec.imagePullSecrets}'],
  [
    { ...pod, reason: 'DeletionBlocked', text: 'waits for finalizers: example.com/x' },
    'kubectl -n shop get pod web-1 -o jsonpath={.metadata.managedFields[*].manager}',
  ],
  [
    { kind: 'example.com/Widget', namespace: '', name: 'w', about: '', reason: 'DeletionBlocked' },
    'kubectl get widget.example.com w -o jsonpath={.metadata.managedFields[*].manager}',
  ],
  [
    {
      kind: 'PersistentVolumeClaim',
      namespace: 'shop',
      name: 'c',
      about: '',
      reason: 'DeletionBlocked',
      text: 'waits for finalizers: kubernetes.io/pvc-protection',
    },
    'kubectl -n shop describe persistentvolumeclaim c',
  ],
  [
    {
      kind: 'apps/ReplicaSet',
      namespace: 'shop',
      name: 'web',
      about: '',
      reason: 'ServiceAccountMissing',
      text: 'error looking up service account shop/payments: serviceaccount "payments" not found',
    },
    'kubectl -n shop get serviceaccount payments',
  ],
  [
    { kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'c', about: '', reason: 'StorageClassMissing' },
    'kubectl get storageclasses',
  ],
  [
    { kind: 'networking.k8s.io/Ingress', namespace: 'shop', name: 'i', about: '', reason: 'BackendMissing' },
    'kubectl -n shop get services',
  ],
  [
    { kind: 'Service', namespace: 'shop', name: 's', about: '', reason: 'SelectsNothing' },
    'kubectl -n shop get pods --show-labels',
  ],
  [
    {
      kind: 'apps/ReplicaSet',
      namespace: 'shop',
      name: 'web',
      about: '',
      reason: 'QuotaExceeded',
      text: 'pods "web-1" is forbidden: exceeded quota: compute, requested: pods=1',
    },
    'kubectl -n shop describe resourcequota compute',
  ],
  [
    { kind: 'apps/ReplicaSet', namespace: 'shop', name: 'web', about: '', reason: 'QuotaExceeded', text: 'no' },
    'kubectl -n shop describe resourcequota',
  ],
  [
    {
      kind: 'apps/ReplicaSet',
      namespace: 'shop',
      name: 'web',
      about: '',
      reason: 'QuotaExceeded',
      text: 'exceeded quota: --all-namespaces, requested',
    },
    'kubectl -n shop describe resourcequota',
  ],
  [
    {
      kind: 'apps/ReplicaSet',
      namespace: 'shop',
      name: 'web',
      about: '',
      reason: 'LimitsMissing',
      text: 'pods "web-1" is forbidden: failed quota: team-orders: must specify limits.memory for: api',
    },
    'kubectl -n shop describe replicaset.apps web',
  ],
  [
    {
      kind: 'cert-manager.io/CertificateRequest',
      namespace: 'shop',
      name: 'tls-1',
      about: '',
      reason: 'Pending',
      text: 'Referenced "ClusterIssuer" not found: clusterissuer.cert-manager.io "letsencrypt-prd" not found',
    },
    'kubectl -n shop get clusterissuer.cert-manager.io',
  ],
  [
    { kind: 'example.com/Widget', namespace: 'shop', name: 'w', about: '', reason: 'Failed', text: 'a "b" not found' },
    'kubectl -n shop describe widget.example.com w',
  ],
  [
    { ...autoscaler, reason: 'FailedGetExternalMetric', about: 'external.metrics.k8s.io', text: 'no such metric' },
    'kubectl get --raw /apis/external.metrics.k8s.io/v1beta1',
  ],
  [
    {
      ...autoscaler,
      reason: 'FailedGetResourceMetric',
      about: 'metrics.k8s.io',
      text: 'nothing serves metrics.k8s.io, as metrics-server does: no',
    },
    'kubectl get apiservices',
  ],
  [
    { ...autoscaler, reason: 'FailedGetResourceMetric', about: 'metrics.k8s.io', text: 'no metrics returned' },
    'kubectl -n shop top pods',
  ],
  [
    {
      ...autoscaler,
      reason: 'FailedGetResourceMetric',
      about: 'metrics.k8s.io',
      text: 'failed to get cpu utilization: missing request for cpu in container app of Pod web-1',
    },
    'kubectl -n shop describe pod web-1',
  ],
  [
    { ...autoscaler, reason: 'FailedGetScale', about: '', text: 'deployments.apps "wbe" not found' },
    'kubectl -n shop get deployments.apps',
  ],
  [
    { ...autoscaler, reason: 'FailedComputeMetricsReplicas', about: '', text: 'invalid metrics' },
    'kubectl -n shop describe horizontalpodautoscaler.autoscaling web',
  ],
  [
    { kind: 'apps/ReplicaSet', namespace: 'shop', name: 'web', about: 'w.example.com', reason: 'WebhookFailed' },
    'kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations',
  ],
  [
    { kind: 'Service', namespace: 'shop', name: 's', about: '', reason: 'PortMissing' },
    'kubectl -n shop describe service s',
  ],
  [
    { kind: 'apps/ReplicaSet', namespace: 'shop', name: 'web', about: '', reason: 'AdmissionDenied' },
    'kubectl -n shop describe replicaset.apps web',
  ],
  [{ kind: 'Node', namespace: '', name: 'n1', about: 'n1', reason: 'NodeUnreachable' }, 'kubectl describe node n1'],
  [
    { ...route, kind: 'gateway.networking.k8s.io/Gateway', reason: 'GatewayClassMissing' },
    'kubectl get gatewayclasses',
  ],
  [{ ...route, kind: 'gateway.networking.k8s.io/HTTPRoute', reason: 'GatewayMissing' }, 'kubectl -n shop get gateways'],
  [
    {
      ...route,
      kind: 'gateway.networking.k8s.io/HTTPRoute',
      reason: 'GatewayMissing',
      text: 'gateway infra/gw does not exist',
    },
    'kubectl -n infra get gateways',
  ],
  [
    {
      kind: 'PersistentVolumeClaim',
      namespace: 'shop',
      name: 'c',
      about: '',
      reason: 'DeletionBlocked',
      text: 'waits for finalizers: kubernetes.io/pvc-protection; Pod user uses it',
    },
    'kubectl -n shop describe persistentvolumeclaim c',
  ],
  [
    {
      kind: 'apiregistration.k8s.io/APIService',
      namespace: '',
      name: 'v1beta1.metrics.k8s.io',
      about: '',
      reason: 'ServiceNotFound',
    },
    'kubectl describe apiservice.apiregistration.k8s.io v1beta1.metrics.k8s.io',
  ],
  [
    {
      kind: 'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
      namespace: '',
      name: 'policy',
      about: 'policy.example.com',
      reason: 'WebhookServiceMissing',
    },
    'kubectl describe validatingwebhookconfiguration.admissionregistration.k8s.io policy',
  ],
  [
    { kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'c', about: '', reason: 'NotBound' },
    'kubectl -n shop describe persistentvolumeclaim c',
  ],
]

function updateWith(next: string): string {
  const z = { kind: 'Pod', namespace: '', name: 'p', id: '', reason: 'r', text: 't', next }
  return JSON.stringify({ seq: 1, at: 1, rows: [{ u: 'a', k: 'Pod', n: 'p', z }] })
}

for (const [cause, next] of table) {
  t.test(`${cause.kind} ${cause.reason}`, async (t) => {
    t.equal(nextOf(cause), next)
    t.equal(readUpdate(updateWith(next)).rows?.[0]?.z?.next, next, 'the commands take it for one that reads')
    t.notMatch(next, /\b(?:delete|apply|edit|patch|scale|exec|rollout|cordon|drain)\b/, 'it only reads')
  })
}

t.test('of names that would be more than one word there is no command', async (t) => {
  t.equal(nextOf({ ...pod, name: 'web; rm', reason: 'CrashLoopBackOff' }), '')
  t.equal(nextOf({ ...pod, about: '$(x)', reason: 'CrashLoopBackOff' }), 'kubectl -n shop logs web-1 --previous')
  t.equal(nextOf({ ...pod, namespace: 'a b', reason: 'CrashLoopBackOff' }), '')
  t.equal(nextOf({ ...pod, name: 'x'.repeat(253), reason: 'CrashLoopBackOff' }), '', 'nor of one that is too long')
})

t.test('a rollout that its own Pods hold up beside those of before may be undone', async (t) => {
  const status = { replicas: 4, updatedReplicas: 1, readyReplicas: 3, availableReplicas: 3 }
  const web = { apiVersion: 'apps/v1', kind: 'Deployment', spec: { replicas: 3 }, status }
  const cause = { kind: 'Pod', word: 'Degraded', reason: 'ImageNotFound' } as const
  t.ok(isUndoable(web, cause))
  t.ok(isUndoable(web, { ...cause, kind: 'apps/Deployment', reason: 'ProgressDeadlineExceeded' }))
  t.ok(isUndoable(web, { ...cause, kind: 'apps/ReplicaSet', reason: 'LimitsMissing' }), 'so does its template')
  t.notOk(isUndoable(web, { ...cause, kind: 'apps/ReplicaSet', reason: 'QuotaExceeded' }), 'that is not its own')
  t.notOk(isUndoable(web, { ...cause, word: 'Progressing' }), 'it may still get there')
  const unready = { ...cause, word: 'Progressing', reason: 'ReadinessProbeFailed' } as const
  t.ok(isUndoable(web, unready), 'nobody knows for how long')
  t.notOk(isUndoable(web, { ...cause, kind: 'Node', reason: 'NodeUnreachable' }), 'that mends no node')
  t.notOk(isUndoable(web, { ...cause, reason: 'RegistryUnavailable' }))
  t.notOk(isUndoable({ ...web, status: { ...status, updatedReplicas: 4 } }, cause), 'nothing is left of before')
  const daemons = { currentNumberScheduled: 3, updatedNumberScheduled: 1, desiredNumberScheduled: 3 }
  const old = 'what fails may be of the version before'
  t.notOk(isUndoable({ apiVersion: 'apps/v1', kind: 'DaemonSet', status: daemons }, cause), old)
  const revisions = { ...status, currentRevision: 'a', updateRevision: 'b' }
  t.notOk(isUndoable({ apiVersion: 'apps/v1', kind: 'StatefulSet', spec: {}, status: revisions }, cause), old)
  t.notOk(isUndoable({ apiVersion: 'batch/v1', kind: 'Job', status }, cause))
})
