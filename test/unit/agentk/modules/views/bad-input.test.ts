import t, { type Test } from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { hasControls } from '../../../../../src/lib/printable.ts'
import type { ArgoWord, Query, Row } from '../../../../../src/proto/views-json.ts'
import { shownTree } from '../../../../support/views/situation-tree.ts'
import { ClusterStage, rulesOf } from '../../../../support/views/situation-view.ts'
import { user } from '../../../../support/views/view-stage.ts'
import {
  event as about,
  ago,
  condition,
  deployment,
  now,
  object,
  ownedBy,
  pod,
  running,
  waiting,
} from '../../health/kas/world.ts'

/** Hostile input in a cluster, and what a viewer sees of it (doc/reference/health.md "Bad input"). */

const webhookKey = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
const many = 10_000

async function start(t: Test, objects: readonly KubernetesObject[], events: readonly KubernetesObject[] = []) {
  const stage = new ClusterStage(now, await rulesOf([]))
  t.teardown(() => stage.close())
  for (const one of objects) stage.put(one)
  stage.mayNotList('ann', [])
  for (const [i, one] of events.entries()) {
    stage.event({ ...one, metadata: { ...(one.metadata as object), uid: `event-${i}` } })
  }
  stage.listed()
  await stage.pass()
  return stage
}

/** A row; `v`: verdict of kas. */
type Judged = Row & { readonly v: ArgoWord | undefined }

/** Returns a viewer's rows of one kind, by name. */
async function rowsOf(stage: ClusterStage, kind: string): Promise<ReadonlyMap<string, Judged>> {
  const query: Query = { view: 'list', filter: { kinds: [kind] }, limit: 500 }
  const { client, view } = stage.open(user('ann'), query)
  for (let i = 0; i < 4; i++) await stage.pass(100)
  view.close()
  return judged(client.rows.values())
}

const judged = (rows: Iterable<Row>): ReadonlyMap<string, Judged> =>
  new Map([...rows].map((row) => [row.n, { ...row, v: row.h?.[2] }]))

async function rowOf(stage: ClusterStage, kind: string, name: string): Promise<Judged> {
  const row = (await rowsOf(stage, kind)).get(name)
  if (!row) throw new Error(`${kind}/${name} is not shown`)
  return row
}

t.test('events with texts of 100 KB', async (t) => {
  const one = pod({ container: waiting('ContainerCreating') })
  const text = `MountVolume.SetUp failed: ${'x'.repeat(100_000)}`
  const stage = await start(t, [one], [about(one, 'FailedMount', text)])
  const { z } = await rowOf(stage, 'Pod', 'pod')
  t.equal(z?.reason, 'FailedMount')
  t.match(z?.text, /^MountVolume\.SetUp failed: x+ … x+$/)
  t.ok((z?.text.length ?? 0) <= 256)
})

t.test('hostile characters', async (t) => {
  const hostile = '\u001b[2J\u001b]0;owned\u0007\r\nroot\u202e\u2066\u009b1A\u2028\ud800'
  const one = pod({ container: waiting('CreateContainerConfigError', hostile) })
  const owner = object('apps/ReplicaSet', 'web', { spec: { replicas: 1 }, status: { replicas: 1 } })
  const stage = await start(t, [owner, ownedBy(owner, one)], [about(one, 'Failed', hostile)])
  const { z } = await rowOf(stage, 'Pod', 'pod')
  t.equal(z?.reason, 'CreateContainerConfigError')
  for (const columns of [80, Number.POSITIVE_INFINITY]) {
    const text = await shownTree(stage, [], { now, columns })
    t.match(text, /CreateContainerConfigError: container app: \?\[2J/)
    t.notOk(hasControls(text.replaceAll('\n', '')), 'nothing of it steers a terminal')
  }
})

t.test('times in the future and of 1970', async (t) => {
  const future = pod({ name: 'future', ready: ['False', -86_400], container: waiting('CreateContainerError') })
  const old = object('Node', 'old', {
    status: { conditions: [{ ...condition('Ready', 'Unknown', 0), lastTransitionTime: '1970-01-01T00:00:00Z' }] },
  })
  const creating = pod({ name: 'creating', ready: ['False', 5], container: waiting('ContainerCreating') })
  const times = (time: string) => ({ firstTimestamp: time, lastTimestamp: time })
  const stage = await start(
    t,
    [future, old, creating],
    [
      about(creating, 'FailedMount', 'of 1970', times('1970-01-01T00:00:00Z')),
      about(creating, 'FailedCreatePodSandBox', 'of tomorrow', times(ago(-86_400))),
    ],
  )
  const pods = await rowsOf(stage, 'Pod')
  t.match(pods.get('future'), { v: 'Progressing', z: { since: now, atLeast: undefined } }, 'to come: now')
  t.match(await rowOf(stage, 'Node', 'old'), { v: 'Degraded', z: { since: now, atLeast: true } }, '1970: seen first')
  const { z } = pods.get('creating') as Row
  t.match(z, { reason: 'FailedCreatePodSandBox', text: 'of tomorrow' })
  t.ok((z?.since ?? 0) <= now && (z?.last ?? 0) <= now)
  stage.clock.advance(61 * 60_000)
  await stage.pass(100)
  t.not((await rowsOf(stage, 'Pod')).get('creating')?.z?.reason, 'FailedCreatePodSandBox', 'it counts for an hour, too')
})

/** Returns a Deployment of `count` Pods, none of which is well. */
function failing(count: number, one: (i: number) => KubernetesObject): readonly KubernetesObject[] {
  const above = deployment({ replicas: count }, { replicas: count, unavailableReplicas: count })
  const set = ownedBy(above, object('apps/ReplicaSet', 'web-1', { spec: { replicas: count }, status: {} }))
  return [above, set, ...Array.from({ length: count }, (_, i) => ownedBy(set, one(i)))]
}

t.test('10,000 Pods failing by the same cause', { timeout: 120_000 }, async (t) => {
  const same = (i: number) => pod({ name: `p${i}`, container: waiting('InvalidImageName', 'invalid reference format') })
  const stage = await start(t, failing(many, same))
  const { v, z } = await rowOf(stage, 'apps/Deployment', 'web')
  t.equal(v, 'Degraded')
  t.match(z, { kind: 'Pod', reason: 'InvalidImageName', count: 256, others: undefined })
})

t.test('10,000 Pods failing by different causes', { timeout: 120_000 }, async (t) => {
  const other = (i: number) => pod({ name: `p${i}`, phase: 'Failed', status: { reason: `Reason${i}`, message: 'x' } })
  const own = (i: number) =>
    object('example.com/Thing', `t${i}`, {
      status: { conditions: [condition('Failed', 'True', 600, `Reason${i}`, 'x')] },
    })
  const owner = object('example.com/Owner', 'o')
  const stage = await start(t, [
    ...failing(many, other),
    owner,
    ...Array.from({ length: many }, (_, i) => ownedBy(owner, own(i))),
  ])
  const { v, z } = await rowOf(stage, 'example.com/Owner', 'o')
  t.equal(v, 'Degraded')
  t.match(z, { kind: 'example.com/Thing', count: undefined, others: 255 })
  t.match(z?.reason, /^Reason\d+$/)
})

t.test('cycles of relations', async (t) => {
  const [a, b] = [object('example.com/Thing', 'a'), object('example.com/Thing', 'b')]
  const round = [ownedBy(b, a), ownedBy(a, b), ownedBy(a, pod({ container: waiting('InvalidImageName') }))]
  // a webhook that blocks the very Pods that serve it
  const policy = object('apps/ReplicaSet', 'policy', {
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: 'policy' } },
      template: { metadata: { labels: { app: 'policy' } } },
    },
    status: {
      replicas: 0,
      conditions: [
        condition(
          'ReplicaFailure',
          'True',
          600,
          'FailedCreate',
          'failed calling webhook "v": no endpoints available for service "policy"',
        ),
      ],
    },
  })
  const service = object('Service', 'policy', { spec: { selector: { app: 'policy' } } })
  const webhook = object(webhookKey, 'policy', {
    webhooks: [{ name: 'v', failurePolicy: 'Fail', clientConfig: { service: { namespace: 'n', name: 'policy' } } }],
  })
  const target = { apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler', name: 'h' }
  const scaler = object('autoscaling/HorizontalPodAutoscaler', 'h', {
    spec: { scaleTargetRef: target },
    status: { conditions: [condition('ScalingActive', 'False', 900, 'InvalidSelector', 'x')] },
  })
  const stage = await start(t, [...round, policy, service, webhook, scaler])
  const things = await rowsOf(stage, 'example.com/Thing')
  for (const name of ['a', 'b']) t.match(things.get(name), { v: 'Degraded', z: { reason: 'InvalidImageName' } })
  t.match(await rowOf(stage, 'apps/ReplicaSet', 'policy'), { v: 'Degraded', z: { kind: /Service|Webhook/ } })
  t.match(await rowOf(stage, 'autoscaling/HorizontalPodAutoscaler', 'h'), { z: { reason: 'InvalidSelector' } })
})

t.test('an HPA whose metric names a group that does not exist', async (t) => {
  const text = 'unable to get external metric n/queue: no custom metrics API (nowhere.example.com) registered'
  const scaler = (name: string, reason: string, metric: object) =>
    object('autoscaling/HorizontalPodAutoscaler', name, {
      spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }, metrics: [metric] },
      status: { conditions: [condition('ScalingActive', 'False', 900, reason, text)] },
    })
  const stage = await start(t, [
    scaler('external', 'FailedGetExternalMetric', { type: 'External' }),
    scaler('odd', 'FailedGetConstructorMetric', { type: 'constructor' }),
    scaler('summed', 'FailedComputeMetricsReplicas', { type: '__proto__' }),
  ])
  const rows = await rowsOf(stage, 'autoscaling/HorizontalPodAutoscaler')
  for (const [name, row] of rows) {
    t.match(row, {
      v: 'Degraded',
      z: { kind: 'autoscaling/HorizontalPodAutoscaler', name, text, since: now - 900_000 },
    })
  }
  t.equal(rows.size, 3)
})

t.test('a Service that selects everything', async (t) => {
  const up = (i: number) =>
    pod({ name: `p${i}`, ready: ['True', 900], container: { ready: true, started: true, state: running(900) } })
  const all = object('Service', 'all', { spec: { selector: { app: 'a' } } })
  const none = object('Service', 'none', { spec: { selector: {} } })
  const budget = object('policy/PodDisruptionBudget', 'every', {
    spec: { selector: {} },
    status: { conditions: [condition('DisruptionAllowed', 'False', 9, 'InsufficientPods')] },
  })
  const stage = await start(t, [all, none, budget, ...Array.from({ length: 3000 }, (_, i) => up(i))])
  const { client, view } = stage.open(user('ann'), {
    view: 'list',
    filter: { kinds: ['Service', 'policy/PodDisruptionBudget'] },
  })
  await stage.pass(100)
  for (const [u, { k }] of client.rows) if (k !== 'Pod') view.page(u, 10)
  for (let i = 0; i < 20; i++) await stage.pass(100)
  const rows = judged(client.rows.values())
  t.match(rows.get('all'), { v: 'Progressing', z: { reason: 'NoReadyEndpoints' } }, 'its slices are yet to come')
  t.equal(rows.get('none')?.z, undefined, 'its endpoints are somebody else\u2019s to make')
  t.equal(rows.get('all')?.l?.length, 50)
  t.equal(rows.get('every')?.l?.length, 50)
})

t.test('finalizers by the hundred', async (t) => {
  const finalizers = Array.from({ length: 500 }, (_, i) => `example.com/${i}`)
  const held = object('ConfigMap', 'held', {}, { deletionTimestamp: ago(900), finalizers })
  const stage = await start(t, [held])
  const { v, z } = await rowOf(stage, 'ConfigMap', 'held')
  t.equal(v, 'Degraded')
  t.equal(z?.reason, 'DeletionBlocked')
  t.equal(z?.text, `waits for finalizers: ${finalizers.slice(0, 10).join(', ')}, …`)
})

t.test('conditions with unknown words', async (t) => {
  const thing = (name: string, ...conditions: readonly object[]) =>
    object('example.com/Thing', name, { status: { conditions } })
  const stage = await start(t, [
    thing('word', condition('Ready', 'Perhaps', 9000, 'Soon', 'nobody knows')),
    thing('type', condition('Wobbly', 'True', 9000, 'Soon', 'nobody knows')),
    thing('shout', condition('READY', 'FALSE', 9000)),
    thing('empty', {}, { type: 7, status: ['False'] }),
    object('Node', 'node', { status: { conditions: [condition('Ready', 'Mostly', 9000, 'Soon', 'nobody knows')] } }),
  ])
  const rows = await rowsOf(stage, 'example.com/Thing')
  t.match(rows.get('word'), { v: 'Progressing', z: { reason: 'Soon', text: 'nobody knows' } }, 'never worse')
  for (const name of ['type', 'shout', 'empty']) t.notOk(rows.get(name)?.z, name)
  t.not((await rowOf(stage, 'Node', 'node')).v, 'Healthy')
})

t.test('a status that is a list', async (t) => {
  const young = { creationTimestamp: ago(5) }
  const kinds = ['Pod', 'Node', 'Service', 'apps/Deployment', 'batch/Job', 'PersistentVolumeClaim', 'example.com/Thing']
  const stage = await start(
    t,
    kinds.flatMap((kind) => [
      object(kind, 'list', { spec: [], status: ['Degraded', { conditions: [] }] }, young),
      object(
        kind,
        'lists',
        {
          spec: [[]],
          status: { conditions: [[condition('Failed', 'True', 900)]], phase: ['Failed'] },
        },
        young,
      ),
    ]),
  )
  for (const kind of kinds) {
    const rows = await rowsOf(stage, kind)
    t.strictSame([...rows.keys()].sort(), ['list', 'lists'], kind)
    for (const [name, { v }] of rows) t.not(v, 'Degraded', `${kind}/${name}`)
  }
})
