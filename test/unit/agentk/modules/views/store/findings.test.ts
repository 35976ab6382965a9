import t, { type Test } from 'tap'
import { nodeSelectorsDefaults } from '../../../../../../src/agentk/modules/views/store/node-selectors.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'

const now = Date.parse('2026-11-20T10:00:00Z')
const iso = (time: number) => new Date(time).toISOString()
const minute = 60_000

async function start(t: Test, { listed = true } = {}): Promise<ClusterStage> {
  const stage = new ClusterStage(now, await rulesOf([]))
  t.teardown(() => stage.close())
  if (listed) stage.listed()
  return stage
}

const ready = { type: 'Ready', status: 'True' }
const up = [{ name: 'app', ready: true, restartCount: 0, state: { running: {} } }]

interface PodParts {
  readonly uid?: string
  readonly status: object
  readonly more?: object
}

const pod = ({ uid = 'p', status, more = {} }: PodParts): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: uid, namespace: 'shop', uid, creationTimestamp: iso(now - 5 * minute), ...more },
  spec: { nodeName: 'n', restartPolicy: 'Always', containers: [{ name: 'app', image: 'app:1' }] },
  status,
})
const well = { phase: 'Running', conditions: [ready], containerStatuses: up }
const waiting = (reason: string, message = '') => ({
  phase: 'Pending',
  startTime: iso(now - minute),
  conditions: [{ type: 'Ready', status: 'False', lastTransitionTime: iso(now - minute) }],
  containerStatuses: [{ name: 'app', ready: false, restartCount: 0, state: { waiting: { reason, message } } }],
})

const service = (name: string, selector: object): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop', uid: name, creationTimestamp: iso(now - 5 * minute) },
  spec: { type: 'ClusterIP', selector },
  status: {},
})

const ingress = (backend: string): KubernetesObject => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  metadata: { name: 'i', namespace: 'shop', uid: 'i', creationTimestamp: iso(now - 5 * minute) },
  spec: { rules: [{ http: { paths: [{ backend: { service: { name: backend } } }] } }] },
  status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
})

const event = (reason: string, message: string, more: object = {}): KubernetesObject => ({
  metadata: { name: 'e', namespace: 'shop', uid: `e-${reason}` },
  involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'p', uid: 'p' },
  type: 'Warning',
  reason,
  message,
  firstTimestamp: iso(now - 2 * minute),
  lastTimestamp: iso(now - minute),
  ...more,
})

function said(stage: ClusterStage, uid = 'p'): string | undefined {
  const [first] = stage.records.judged(uid) ?? []
  return first && `${first.word} ${first.finding?.reason}`
}

t.test('nothing is kept of a Pod that is well', async (t) => {
  const stage = await start(t)
  stage.put(pod({ status: well }))
  t.equal(stage.records.judgedSize, 0)
  stage.put(pod({ status: waiting('ErrImageNeverPull') }))
  t.equal(said(stage), 'Degraded ErrImageNeverPull')
  t.equal(stage.records.judgedSize, 1)
  stage.put(pod({ status: well }))
  t.equal(said(stage), undefined)
  await stage.pass(2 * minute)
  t.equal(stage.records.judgedSize, 0, 'nor is it remembered for long')
  stage.put(pod({ status: waiting('ErrImageNeverPull') }))
  stage.deleted(pod({ status: well }))
  t.equal(stage.records.judgedSize, 0)
})

t.test('time alone makes it Degraded once its grace is over', async (t) => {
  const stage = await start(t)
  const changes: string[] = []
  stage.records.onChange(({ judged }) => judged && changes.push(judged.after?.[0]?.word ?? 'well'))
  stage.put(pod({ status: waiting('CreateContainerConfigError', 'no such ConfigMap') }))
  t.equal(said(stage), 'Degraded CreateContainerConfigError', 'a minute is over')
  stage.put(pod({ uid: 'q', status: waiting('RegistryUnavailable', 'dial tcp: i/o timeout') }))
  t.equal(said(stage, 'q'), 'Progressing RegistryUnavailable')
  await stage.pass(minute - 1)
  t.strictSame(changes, ['Degraded', 'Progressing'])
  await stage.pass(51)
  t.strictSame(changes, ['Degraded', 'Progressing', 'Degraded'])
})

t.test('an event is evidence, whichever of both comes first; it stays when the event goes', async (t) => {
  const stage = await start(t)
  stage.event(event('FailedMount', 'no such volume'))
  stage.put(pod({ status: waiting('ContainerCreating') }))
  t.equal(said(stage), 'Progressing FailedMount')
  t.strictSame(stage.records.judged('p')?.[0]?.needs, [['Event', 'shop']])
  t.equal(stage.records.judged('p')?.[1]?.finding?.reason, 'ContainerCreating', 'for who may not list events')
  stage.records.evidence.deleted({ ...stage.kind('Pod'), key: 'Event' }, 'e-FailedMount')
  await stage.pass(minute)
  t.equal(said(stage), 'Degraded FailedMount')
  stage.event(event('FailedCreatePodSandBox', 'no network', { lastTimestamp: iso(now) }))
  await stage.pass()
  t.equal(said(stage), 'Degraded FailedCreatePodSandBox', 'the newest')
})

t.test('an event of another namespace, or of another object of the name, is none', async (t) => {
  const stage = await start(t)
  stage.put(pod({ status: waiting('ContainerCreating') }))
  const about = { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'p' }
  stage.event(event('FailedMount', 'x', { metadata: { name: 'e', namespace: 'evil', uid: 'e1' } }))
  stage.event(event('FailedMount', 'x', { involvedObject: { ...about, uid: 'other' } }))
  await stage.pass()
  t.equal(said(stage), 'Progressing ContainerCreating')
  stage.event(event('FailedMount', 'x', { involvedObject: about }))
  await stage.pass()
  t.equal(said(stage), 'Progressing FailedMount', 'one that says no uid is')
})

t.test('who names what comes and goes is judged anew; what is not listed is not missing', async (t) => {
  const stage = await start(t, { listed: false })
  stage.put(ingress('web'))
  t.equal(said(stage, 'i'), undefined)
  stage.listed()
  await stage.pass()
  t.equal(said(stage, 'i'), 'Degraded BackendMissing')
  stage.put(service('web', { app: 'web' }))
  await stage.pass()
  t.equal(said(stage, 'web'), 'Degraded SelectsNothing')
  t.equal(said(stage, 'i'), 'Progressing BackendNotReady')
  stage.put(pod({ status: waiting('ErrImageNeverPull'), more: { labels: { app: 'web' } } }))
  await stage.pass()
  t.equal(said(stage, 'web'), 'Degraded NoReadyEndpoints')
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'shop', uid: 's', labels: { 'kubernetes.io/service-name': 'web' } },
    endpoints: [{ conditions: { ready: true } }],
  }
  stage.put(slice)
  await stage.pass()
  t.equal(said(stage, 'web'), undefined)
  stage.deleted(slice)
  stage.deleted(service('web', {}))
  await stage.pass()
  t.equal(said(stage, 'i'), 'Degraded BackendMissing')
})

t.test('a port that no Pod has: for a minute slices may come after the Service', async (t) => {
  const stage = await start(t)
  const { clock } = stage
  const atRest = clock.now.bind(clock)
  let reads = 0
  clock.now = () => atRest() + reads++ / 1000 // it goes on while one is judged
  const to = (targetPort: string) => ({
    ...service('web', { app: 'web' }),
    spec: { selector: { app: 'web' }, ports: [{ targetPort }] },
  })
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'shop', uid: 's', labels: { 'kubernetes.io/service-name': 'web' } },
    endpoints: [{ conditions: { ready: true } }],
    ports: [{ name: '', port: 8080 }],
  }
  stage.put(slice)
  stage.put(to('web'))
  t.equal(said(stage, 'web'), undefined)
  stage.put({ ...slice, ports: null })
  await stage.pass()
  t.equal(said(stage, 'web'), 'Progressing PortMissing')
  t.match(stage.records.judged('web'), [{ finding: { since: Number } }, { finding: undefined }])
  stage.put(to('http'))
  await stage.pass(50_000)
  t.equal(said(stage, 'web'), 'Progressing PortMissing')
  await stage.pass(10_050)
  t.equal(said(stage, 'web'), 'Degraded PortMissing')
  stage.put(slice)
  await stage.pass()
  t.equal(said(stage, 'web'), undefined)
})

const tainted = (...taints: object[]) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'n', uid: 'n' },
  spec: { taints },
  status: { conditions: [ready] },
})
const unscheduled = (message: string) => ({
  type: 'PodScheduled',
  status: 'False',
  reason: 'Unschedulable',
  message,
  lastTransitionTime: iso(now),
})

t.test('taints of nodes as they are', async (t) => {
  const stage = await start(t)
  const message = '1 tainted(s) had untolerated taint(s)'
  const conditions = [unscheduled(message)]
  const text = () => stage.records.judged('p')?.[0]?.finding?.text
  stage.put(pod({ status: { phase: 'Pending', conditions } }))
  t.equal(text(), message)
  stage.put(tainted({ key: 'a', effect: 'NoSchedule' }))
  await stage.pass()
  t.equal(text(), `${message} (a:NoSchedule)`)
  t.match(stage.records.judged('p'), [{ needs: [['Node', '']] }, { needs: [], finding: { text: message } }])
  stage.put(tainted({ key: 'b', value: 'c', effect: 'NoSchedule' }))
  await stage.pass()
  t.equal(text(), `${message} (b=c:NoSchedule)`)
  stage.put(tainted())
  await stage.pass()
  t.equal(text(), message)
})

t.test('of more selectors of one namespace than are kept nodes are not read, and its Pods say so', async (t) => {
  const stage = await start(t)
  const message = "1 tainted(s) didn't match Pod's node affinity/selector"
  const conditions = [unscheduled(message)]
  const maxSelectors = nodeSelectorsDefaults.maxPerNamespace
  const asking = (pool: number, namespace = 'shop', uid = `p${pool}`) => {
    const { spec, metadata, ...more } = pod({ uid, status: { phase: 'Pending', conditions } })
    const named = { ...(metadata as object), namespace, name: uid }
    return {
      ...more,
      metadata: named,
      spec: { ...(spec as object), nodeSelector: { pool: `${pool}` } },
    } as KubernetesObject
  }
  const found = (pool: number) => stage.records.judged(`p${pool}`)?.[0]
  const why = 'no node is read for it: its namespace asks by too many node selectors'
  const unread = { needs: [], finding: { text: `${message} (pool=${maxSelectors}); ${why}` } }
  stage.put(tainted())
  for (let pool = 0; pool <= maxSelectors; pool++) stage.put(asking(pool))
  const first = { needs: [['Node', '']], finding: { text: `${message} (no node has pool=0)` } }
  t.match(found(0), first)
  t.match(found(maxSelectors), unread)
  stage.put(asking(0))
  t.match(found(0), first, 'those that were read are kept')
  stage.put(asking(maxSelectors, 'bank', 'b'))
  const others = { needs: [['Node', '']], finding: { text: `${message} (no node has pool=${maxSelectors})` } }
  t.match(stage.records.judged('b')?.[0], others, 'another namespace has room of its own')
  // while no node has the selected labels, an entry for all nodes is kept too
  for (const pool of [0, 1]) stage.deleted(asking(pool))
  await stage.pass()
  t.match(found(maxSelectors), unread)
  stage.put(tainted({ key: 'a', effect: 'NoSchedule' }))
  await stage.pass()
  t.match(found(maxSelectors), { finding: { text: `${message} (no node has pool=${maxSelectors})` } })
})

t.test('since when: what was there at the beginning is so at least since then, what comes later begins', async (t) => {
  const stage = await start(t, { listed: false })
  stage.put(ingress('web'))
  stage.listed()
  await stage.pass()
  t.match(stage.records.judged('i'), [{ finding: { since: undefined, seen: now } }])
  stage.put(service('web', {}))
  await stage.pass(10 * minute)
  stage.deleted(service('web', {}))
  await stage.pass()
  t.match(stage.records.judged('i'), [{ finding: { since: now + 10 * minute } }])
  await stage.pass(5 * minute)
  stage.put(service('web', {}))
  await stage.pass(30_000)
  stage.deleted(service('web', {}))
  await stage.pass()
  t.match(stage.records.judged('i'), [{ finding: { since: now + 10 * minute } }], 'well for half a minute is not well')
})

t.test('what the API server says since when is the same for who comes later', async (t) => {
  const stages = [await start(t), await start(t, { listed: false })]
  await (stages[1] as ClusterStage).pass(30 * minute)
  for (const stage of stages) {
    stage.put(pod({ status: waiting('ErrImageNeverPull') }))
    stage.listed()
  }
  const [first, later] = stages.map(({ records }) => records.judged('p')?.[0]?.finding?.since)
  t.equal(first, now - minute)
  t.equal(later, first)
})

t.test('what is being deleted is judged, though only its metadata is followed', async (t) => {
  const stage = await start(t)
  const metadata = { name: 'm', namespace: 'shop', uid: 'm', finalizers: ['example.com/wait'] }
  const settings = { apiVersion: 'v1', kind: 'PartialObjectMetadata', metadata }
  const kind = stage.kind('ConfigMap')
  stage.listed()
  stage.records.put(kind, settings)
  t.equal(said(stage, 'm'), undefined)
  t.equal(stage.records.get('m')?.health, undefined)
  const deletionTimestamp = iso(now - 10 * minute)
  stage.records.put(kind, { ...settings, metadata: { ...metadata, deletionTimestamp } })
  t.equal(said(stage, 'm'), 'Degraded DeletionBlocked')
  t.match(stage.records.get('m')?.health, { kstatus: 'Terminating' })
})

t.test('a Pod that does not leave is stuck by time alone', async (t) => {
  const stage = await start(t)
  stage.put(pod({ status: well, more: { deletionTimestamp: iso(now + 30_000), deletionGracePeriodSeconds: 30 } }))
  t.equal(said(stage), 'Progressing Terminating')
  await stage.pass(30_050)
  t.equal(said(stage), 'Progressing TerminatingStuck')
  await stage.pass(minute)
  t.equal(said(stage), 'Degraded TerminatingStuck')
})

t.test('of so many texts one is kept, and the rest is judged by time alone', async (t) => {
  const stage = await start(t)
  const long = 'x'.repeat(5000)
  const state = { waiting: { reason: 'RegistryUnavailable', message: `dial tcp: ${long}` } }
  const containerStatuses = Array.from({ length: 10 }, (_, i) => ({
    name: `c${i}`,
    ready: false,
    restartCount: 0,
    state,
  }))
  stage.put(pod({ status: { ...waiting(''), containerStatuses } }))
  t.equal(said(stage), 'Progressing RegistryUnavailable')
  t.equal(stage.records.judged('p')?.[0]?.finding?.text.length, 512)
  await stage.pass(2 * minute)
  t.equal(said(stage), 'Degraded RegistryUnavailable')
})

t.test('evidence has bounds: of one object, and of a namespace that is noisy', async (t) => {
  const stage = await start(t)
  stage.put(pod({ status: waiting('ContainerCreating') }))
  for (let i = 0; i < 100; i++) {
    stage.event(event('FailedMount', `message ${i}`, { metadata: { name: 'e', namespace: 'shop', uid: `e${i}` } }))
  }
  await stage.pass()
  t.equal(said(stage), 'Progressing FailedMount')
  for (let i = 0; i < 11_000; i++) {
    const involvedObject = { apiVersion: 'v1', kind: 'Pod', namespace: 'noise', name: `n${i}`, uid: `n${i}` }
    stage.event(event('BackOff', 'x', { metadata: { name: 'e', namespace: 'noise', uid: `x${i}` }, involvedObject }))
  }
  t.ok(stage.records.evidenceSize <= 10_000)
  stage.put(pod({ status: { ...waiting('ContainerCreating'), hostIP: '192.0.2.1' } }))
  t.equal(said(stage), 'Progressing FailedMount', 'a noisy namespace takes no room of others')
  await stage.pass(62 * minute)
  t.equal(stage.records.evidenceSize, 0)
  t.equal(said(stage), 'Degraded ContainerCreating', 'after an hour it is evidence no more')
})

t.test('a quota that has room and none by turns: each time its minute begins anew, since when stays', async (t) => {
  const second = 1000
  const at = (name: string, rest: object, more: object = {}) => ({
    metadata: { name, namespace: 'shop', uid: name, creationTimestamp: iso(now - 5 * minute), ...more },
    ...rest,
  })
  const message = 'pods "a" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3'
  const condition = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message }
  const conditions = [{ ...condition, lastTransitionTime: iso(now) }]
  const ownedBy = (kind: string, name: string) => ({
    ownerReferences: [{ apiVersion: 'apps/v1', kind, name, uid: name, controller: true }],
  })
  const web = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    ...at('web', { spec: { replicas: 3 }, status: { replicas: 3, updatedReplicas: 1, conditions } }),
  }
  const set = {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    ...at('rs', { spec: { replicas: 3 }, status: { replicas: 1, conditions } }, ownedBy('Deployment', 'web')),
  }
  const quota = (pods: string) => ({
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    ...at('pods', { status: { hard: { pods: '3' }, used: { pods } } }),
  })
  const made = (seconds: number) =>
    pod({
      uid: 'p',
      status: well,
      more: { ...ownedBy('ReplicaSet', 'rs'), creationTimestamp: iso(now + seconds * second) },
    })
  const both = (stage: ClusterStage) => [said(stage, 'rs'), said(stage, 'web')]
  const twice = (text: string) => [text, text]

  const stage = await start(t)
  const put = async (objects: readonly KubernetesObject[], inMs = 0) => {
    for (const one of objects) stage.put(one)
    await stage.pass(inMs)
  }
  await put([quota('3'), web, set], 30 * second)
  t.strictSame(both(stage), twice('Progressing QuotaExceeded'))
  await put([quota('2')], 50 * second)
  t.strictSame(both(stage), twice('Progressing QuotaExceeded'), 'there is room')
  await put([quota('3')])
  t.strictSame(both(stage), twice('Progressing QuotaExceeded'), 'full again, before the Pod is seen')
  await put([made(80)], 59 * second)
  t.strictSame(both(stage), twice('Progressing QuotaExceeded'))
  t.equal(stage.records.judged('rs')?.[0]?.finding?.since, now)
  t.same(
    stage.records.judged('rs')?.map(({ word }) => word),
    ['Progressing', 'Progressing', 'Degraded'],
    'by rights',
  )
  await stage.pass(1100)
  t.strictSame(both(stage), twice('Degraded QuotaExceeded'))

  const later = await start(t)
  await later.pass(100 * second)
  for (const one of [quota('3'), web, set, made(80)]) later.put(one)
  await later.pass()
  t.strictSame(both(later), twice('Progressing QuotaExceeded'), 'who comes later goes by the Pod')
  await later.pass(41 * second)
  t.strictSame(both(later), twice('Degraded QuotaExceeded'))
})

t.test('a kind that is set aside: its definition says why, until it is followed again', async (t) => {
  const stage = await start(t)
  const key = 'apiextensions.k8s.io/CustomResourceDefinition'
  stage.put({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'queues.p1.example.com', uid: 'crd', creationTimestamp: iso(now - 60 * minute) },
    spec: { group: 'p1.example.com', names: { kind: 'Queue' }, versions: [{ name: 'v1', served: true }] },
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  })
  stage.listed()
  const queue = stage.kind('p1.example.com/Queue')
  const state = (is: 'aside' | 'live', more: object = {}) =>
    stage.records.state(queue, {
      is,
      since: now - 70_000,
      why: 'the API server answered 500',
      refusedNamespaces: [],
      leftOut: [],
      ...more,
    })
  const found = () => stage.records.judged('crd')?.[0]
  state('live')
  await stage.pass(100)
  t.equal(found(), undefined, key)
  state('aside', {
    message: 'conversion webhook for p1.example.com/v1, Kind=Queue failed: service "queue-operator" not found',
  })
  await stage.pass(100)
  t.match(found(), { word: 'Degraded', finding: { reason: 'ListFailed', since: now - 70_000 } })
  t.match(
    found()?.finding?.text,
    /^its objects cannot be listed: conversion webhook .* service "queue-operator" not found$/,
  )
  state('aside')
  await stage.pass(100)
  t.match(found()?.finding?.text, 'its objects cannot be listed: the API server answered 500')
  state('live')
  await stage.pass(100)
  t.not(found()?.word, 'Degraded')
})

t.test('a change that no controller observes is Degraded after a minute, until one does', async (t) => {
  const stage = await start(t)
  const changed = (generation: number, observedGeneration: number): KubernetesObject => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace: 'shop', uid: 'd', generation, creationTimestamp: iso(now - 60 * minute) },
    spec: { replicas: 1 },
    status: { observedGeneration, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 },
  })
  const found = () => stage.records.judged('d')?.[0]
  stage.put(changed(1, 1))
  await stage.pass(100)
  t.equal(found(), undefined)
  stage.put(changed(2, 1))
  t.match(found(), { word: 'Progressing', finding: { reason: 'RollingOut' } })
  await stage.pass(59_000)
  stage.put(changed(3, 1))
  t.match(found(), { word: 'Progressing' }, 'another change does not begin it anew')
  await stage.pass(1100)
  t.match(found(), { word: 'Degraded', finding: { reason: 'NotReconciled' } })
  stage.put(changed(4, 1))
  t.match(found(), { word: 'Degraded', finding: { reason: 'NotReconciled' } }, 'it stays so')
  stage.put(changed(4, 4))
  await stage.pass(100)
  t.not(found()?.word, 'Degraded')
})

const owned = (kind: string, uid: string) => ({
  ownerReferences: [{ apiVersion: kind === 'Job' ? 'batch/v1' : 'apps/v1', kind, name: uid, uid, controller: true }],
})
const owner = (kind: string, spec: object, status: object): KubernetesObject => ({
  apiVersion: kind === 'Job' ? 'batch/v1' : 'apps/v1',
  kind,
  metadata: { name: 'o', namespace: 'shop', uid: 'o', creationTimestamp: iso(now - 5 * minute), generation: 1 },
  spec,
  status: { observedGeneration: 1, ...status },
})

t.test('the ends of Pods that are deleted are remembered for their owner', async (t) => {
  const stage = await start(t)
  const message = 'The node was low on resource: memory'
  const evicted = (uid: string, more: object = {}) =>
    pod({
      uid,
      status: { phase: 'Failed', reason: 'Evicted', message },
      more: { ...owned('StatefulSet', 'o'), ...more },
    })
  const named = { name: 'db-0' }
  stage.put(owner('StatefulSet', { replicas: 1 }, { replicas: 1, readyReplicas: 1 }))
  for (const uid of ['one', 'two']) {
    stage.put(evicted(uid, named))
    stage.deleted(evicted(uid, named))
  }
  await stage.pass()
  t.equal(said(stage, 'o'), undefined, 'twice is no loop')
  stage.put(evicted('three', named))
  stage.deleted(evicted('three', named))
  await stage.pass()
  t.equal(said(stage, 'o'), 'Degraded Evicted')
  t.match(stage.records.judged('o')?.[0]?.finding?.text, /^3 Pods one after the other, e\.g\. db-0: The node was low/)
  t.strictSame(stage.records.judged('o')?.[0]?.needs, [['Pod', 'shop']])
  await stage.pass(20 * minute)
  t.equal(said(stage, 'o'), undefined, 'it has ended')
})

t.test(
  'events of Pods that had its name say that a StatefulSet is in a loop, though nothing is remembered',
  async (t) => {
    const stage = await start(t)
    const current = pod({ uid: 'four', status: well, more: { ...owned('StatefulSet', 'o'), name: 'db-0' } })
    stage.put(owner('StatefulSet', { replicas: 1 }, { replicas: 1, readyReplicas: 1 }))
    stage.put(current)
    for (const uid of ['one', 'two', 'three']) {
      t.equal(said(stage, 'o'), undefined)
      const involvedObject = { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'db-0', uid }
      const metadata = { name: uid, namespace: 'shop', uid: `e-${uid}` }
      stage.event(event('Evicted', 'low on resource: memory', { involvedObject, metadata }))
      await stage.pass()
    }
    t.equal(said(stage, 'o'), 'Degraded Evicted')
    t.strictSame(stage.records.judged('o')?.[0]?.needs, [
      ['Pod', 'shop'],
      ['Event', 'shop'],
    ])
  },
)

t.test('a Job whose last Pod is deleted with its log says how its container ended', async (t) => {
  const stage = await start(t)
  const time = (seconds: number) => iso(now - seconds * 1000)
  const ended = (finished: number) => ({
    terminated: {
      exitCode: 3,
      reason: 'Error',
      message: 'no such table',
      startedAt: time(60),
      finishedAt: time(finished),
    },
  })
  const status = (state: object) => ({
    ...well,
    containerStatuses: [{ name: 'migrate', ready: false, restartCount: 6, state: { running: {} }, lastState: state }],
  })
  const deleted = { ...owned('Job', 'o'), deletionTimestamp: time(0), deletionGracePeriodSeconds: 30 }
  const limit = { type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: 'has reached the limit' }
  stage.put(owner('Job', {}, { conditions: [limit] }))
  t.equal(said(stage, 'o'), 'Degraded BackoffLimitExceeded')
  stage.put(pod({ status: status(ended(10)), more: deleted }))
  stage.deleted(pod({ status: well }))
  await stage.pass()
  t.equal(said(stage, 'o'), 'Degraded BackoffLimitExceeded', 'what ends by the deletion says nothing')
  stage.put(pod({ uid: 'q', status: status(ended(40)), more: deleted }))
  stage.deleted(pod({ uid: 'q', status: well }))
  await stage.pass()
  t.equal(said(stage, 'o'), 'Degraded NonZeroExit')
  t.equal(
    stage.records.judged('o')?.[0]?.finding?.text,
    'container migrate: exit code 3: no such table; its Pod q has been deleted',
  )
  t.equal(stage.records.judged('o')?.[1]?.finding?.reason, 'BackoffLimitExceeded', 'for who may not list Pods')
  stage.put(owner('Job', {}, { conditions: [{ ...limit, type: 'Complete' }] }))
  t.equal(said(stage, 'o'), undefined)
})
