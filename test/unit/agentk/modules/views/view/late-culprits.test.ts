import t from 'tap'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { ClusterStage } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'

/** Lists of other kinds can end after a failure is shown. They may explain it: kas then chooses the cause again. */

const now = Date.parse('2026-11-20T14:30:00Z')
const created = '2026-11-20T14:00:00Z'
const lastTransitionTime = '2026-11-20T14:22:00Z'
const webhookKind = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
const apiServiceKind = 'apiregistration.k8s.io/APIService'

const replicaSet: KubernetesObject = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { name: 'web-1', namespace: 'shop', uid: 'set', creationTimestamp: created },
  spec: { replicas: 2 },
  status: {
    conditions: [
      {
        type: 'ReplicaFailure',
        status: 'True',
        reason: 'FailedCreate',
        message: 'failed calling webhook "validate.example.com": service "policy" not found',
        lastTransitionTime,
      },
    ],
  },
}

const webhook: KubernetesObject = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'policy', uid: 'policy', creationTimestamp: created },
  webhooks: [{ name: 'validate.example.com', clientConfig: { service: { namespace: 'shop', name: 'policy' } } }],
}

const autoscaler: KubernetesObject = {
  apiVersion: 'autoscaling/v2',
  kind: 'HorizontalPodAutoscaler',
  metadata: { name: 'web', namespace: 'shop', uid: 'autoscaler', creationTimestamp: created },
  spec: { metrics: [{ type: 'Resource' }] },
  status: {
    conditions: [
      { type: 'ScalingActive', status: 'False', reason: 'FailedGetResourceMetric', message: 'no', lastTransitionTime },
    ],
  },
}

const apiService: KubernetesObject = {
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  metadata: { name: 'v1beta1.metrics.k8s.io', uid: 'metrics', creationTimestamp: created },
  spec: { service: { namespace: 'kube-system', name: 'metrics-server' } },
  status: {
    conditions: [
      { type: 'Available', status: 'False', reason: 'ServiceNotFound', message: 'not there', lastTransitionTime },
    ],
  },
}

for (const [failing, kind, culprit, reason] of [
  [replicaSet, webhookKind, webhook, 'WebhookServiceMissing'],
  [autoscaler, apiServiceKind, apiService, 'ServiceNotFound'],
] as const) {
  t.test(`${culprit.kind} that comes after what it explains`, async (t) => {
    const stage = new ClusterStage(now)
    t.teardown(() => stage.close())
    stage.kind(kind, false)
    stage.put(failing)
    stage.listed()
    stage.mayNotList('ann', [])
    const { client } = stage.open(user('ann'), {
      view: 'list',
      filter: { kinds: [`${groupOf(failing)}/${failing.kind}`] },
    })
    await stage.pass(100)
    const cause = () => [...client.rows.values()][0]?.z
    t.match(cause(), { name: (failing.metadata as { name: string }).name })
    stage.put(culprit)
    await stage.pass(100)
    t.match(cause(), { kind, reason })
    stage.deleted(culprit)
    await stage.pass(100)
    t.match(cause(), { name: (failing.metadata as { name: string }).name })
  })
}

function groupOf({ apiVersion }: KubernetesObject): string {
  return String(apiVersion).split('/')[0] as string
}
