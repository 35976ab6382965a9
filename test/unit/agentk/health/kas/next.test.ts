import t from 'tap'
import { nextOf } from '../../../../../src/agentk/health/kas/next.ts'

const pod = { kind: 'Pod', namespace: 'shop', name: 'web-1', about: 'app' }

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
  [{ ...pod, reason: 'FailedMount', about: '' }, 'kubectl -n shop describe pod web-1'],
  [{ ...pod, reason: 'DeletionBlocked' }, 'kubectl -n shop get pod web-1 -o jsonpath={.metadata.finalizers}'],
  [
    { kind: 'example.com/Widget', namespace: '', name: 'w', about: '', reason: 'DeletionBlocked' },
    'kubectl get widget.example.com w -o jsonpath={.metadata.finalizers}',
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
    { kind: 'apps/ReplicaSet', namespace: 'shop', name: 'web', about: '', reason: 'AdmissionDenied' },
    'kubectl -n shop describe replicaset.apps web',
  ],
  [{ kind: 'Node', namespace: '', name: 'n1', about: 'n1', reason: 'NodeUnreachable' }, 'kubectl describe node n1'],
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

for (const [cause, next] of table) {
  t.test(`${cause.kind} ${cause.reason}`, async (t) => {
    t.equal(nextOf(cause), next)
    t.notMatch(next, /\b(?:delete|apply|edit|patch|scale|exec|rollout|cordon|drain)\b/, 'it only reads')
  })
}

t.test('of names that would be more than one word there is no command', async (t) => {
  t.equal(nextOf({ ...pod, name: 'web; rm', reason: 'CrashLoopBackOff' }), '')
  t.equal(nextOf({ ...pod, about: '$(x)', reason: 'CrashLoopBackOff' }), 'kubectl -n shop logs web-1 --previous')
  t.equal(nextOf({ ...pod, namespace: 'a b', reason: 'CrashLoopBackOff' }), '')
  t.equal(nextOf({ ...pod, name: 'x'.repeat(253), reason: 'CrashLoopBackOff' }), '', 'nor of one that is too long')
})
