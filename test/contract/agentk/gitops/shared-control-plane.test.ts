import t from 'tap'
import { sharedControlPlane } from '../../../support/control-plane/shared-control-plane.ts'
import { Store } from '../../../support/control-plane/store.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { skip } from './ground.ts'

/** Objects that one test leaves in the shared API server are removed before the next test. */

const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const role = '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:discovery'
const service = '/api/v1/namespaces/default/services/kubernetes'
/** of the API server: revision of its last compaction */
const compactionKey = 'compact_rev_key'
const widgets = '/apis/example.com/v1/widgets'

t.test('tests that share an API server', { skip, timeout: 120_000 }, async (t) => {
  let server = ''
  let uid = ''

  await t.test('one makes, changes and removes', async (t) => {
    const controlPlane = await sharedControlPlane(t)
    const { admin } = controlPlane
    server = controlPlane.server
    uid = (await admin.get(service)).metadata.uid
    await admin.create('/api/v1/namespaces', { metadata: { name: 'left' } })
    await admin.create('/api/v1/namespaces/left/configmaps', {
      metadata: { name: 'left', finalizers: ['example.com/hold'] },
    })
    await admin.create(crds, widgetDefinition)
    await eventually(async () => (await admin.request(widgets)).status === 200)
    const patch = { method: 'PATCH', contentType: 'application/merge-patch+json', body: { rules: [] } }
    t.equal((await admin.request(role, patch)).status, 200)
    t.equal((await admin.request(service, { method: 'DELETE' })).status, 200)
  })

  await t.test('the next has the same server, as it was', async (t) => {
    const { admin, server: again } = await sharedControlPlane(t)
    t.equal(again, server)
    for (const path of ['/api/v1/namespaces/left', '/api/v1/namespaces/left/configmaps/left', widgets])
      t.equal((await admin.request(path)).status, 404, path)
    t.strictSame((await admin.get(crds)).items, [])
    t.ok((await admin.get(role)).rules.length > 0)
    t.equal((await admin.get(service)).metadata.uid, uid)
  })
})

t.test(
  'an API server compacts its store after a reset to what was there before its first compaction',
  {
    skip,
    timeout: 120_000,
  },
  async (t) => {
    const { admin, folder } = await sharedControlPlane(t, ['--etcd-compaction-interval=1s']) // else five minutes
    const store = new Store(folder)
    const compacted = (before?: string) =>
      eventually(async () => {
        const now = await store.get(compactionKey)
        return now !== before && now
      })
    let revision = await compacted()
    const made = Buffer.from(compactionKey).toString('base64')
    const before = [...(await store.snapshot())].filter(([key]) => key !== made)
    await store.restore(new Map(before))
    for (const name of ['first', 'second']) {
      await admin.create('/api/v1/namespaces', { metadata: { name } }) // else there is nothing to compact
      revision = await compacted(revision)
    }
    t.equal((await admin.request('/api/v1/namespaces/second')).status, 200)
  },
)
