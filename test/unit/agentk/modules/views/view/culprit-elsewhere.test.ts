import t, { type Test } from 'tap'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import type { Query, Row } from '../../../../../../src/proto/views-json.ts'
import type { Right } from '../../../../../support/views/review-double.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'
import { condition, deployment, now, object, ownedBy, pod, waiting } from '../../../health/kas/world.ts'

/** A view of one namespace whose objects fail because of another one. Callers who can list there see the cause. */

const webhookKey = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
const configurations: Right = ['admissionregistration.k8s.io/validatingwebhookconfigurations', '*']
const query: Query = { view: 'tree', scope: { namespaces: ['shop'] }, limit: 10 }

function inNamespace(namespace: string, one: KubernetesObject): KubernetesObject {
  return { ...one, metadata: { ...(one.metadata as object), namespace } }
}

const web = inNamespace('shop', deployment({ replicas: 1 }, { replicas: 0 }))
const refused = inNamespace(
  'shop',
  ownedBy(
    web,
    object('apps/ReplicaSet', 'web-1', {
      spec: { replicas: 1 },
      status: {
        replicas: 0,
        conditions: [
          condition('ReplicaFailure', 'True', 600, 'FailedCreate', 'failed calling webhook "v.example.com": EOF'),
        ],
      },
    }),
  ),
)
const webhook = object(webhookKey, 'policy', {
  webhooks: [{ name: 'v.example.com', clientConfig: { service: { namespace: 'ops', name: 'policy' } } }],
})
const service = inNamespace('ops', object('Service', 'policy', { spec: { selector: { app: 'a' } } }))
const slice = inNamespace(
  'ops',
  ownedBy(
    service,
    object(
      'discovery.k8s.io/EndpointSlice',
      'policy-1',
      {
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: false } }],
      },
      { labels: { 'kubernetes.io/service-name': 'policy' } },
    ),
  ),
)
const answers = inNamespace('ops', pod({ name: 'policy-1', container: waiting('InvalidImageName', 'bad name') }))

const namespaced: readonly string[] = [
  'apps/deployments',
  'apps/replicasets',
  '/pods',
  '/services',
  'discovery.k8s.io/endpointslices',
  '/events',
]
const within = (namespace: string) => namespaced.map((resource): Right => [resource, namespace])

async function rowFor(t: Test, rights: readonly Right[]): Promise<{ row: Row; stage: ClusterStage; read: () => Row }> {
  const stage = new ClusterStage(now, await rulesOf([]))
  t.teardown(() => stage.close())
  for (const one of [web, refused, webhook, service, slice, answers]) stage.put(one)
  stage.listed()
  await stage.pass()
  stage.api.rights.set('ann', rights)
  const { client } = stage.open(user('ann'), query)
  for (let i = 0; i < 15; i++) await stage.pass(100)
  const read = () => [...client.rows.values()].find(({ k }) => k === 'apps/Deployment') as Row
  return { row: read(), stage, read }
}

const culprit = ({ z }: Row) => [z?.kind, z?.namespace, z?.name, z?.reason]
/** cause by the API server's answer, which the object itself carries */
const asAnswered = ['apps/ReplicaSet', 'shop', 'web-1', 'WebhookFailed']
/** cause that names the webhook only; this caller sees no finding about it */
const asNamed = ['admissionregistration.k8s.io/ValidatingWebhookConfiguration', '', 'policy', 'WebhookFailed']
const podInOps = ['Pod', 'ops', 'policy-1', 'InvalidImageName']

t.test('who may list everything, or the kinds in the whole cluster', async (t) => {
  for (const rights of [[['*/*', '*'] as const], [configurations, ...namespaced.map((one): Right => [one, '*'])]]) {
    const { row } = await rowFor(t, rights)
    t.strictSame(culprit(row), podInOps)
    t.match(row.z?.next, / -n ops /, 'and it is read there')
  }
})

t.test('who may list them in both namespaces, though one alone is asked for', async (t) => {
  const { row, stage, read } = await rowFor(t, [configurations, ...within('shop'), ...within('ops')])
  t.strictSame(culprit(row), podInOps)
  stage.api.rights.set('ann', [configurations, ...within('shop')])
  for (let i = 0; i < 130; i++) await stage.pass(500)
  t.strictSame(culprit(read()), asNamed, 'no more once the right is gone')
})

t.test('who may list there the Service alone', async (t) => {
  const rights: Right[] = [configurations, ...within('shop'), ['/services', 'ops']]
  const { row } = await rowFor(t, rights)
  t.strictSame(culprit(row), asNamed, 'whether it has endpoints is not for him')
})

t.test('who may list nothing there', async (t) => {
  const { row, stage } = await rowFor(t, [configurations, ...within('shop')])
  t.strictSame(culprit(row), asNamed)
  t.notMatch(JSON.stringify(row), /policy-1|InvalidImageName/)
  const asked = stage.api.asked.filter(({ user }) => user === 'ann').map(({ review }) => JSON.stringify(review.spec))
  t.ok(
    asked.some((spec) => spec.includes('"ops"')),
    'it was asked',
  )
})

t.test('who may not list webhooks: nothing is asked of where they are served', async (t) => {
  const { row, stage } = await rowFor(t, [...within('shop'), ...within('ops')])
  t.strictSame(culprit(row), asAnswered)
  const asked = stage.api.asked.filter(({ user }) => user === 'ann').map(({ review }) => JSON.stringify(review.spec))
  t.notOk(asked.some((spec) => spec.includes('"ops"')))
})
