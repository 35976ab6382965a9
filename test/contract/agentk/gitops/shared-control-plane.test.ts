import t from 'tap'
import { sharedControlPlane } from '../../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { skip } from './ground.ts'

/** Objects that one test leaves in the shared API server are removed before the next test. */

const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const role = '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:discovery'
const service = '/api/v1/namespaces/default/services/kubernetes'
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
