import t, { type Test } from 'tap'
import { missingAssets } from '../../../dev/control-plane/assets.ts'
import type { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import type { Caller } from '../../../src/agentk/caller.ts'
import { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { loadCluster } from '../../../src/agentk/cluster/load-cluster.ts'
import { Reviews } from '../../../src/agentk/modules/views/access/reviews.ts'
import { ViewHost } from '../../../src/agentk/modules/views/view/view-host.ts'
import type { Clock } from '../../../src/lib/clock.ts'
import type { Query } from '../../../src/proto/views-json.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { sharedControlPlane } from '../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../support/eventually.ts'
import { anyIdentity } from '../../support/identities.ts'
import { kinds, recordOf } from '../../support/views/records.ts'
import { RecordsDouble } from '../../support/views/records-double.ts'
import { ViewClient } from '../../support/views/view-client.ts'
import { agent, EventsDouble, StatesDouble, user, viewerOf } from '../../support/views/view-stage.ts'

/** Rows that callers see, by reviews of a real API server with its own authorizers. */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

/** factor by which this clock is faster: a minute takes two seconds */
const speed = 30
const fastClock: Clock = {
  now: () => (performance.timeOrigin + performance.now()) * speed,
  after(ms, action) {
    const timer = setTimeout(action, ms / speed)
    return () => clearTimeout(timer)
  },
}

async function start(t: Test, controlPlane: ControlPlane) {
  const access = await loadCluster({ kubeconfig: controlPlane.kubeconfig }, {})
  const client = new ApiClient(access)
  t.teardown(() => client.close())
  let count = 0
  const api: Pick<ApiClient, 'json'> = {
    json: (...request) => {
      count++
      return client.json(...request)
    },
  }
  const records = new RecordsDouble()
  const { log } = capturedLog()
  const reviews = new Reviews({ api, clock: fastClock, log, identities: anyIdentity })
  t.teardown(() => reviews.close())
  const host = new ViewHost({
    records,
    states: new StatesDouble(),
    events: new EventsDouble(),
    reviews,
    clock: fastClock,
  })
  t.teardown(() => host.close())
  const open = (caller: Caller, query: Query) => {
    const client = new ViewClient()
    const view = host.open({ caller, viewer: viewerOf(caller), query: Buffer.from(JSON.stringify(query)) }, client)
    client.onTaken = (seq) => view.taken(seq)
    const shows = (...ids: string[]) =>
      eventually(() => client.state !== undefined && [...client.rows.keys()].sort().join() === ids.sort().join())
    return { client, view, shows }
  }
  return { records, open, count: () => count }
}

t.test('rows come and go with roles', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t)
  const { admin } = controlPlane
  const rbac = '/apis/rbac.authorization.k8s.io/v1'
  const apiVersion = 'rbac.authorization.k8s.io/v1'
  const apiGroup = 'rbac.authorization.k8s.io'
  const bind = (kind: 'User' | 'Group', name: string, namespace?: string) => ({
    apiVersion,
    kind: namespace ? 'RoleBinding' : 'ClusterRoleBinding',
    metadata: { name: `of-${name}` },
    subjects: [{ kind, name, apiGroup }],
    roleRef: { kind: 'ClusterRole', name: 'reads-pods', apiGroup },
  })
  for (const name of ['shop', 'bank']) await admin.create('/api/v1/namespaces', { metadata: { name } })
  const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }]
  await admin.create(`${rbac}/clusterroles`, {
    apiVersion,
    kind: 'ClusterRole',
    metadata: { name: 'reads-pods' },
    rules,
  })

  const { records, open, count } = await start(t, controlPlane)
  const set = recordOf({ uid: 'set', kind: kinds.replicaSet })
  records.put(set)
  records.put(recordOf({ uid: 'in-shop', owner: set }))
  records.put(recordOf({ uid: 'in-bank', namespace: 'bank' }))
  records.put(recordOf({ uid: 'node', kind: kinds.node, namespace: '' }))

  await open(agent, { view: 'list' }).shows('set', 'in-shop', 'in-bank', 'node')
  const before = count()
  const ann = open(user('ann'), { view: 'tree' })
  await ann.shows()
  t.ok(count() - before <= 4, `${count() - before} reviews: rules that are complete spare the others`)

  await admin.create(`${rbac}/namespaces/shop/rolebindings`, bind('User', 'ann', 'shop'))
  await ann.shows('o:shop:set')
  const { client } = open(user('ann'), { view: 'list' })
  await eventually(() => client.rows.has('in-shop'))

  await admin.create(`${rbac}/clusterrolebindings`, bind('Group', 'developers'))
  await ann.shows('o:shop:set', 'in-bank')

  const removed = ['clusterrolebindings/of-developers', 'namespaces/shop/rolebindings/of-ann']
  for (const path of removed) await admin.request(`${rbac}/${path}`, { method: 'DELETE' })
  const from = fastClock.now()
  await ann.shows()
  await eventually(() => client.rows.size === 0)
  const tookMs = fastClock.now() - from
  t.comment(`gone after ${(tookMs / 1000).toFixed(0)} s of the clock that is ${speed} times as fast`)
  for (const text of ann.client.texts) t.notMatch(text, /"u":"(node|set)"/)
})
