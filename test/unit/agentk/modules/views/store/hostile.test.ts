import t, { type Test } from 'tap'
import { KeptTexts } from '../../../../../../src/agentk/modules/views/store/kept-texts.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'

/** Hostile status, events and objects in one namespace: what kas says of them and of others, and to which users. */

const now = Date.parse('2026-11-20T10:00:00Z')
const minute = 60_000
const iso = (time: number) => new Date(time).toISOString()
const made = { creationTimestamp: iso(now - 50 * minute) }

const rules = await rulesOf([])

function start(t: Test): ClusterStage {
  const stage = new ClusterStage(now, rules)
  t.teardown(() => stage.close())
  stage.kind('apps/DaemonSet')
  stage.kind(webhooks, false)
  stage.listed()
  return stage
}

const webhooks = 'admissionregistration.k8s.io/ValidatingWebhookConfiguration'
const container = { name: 'app', image: 'app:1' }
const pod = (name: string, status: object, more: object = {}): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'shop', uid: name, ...made, ...more },
  spec: { nodeName: 'n', restartPolicy: 'Always', containers: [container] },
  status,
})
const ready = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }
const up = { ...ready, containerStatuses: [{ name: 'app', ready: true, restartCount: 0, state: { running: {} } }] }
const waiting = (reason: string, message: string, since = iso(now - 10 * minute)) => ({
  phase: 'Pending',
  startTime: since,
  conditions: [{ type: 'Ready', status: 'False', lastTransitionTime: since }],
  containerStatuses: [{ name: 'app', ready: false, restartCount: 0, state: { waiting: { reason, message } } }],
})
const service = (name: string, selector: object = { app: name }): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop', uid: `service-${name}`, ...made },
  spec: { type: 'ClusterIP', selector },
  status: {},
})
const slice = (of: string, isReady: boolean): KubernetesObject => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: `${of}-1`, namespace: 'shop', uid: `slice-${of}`, labels: { 'kubernetes.io/service-name': of } },
  endpoints: [{ conditions: { ready: isReady } }],
})

function said(stage: ClusterStage, uid: string): string {
  const [first] = stage.records.judged(uid) ?? []
  return first ? `${first.word} ${first.finding?.reason}` : 'well'
}

/** Returns all updates that a user gets who cannot list the kinds of `hidden`. */
async function told(t: Test, hidden: readonly string[], play: (stage: ClusterStage) => Promise<void> | void) {
  const stage = start(t)
  stage.mayNotList('ann', hidden)
  const { client } = stage.open(user('ann'), { view: 'list' })
  await stage.pass(100)
  await play(stage)
  for (let i = 0; i < 3; i++) await stage.pass(100)
  return client.texts.join('\n')
}

t.test('a container that has recovered is well, though nobody says anything of it any more', async (t) => {
  const stage = start(t)
  const lastState = {
    terminated: { exitCode: 1, startedAt: iso(now - 60_000), finishedAt: iso(now - 30_000) },
  }
  const state = { running: { startedAt: iso(now - 2000) } }
  stage.put(
    pod('p', { ...ready, containerStatuses: [{ name: 'app', ready: true, restartCount: 4, state, lastState }] }),
  )
  t.equal(said(stage, 'p'), 'Degraded CrashLoopBackOff')
  await stage.pass(57_900)
  t.equal(said(stage, 'p'), 'Degraded CrashLoopBackOff', 'it may crash again')
  await stage.pass(200)
  t.equal(said(stage, 'p'), 'well')
})

t.test('of several containers the one that is due first makes it Degraded', async (t) => {
  const stage = start(t)
  const since = iso(now - 30_000)
  const one = (name: string, reason: string) => ({
    name,
    ready: false,
    restartCount: 0,
    state: { waiting: { reason, message: 'dial tcp: i/o timeout' } },
  })
  const status = waiting('', '', since)
  const containerStatuses = [one('app', 'ErrImagePull'), one('side', 'CreateContainerError')]
  stage.put(pod('p', { ...status, containerStatuses }, { creationTimestamp: since }))
  t.equal(said(stage, 'p'), 'Progressing RegistryUnavailable')
  await stage.pass(30_100)
  t.equal(said(stage, 'p'), 'Degraded CreateContainerError')
})

t.test('times to come put nothing off', async (t) => {
  const stage = start(t)
  stage.put(pod('p', waiting('CreateContainerConfigError', 'no ConfigMap', '2099-01-01T00:00:00Z')))
  t.equal(said(stage, 'p'), 'Progressing CreateContainerConfigError')
  for (let i = 0; i < 3; i++) {
    await stage.pass(20_100)
    stage.put(pod('p', waiting('CreateContainerConfigError', `no ConfigMap ${i}`, '2099-01-01T00:00:00Z')))
  }
  t.equal(said(stage, 'p'), 'Degraded CreateContainerConfigError')
  t.equal(stage.records.judged('p')?.[0]?.finding?.since, now)
  await stage.pass(60 * minute)
  t.equal(said(stage, 'p'), 'Degraded CreateContainerConfigError')
})

t.test('what an event has said of an image is not remembered for who may not list events', async (t) => {
  const pulling = () => pod('p', waiting('ImagePullBackOff', 'Back-off pulling image "app:1"'))
  const event = {
    metadata: { name: 'e', namespace: 'shop', uid: 'e' },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'p', uid: 'p' },
    type: 'Warning',
    reason: 'Failed',
    message: 'Failed to pull image "app:1": unauthorized',
    lastTimestamp: iso(now),
  }
  const play = (isThere: boolean) => async (stage: ClusterStage) => {
    stage.put(pulling())
    await stage.pass(100)
    if (isThere) stage.event(event)
    await stage.pass(100)
    stage.put(pulling())
  }
  const without = await told(t, ['Event'], play(false))
  t.match(without, /ImagePullFailed/)
  t.equal(await told(t, ['Event'], play(true)), without)
})

t.test('a Service says nothing of workloads of a kind that is hidden', async (t) => {
  const template = { metadata: { labels: { app: 'web' } } }
  const workload = (kind: string, replicas: number): KubernetesObject => ({
    apiVersion: 'apps/v1',
    kind,
    metadata: { name: kind.toLowerCase(), namespace: 'shop', uid: kind, generation: 1, ...made },
    spec: { replicas, template },
    status: { observedGeneration: 1, desiredNumberScheduled: replicas },
  })
  const play = (hidden: readonly KubernetesObject[]) => (stage: ClusterStage) => {
    stage.put(workload('Deployment', 0))
    for (const one of hidden) stage.put(one)
    stage.put(service('web'))
  }
  const without = await told(t, ['apps/DaemonSet'], play([]))
  t.match(without, /ScaledToZero/)
  t.equal(await told(t, ['apps/DaemonSet'], play([workload('DaemonSet', 3)])), without)
})

t.test('a webhook says nothing of Pods that are hidden, nor of Services of another namespace', async (t) => {
  const hook = (namespace: string, name: string) => ({
    name: `${name}.example.com`,
    failurePolicy: 'Fail',
    clientConfig: { service: { namespace, name } },
  })
  const configuration = (...all: object[]): KubernetesObject => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'w', uid: 'w', ...made },
    webhooks: all,
  })
  const play = (isThere: boolean) => (stage: ClusterStage) => {
    stage.put(configuration(hook('shop', 'web')))
    if (isThere) stage.put(pod('p', up, { labels: { app: 'web' } }))
    stage.put(service('web'))
  }
  t.equal(await told(t, ['Pod'], play(true)), await told(t, ['Pod'], play(false)))
  const elsewhere = (isThere: boolean) => (stage: ClusterStage) => {
    const rights = [webhooks, 'discovery.k8s.io/EndpointSlice', 'Pod'].map((key) => {
      const { group, plural } = stage.resource(key)
      return [`${group}/${plural}`, '*'] as const
    })
    stage.api.rights.set('bob', [...rights, ['/services', 'shop']])
    stage.put(configuration(hook('bank', 'other'), hook('shop', 'none')))
    const { metadata, ...other } = service('other')
    if (isThere) stage.put({ ...other, metadata: { ...(metadata as object), namespace: 'bank' } })
    if (isThere) {
      const { metadata: of, ...rest } = slice('other', true)
      stage.put({ ...rest, metadata: { ...(of as object), namespace: 'bank' } })
    }
  }
  const ofBob = async (isThere: boolean) => {
    const stage = start(t)
    elsewhere(isThere)(stage)
    const { client } = stage.open(user('bob'), { view: 'list' })
    for (let i = 0; i < 3; i++) await stage.pass(100)
    return JSON.stringify(client.rows.get('w'))
  }
  const without = await ofBob(false)
  t.match(without, /service shop\/none does not exist/)
  t.equal(await ofBob(true), without)
})

t.test('a namespace full of long texts takes no other’s room: others are judged anew as before', async (t) => {
  const stage = start(t)
  const message = 'x'.repeat(3600)
  const conditions = Array.from({ length: 4 }, (_, i) => ({ type: `C${i}`, status: 'False', message }))
  const evil = { namespace: 'mallory' }
  for (let i = 0; i < 1200; i++) stage.put(pod(`long-${i}`, { phase: 'Failed', reason: 'Evicted', conditions }, evil))
  for (let i = 0; i < 100; i++) stage.put(pod(`short-${i}`, { phase: 'Failed', reason: 'Evicted' }, evil))
  stage.put(service('web'))
  stage.put(pod('p', up, { labels: { app: 'web' } }))
  stage.put(slice('web', true))
  await stage.pass(minute)
  t.equal(said(stage, 'service-web'), 'well')
  stage.put(slice('web', false))
  await stage.pass(minute)
  t.equal(said(stage, 'service-web'), 'Progressing NoReadyEndpoints')
  stage.put(slice('web', true))
  await stage.pass(minute)
  t.equal(said(stage, 'service-web'), 'well')
})

t.test('texts are kept in bounds, those of the namespace that has the most go first', async (t) => {
  const texts = new KeptTexts({ maxText: 4, max: 10 })
  texts.set('a', 'one', 'aaaaa')
  t.equal(texts.get('a'), '', 'it is too long')
  for (const uid of ['a', 'b']) texts.set(uid, 'one', uid.repeat(4))
  texts.set('c', 'one', 'cccc')
  t.equal(texts.get('c'), '', 'its own namespace has the most')
  texts.set('d', 'two', 'dddd')
  t.strictSame(
    ['a', 'b', 'd'].map((uid) => texts.get(uid)),
    ['', 'bbbb', 'dddd'],
  )
  texts.set('b', 'one', 'b')
  texts.set('e', 'two', 'eeee')
  t.strictSame(
    ['b', 'd', 'e'].map((uid) => texts.get(uid)),
    ['b', 'dddd', 'eeee'],
  )
  for (const uid of ['b', 'd', 'e']) texts.delete(uid)
  texts.set('f', 'two', 'ffff')
  t.equal(texts.get('f'), 'ffff')
})

t.test('many Services that select all, and Pods that change: each is judged anew once', async (t) => {
  const stage = start(t)
  const judged: string[] = []
  for (let i = 0; i < 10; i++) stage.put(service(`s${i}`, { app: 'all' }))
  const crash = (count: number) => {
    const state = { waiting: { reason: 'CrashLoopBackOff' } }
    const status = { name: 'app', ready: false, restartCount: count, state }
    return { phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }], containerStatuses: [status] }
  }
  for (let i = 0; i < 20; i++) stage.put(pod(`p${i}`, crash(1), { labels: { app: 'all' } }))
  await stage.pass(minute)
  t.equal(said(stage, 'service-s7'), 'Progressing NoReadyEndpoints')
  stage.records.onChange(({ after, judged: is }) => is && judged.push(after?.uid ?? ''))
  for (let i = 0; i < 20; i++) stage.put(pod(`p${i}`, crash(9), { labels: { app: 'all' } }))
  await stage.pass(minute)
  const ofServices = judged.filter((uid) => uid.startsWith('service-'))
  t.equal(said(stage, 'service-s7'), 'Degraded NoReadyEndpoints')
  t.equal(ofServices.length, 10)
})
