import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { mayImpersonateNobody } from '../../../../src/agentk/cluster/may-impersonate.ts'
import { ClusterCache } from '../../../../src/agentk/modules/views/thread/cluster-cache.ts'
import { monotonicClock, systemClock } from '../../../../src/lib/clock.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../../src/proto/gen/views_pb.ts'
import type { Query, Row } from '../../../../src/proto/views-json.ts'
import { adminClient } from '../../../support/api-client.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { sharedControlPlane } from '../../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../../support/eventually.ts'
import { ViewClient } from '../../../support/views/view-client.ts'

/**
 * Failures on a real API server, as a viewer sees them. The test writes the status of controllers and kubelets itself.
 */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const iso = (agoMs: number) => new Date(Math.floor((Date.now() - agoMs) / 1000) * 1000).toISOString()
const minute = 60_000

t.test('what breaks is named, with its culprit', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t, ['--disable-admission-plugins=ServiceAccount'])
  const { admin } = controlPlane
  await admin.create('/api/v1/namespaces', { metadata: { name: 'shop' } })

  const look = (t: Test) => new Looking(t, adminClient(t, controlPlane))
  const first = look(t)
  first.open({ view: 'list', scope: { namespaces: ['shop'] }, limit: 500 })
  await first.isLive()

  const apps = '/apis/apps/v1/namespaces/shop'
  const core = '/api/v1/namespaces/shop'
  const made = async (path: string, kind: string, object: object, status?: object) => {
    const { metadata } = (await admin.create(path, object)) as { metadata: { uid: string; name: string } }
    if (status) {
      const patch = { method: 'PATCH', contentType: 'application/merge-patch+json', body: { status } }
      const answer = await admin.request(`${path}/${metadata.name}/status`, patch)
      if (answer.status !== 200) throw new Error(`${kind} ${metadata.name}: ${answer.status} ${answer.body}`)
    }
    return { apiVersion: path.startsWith('/apis/apps') ? 'apps/v1' : 'v1', kind, ...metadata }
  }
  const ownedBy = ({ apiVersion, kind, uid, name }: Awaited<ReturnType<typeof made>>) => ({
    ownerReferences: [{ apiVersion, kind, uid, name, controller: true }],
  })
  const containers = [{ name: 'app', image: 'registry.example.com/app:1' }]
  const labels = { app: 'web' }
  const template = { metadata: { labels }, spec: { containers } }
  const selector = { matchLabels: labels }
  const workload = async (name: string, podStatus: object, nodeName?: string) => {
    const spec = { replicas: 1, selector, template }
    const progress = { type: 'Available', status: 'False', lastTransitionTime: iso(3 * minute) }
    const status = { replicas: 1, updatedReplicas: 1, observedGeneration: 1, conditions: [progress] }
    const deployment = await made(`${apps}/deployments`, 'Deployment', { metadata: { name }, spec }, status)
    const metadata = { name: `${name}-1`, labels, ...ownedBy(deployment) }
    const annotations = { 'deployment.kubernetes.io/revision': '1' }
    const replicaSet = await made(
      `${apps}/replicasets`,
      'ReplicaSet',
      { metadata: { ...metadata, annotations }, spec },
      { replicas: 1 },
    )
    const pod = {
      metadata: { name: `${name}-1-x`, labels, ...ownedBy(replicaSet) },
      spec: { containers, ...(nodeName ? { nodeName } : {}) },
    }
    await made(`${core}/pods`, 'Pod', pod, podStatus)
  }
  const notReady = { type: 'Ready', status: 'False', lastTransitionTime: iso(3 * minute) }
  const scheduled = { type: 'PodScheduled', status: 'True' }
  const event = (name: string, involvedObject: object, reason: string, message: string) =>
    admin.create(`${core}/events`, {
      metadata: { name },
      involvedObject: { namespace: 'shop', ...involvedObject },
      type: 'Warning',
      reason,
      message,
      firstTimestamp: iso(2 * minute),
      lastTimestamp: iso(minute),
    })

  await t.test('an image that is not there', async (t) => {
    const waiting = {
      reason: 'ErrImagePull',
      message: 'rpc error: code = NotFound: registry.example.com/app:1: not found',
    }
    await workload('image', {
      phase: 'Pending',
      conditions: [notReady, scheduled],
      containerStatuses: [{ name: 'app', image: 'x', imageID: '', ready: false, restartCount: 0, state: { waiting } }],
    })
    const row = await first.row('apps/Deployment', 'image', 'ImageNotFound')
    t.match(row, { h: ['Progressing', 'InProgress', 'Degraded'], g: 1 })
    t.match(row.z, {
      kind: 'Pod',
      namespace: 'shop',
      name: 'image-1-x',
      since: Date.parse(notReady.lastTransitionTime),
    })
    t.match(row.z?.text, /not found/)
    t.equal(row.z?.next, 'kubectl -n shop describe pod image-1-x')
  })

  await t.test('a node that is away', async (t) => {
    const status = {
      type: 'Ready',
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
    }
    const ready = { ...status, lastTransitionTime: iso(2 * minute), lastHeartbeatTime: iso(3 * minute) }
    await made('/api/v1/nodes', 'Node', { metadata: { name: 'n1' } }, { conditions: [ready] })
    const running = {
      name: 'app',
      image: 'x',
      imageID: '',
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: {} },
    }
    const well = { type: 'ContainersReady', status: 'True' }
    await workload(
      'lost',
      { phase: 'Running', conditions: [notReady, scheduled, well], containerStatuses: [running] },
      'n1',
    )
    const row = await first.row('apps/Deployment', 'lost', 'NodeUnreachable')
    t.match(row.z, { kind: 'Node', namespace: '', name: 'n1', since: Date.parse(ready.lastTransitionTime) })
    t.equal(row.z?.next, 'kubectl describe node n1')
  })

  await t.test('a quota that is used up, said in an event alone', async (t) => {
    const spec = { replicas: 2, selector, serviceName: 'x', template }
    const set = await made(
      `${apps}/statefulsets`,
      'StatefulSet',
      { metadata: { name: 'cache' }, spec },
      { replicas: 0 },
    )
    const message = 'create Pod cache-0 failed: pods "cache-0" is forbidden: exceeded quota: compute, requested: pods=1'
    await event(
      'quota',
      { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'cache', uid: set.uid },
      'FailedCreate',
      message,
    )
    const row = await first.row('apps/StatefulSet', 'cache', 'QuotaExceeded')
    t.equal(row.h?.[2], 'Degraded')
    t.match(row.z, {
      kind: 'apps/StatefulSet',
      name: 'cache',
      count: 2,
      next: 'kubectl -n shop describe resourcequota compute',
    })
    t.ok((row.z?.since ?? 0) < Date.now() - minute)
  })

  await t.test('what names what is not there', async (t) => {
    const path = { path: '/', pathType: 'Prefix', backend: { service: { name: 'wbe', port: { number: 80 } } } }
    const spec = { rules: [{ http: { paths: [path] } }] }
    await admin.create('/apis/networking.k8s.io/v1/namespaces/shop/ingresses', { metadata: { name: 'shop' }, spec })
    t.match((await first.row('networking.k8s.io/Ingress', 'shop', 'BackendMissing')).z, {
      text: 'service wbe does not exist',
    })
    const claim = {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'fast',
      resources: { requests: { storage: '1Gi' } },
    }
    await made(
      `${core}/persistentvolumeclaims`,
      'PersistentVolumeClaim',
      { metadata: { name: 'data' }, spec: claim },
      { phase: 'Pending' },
    )
    t.match((await first.row('PersistentVolumeClaim', 'data', 'StorageClassMissing')).z, { name: 'data' })
    const port = { ports: [{ port: 80 }] }
    await admin.create(`${core}/services`, { metadata: { name: 'typo' }, spec: { selector: { app: 'wbe' }, ...port } })
    t.match((await first.row('Service', 'typo', 'SelectsNothing')).z, { text: 'no Pod has app=wbe' })
    await admin.create(`${core}/services`, { metadata: { name: 'wbe' }, spec: { selector: labels, ...port } })
    t.match(
      (await first.row('networking.k8s.io/Ingress', 'shop', 'NodeUnreachable')).z,
      { name: 'n1' },
      'its Pods are there',
    )
  })

  await t.test('what a finalizer holds, of a kind of which only metadata is followed', async (t) => {
    const metadata = { name: 'held', finalizers: ['example.com/wait'] }
    await admin.create(`${core}/configmaps`, { metadata })
    await admin.request(`${core}/configmaps/held`, { method: 'DELETE' })
    const row = await first.row('ConfigMap', 'held', 'DeletionBlocked')
    t.match(row.z, { text: 'waits for finalizers: example.com/wait' })
    t.equal(row.z?.next, 'kubectl -n shop get configmap held -o jsonpath={.metadata.managedFields[*].manager}')
  })

  await t.test('another agentk, that comes later, says the same since, or "at least"', async (t) => {
    const later = look(t)
    later.open({ view: 'list', scope: { namespaces: ['shop'] }, limit: 500 })
    await later.isLive()
    const causes = [...first.client.rows.values()].filter(({ z }) => z)
    t.ok(causes.length >= 6)
    for (const { k, n, z } of causes) {
      const anew = (await later.row(k, n, z?.reason ?? '')).z
      t.match(anew, { kind: z?.kind, name: z?.name, text: z?.text })
      if (!anew?.atLeast) t.equal(anew?.since, z?.since, `${k}/${n}`)
    }
  })
})

/** A viewer of a cluster, with the whole cluster cache of an agent. */
class Looking {
  readonly client = new ViewClient()
  readonly #picture: ClusterCache

  constructor(t: Test, api: ApiClient) {
    const stopping = new AbortController()
    const { log } = capturedLog()
    this.#picture = new ClusterCache(
      {
        own: api,
        watching: api,
        log,
        clock: systemClock,
        pace: monotonicClock,
        random: Math.random,
        answer: (message) => {
          if (message.kind !== 'response') return
          const { seq, update, fault } = fromBinary(FollowResponseSchema, message.bytes)
          if (fault) throw new Error(`${fault.code}: ${fault.text}`)
          this.client.update(Number(seq), update)
        },
      },
      {
        configuration: {},
        rules: { users: [], vendors: [], last: [], unread: [], named: [] },
        heapMb: 256,
        mayImpersonate: mayImpersonateNobody,
      },
    )
    const running = this.#picture.run(stopping.signal)
    t.teardown(async () => {
      stopping.abort()
      await running
    })
    this.client.onTaken = (seq) => this.#ask({ case: 'taken', value: { seq: BigInt(seq) } })
  }

  open(query: Query): void {
    this.#picture.asked({ kind: 'opened', stream: 1 })
    const caller = { as: { case: 'agent' as const, value: {} }, key: 'viewer' }
    this.#ask({ case: 'open', value: { caller, query: Buffer.from(JSON.stringify(query)) } })
  }

  isLive(): Promise<void> {
    return eventually(() => {
      if (this.client.state?.is !== 'live') throw new Error(`not live: ${JSON.stringify(this.client.state)}`)
    })
  }

  /** Resolves with the row when its cause has this reason. */
  row(kind: string, name: string, reason: string): Promise<Row> {
    return eventually(() => {
      const row = [...this.client.rows.values()].find(({ k, n }) => k === kind && n === name)
      if (row?.z?.reason !== reason) throw new Error(`${kind}/${name}: ${JSON.stringify(row)}`)
      return row
    })
  }

  #ask(step: NonNullable<Parameters<typeof create<typeof FollowRequestSchema>>[1]>['step']): void {
    const bytes = toBinary(FollowRequestSchema, create(FollowRequestSchema, { view: 1, ...(step ? { step } : {}) }))
    this.#picture.asked({ kind: 'request', stream: 1, bytes })
  }
}
