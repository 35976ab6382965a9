import t from 'tap'
import { Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Health of a source's objects, on a real API server; the test writes what controllers would. */

const web = keyOf('Deployment', 'web', 'shop', 'apps')
const labels = { app: 'web' }
const deployment = (image: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: "${image}" }] }
`
const map = '{ apiVersion: v1, kind: ConfigMap, metadata: { name: map }, data: { a: b } }'
const job = `
apiVersion: batch/v1
kind: Job
metadata: { name: once }
spec:
  ttlSecondsAfterFinished: 5
  template: { spec: { restartPolicy: Never, containers: [{ name: once, image: "busybox:1" }] } }
`
const condition = (type: string, status: string, reason = '') => ({
  type,
  status,
  reason,
  lastTransitionTime: new Date().toISOString(),
})

t.test('the health of a source', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  await ground.create(keyOf('ServiceAccount', 'default', 'shop'), { metadata: { name: 'default', namespace: 'shop' } })
  const project = new ProjectKas(401n)
  await startGitops(t, ground, project, {
    manifest_projects: [{ id: 'platform/shop', default_namespace: 'shop', prune_propagation_policy: 'background' }],
  })
  const state = () => project.states.findLast(({ source }) => source === '42-401')
  const until = (is: (state: SourceState) => boolean) =>
    eventually(() => {
      const now = state()
      return now !== undefined && is(now) && now
    })
  const isSynced = ({ phase, commit }: SourceState) => phase === Phase.SYNCED && commit === project.commit
  const isRead = ({ health }: SourceState) => health?.unread === 0

  /** Writes the status of the Deployment as its controller does. */
  const rollOut = async (available: number) => {
    const { metadata } = await ground.get(web)
    const status = {
      observedGeneration: metadata.generation,
      replicas: 1,
      updatedReplicas: 1,
      readyReplicas: available,
      availableReplicas: available,
      unavailableReplicas: 1 - available,
      conditions: [condition('Available', available > 0 ? 'True' : 'False', 'MinimumReplicasAvailable')],
    }
    await ground.merge(web, { status }, 'controller', 'status')
  }
  const owner = (object: { metadata: { uid: string; name: string } }, apiVersion: string, kind: string) => {
    const { uid, name } = object.metadata
    return { ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] }
  }

  await t.test('a commit whose Deployment has not begun is synced, and progressing', async (t) => {
    project.push({ 'web.yaml': deployment('nginx:1'), 'map.yaml': map })
    const { health, unhealthy } = await until((one) => isSynced(one) && isRead(one))
    t.match(health, { healthy: 0, progressing: 1, degraded: 0, missing: 0 }, 'a ConfigMap has no health')
    t.match(unhealthy, [{ key: { kind: 'Deployment', name: 'web' }, word: 'progressing' }])
  })

  await t.test('it is healthy once its Pods are available', async (t) => {
    await rollOut(1)
    const { unhealthy } = await until(({ health }) => health?.healthy === 1)
    t.strictSame(unhealthy, [])
  })

  await t.test('no state calls a new commit synced with the health of the one before', async (t) => {
    const before = project.states.length
    project.push({ 'web.yaml': deployment('nginx:2'), 'map.yaml': map })
    await until((one) => isSynced(one) && isRead(one) && one.health?.progressing === 1)
    const claims = project.states.slice(before).filter(isSynced)
    t.ok(claims.length > 0)
    for (const { health } of claims) t.equal(health?.healthy, 0)
  })

  await t.test('a Pod whose image is not there makes it degraded, and is named', async (t) => {
    await rollOut(0)
    const set = keyOf('ReplicaSet', 'web-1', 'shop', 'apps')
    const template = { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx:2' }] } }
    const deployed = await ground.get(web)
    await ground.create(set, {
      metadata: {
        name: 'web-1',
        namespace: 'shop',
        labels,
        annotations: { 'deployment.kubernetes.io/revision': '1' },
        ...owner(deployed, 'apps/v1', 'Deployment'),
      },
      spec: { replicas: 1, selector: { matchLabels: labels }, template },
    })
    const pod = keyOf('Pod', 'web-1-x', 'shop')
    await ground.create(pod, {
      metadata: {
        name: 'web-1-x',
        namespace: 'shop',
        labels,
        ...owner(await ground.get(set), 'apps/v1', 'ReplicaSet'),
      },
      spec: template.spec,
    })
    const notFound = 'ErrImagePull: rpc error: code = NotFound desc = docker.io/library/nginx:2: not found'
    const waiting = { reason: 'ImagePullBackOff', message: `Back-off pulling image "nginx:2": ${notFound}` }
    const containerStatuses = [
      { name: 'web', image: 'nginx:2', imageID: '', ready: false, restartCount: 0, state: { waiting } },
    ]
    const conditions = [condition('Ready', 'False'), condition('PodScheduled', 'True')]
    const began = performance.now()
    await ground.merge(pod, { status: { phase: 'Pending', conditions, containerStatuses } }, 'kubelet', 'status')
    const { unhealthy } = await until(({ health }) => health?.degraded === 1)
    t.comment(`degraded ${Math.round(performance.now() - began)} ms after the Pod's status`)
    t.match(unhealthy, [
      {
        key: { kind: 'Deployment', name: 'web' },
        word: 'degraded',
        culprit: { kind: 'Pod', namespace: 'shop', name: 'web-1-x' },
        reason: 'ImageNotFound',
        text: /nginx:2.*not found/,
      },
    ])
  })

  await t.test('a cause names no key of a Secret', async (t) => {
    const waiting = { reason: 'CreateContainerConfigError', message: `couldn't find key password in Secret shop/token` }
    const containerStatuses = [
      { name: 'web', image: 'nginx:2', imageID: '', ready: false, restartCount: 0, state: { waiting } },
    ]
    await ground.merge(keyOf('Pod', 'web-1-x', 'shop'), { status: { containerStatuses } }, 'kubelet', 'status')
    const { unhealthy } = await until((one) => one.unhealthy[0]?.text.includes('Secret') === true)
    t.match(unhealthy[0]?.text, /find a key of Secret shop\/token/)
    t.notMatch(
      JSON.stringify(project.states, (_, one) => (typeof one === 'bigint' ? String(one) : one)),
      'password',
    )
  })

  await t.test('while a round waits for an object of an earlier wave, its health is known', async (t) => {
    const metadata = '{ name: later, annotations: { argocd.argoproj.io/sync-wave: "1" } }'
    project.push({
      'web.yaml': deployment('nginx:3'),
      'later.yaml': `{ apiVersion: v1, kind: ConfigMap, metadata: ${metadata} }`,
    })
    const isApplying = ({ phase, wanted }: SourceState) => phase === Phase.APPLYING && wanted === project.commit
    const { health } = await until((one) => isApplying(one) && isRead(one))
    t.equal(health?.progressing, 1)
    // its Pods are read after the Deployment itself
    const { unhealthy } = await until((one) => isApplying(one) && one.unhealthy[0]?.culprit?.kind === 'Pod')
    t.match(unhealthy, [{ key: { kind: 'Deployment', name: 'web' }, culprit: { name: 'web-1-x' } }])
  })

  await t.test('a Job that has run once and is gone is healthy', async (t) => {
    project.push({ 'job.yaml': job })
    await until((one) => isSynced(one) && isRead(one) && one.health?.progressing === 1)
    await ground.client.json(
      'DELETE',
      `${ground.path(keyOf('Job', 'once', 'shop', 'batch'))}?propagationPolicy=Background`,
    )
    const { health } = await until((one) => one.health?.healthy === 1)
    t.match(health, { missing: 0, progressing: 0 })
  })
})
