import t from 'tap'
import { maxReferences } from '../../../../../../src/agentk/modules/views/projection/bounds.ts'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const kustomization = 'kustomize.toolkit.fluxcd.io/Kustomization'
const deploys = (kind: string, namespace: string, name: string) => ({ relation: 'deploys', kind, namespace, name })

t.test('a Kustomization of Flux names what it deploys', async (t) => {
  const ids = [
    'shop_web_apps_Deployment',
    'shop_web__Service',
    '_shop__Namespace',
    '_system__reader_rbac.authorization.k8s.io_ClusterRole',
  ]
  const status = {
    lastAppliedRevision: 'main@sha1:0123456789abcdef0123456789abcdef01234567',
    inventory: { entries: ids.map((id) => ({ id, v: 'v1' })) },
  }
  const found = projectionOf(kustomization, { spec: { suspend: true }, status })
  t.same(found.facts, ['main@sha1:0123456789abcdef0123456789abcdef01234567', 'suspended'])
  t.same(found.references, [
    deploys('apps/Deployment', 'shop', 'web'),
    deploys('Service', 'shop', 'web'),
    deploys('Namespace', '', 'shop'),
    deploys('rbac.authorization.k8s.io/ClusterRole', '', 'system:reader'),
  ])
})

t.test('an inventory is read with care, and so far', async (t) => {
  const of = (entries: unknown) => projectionOf(kustomization, { status: { inventory: { entries } } }).references
  const odd = [null, 'x', { id: 7 }, { id: '' }, { id: '___' }, { id: 'a_b' }, { id: `a_${'x'.repeat(9999)}_g_K` }]
  t.same(of(odd), [])
  t.same(of('x'), [])
  t.equal(of(Array.from({ length: 5000 }, (_, i) => ({ id: `shop_web-${i}_apps_Deployment` }))).length, maxReferences)
  t.equal(of(Array.from({ length: 50 }, () => ({ id: 'shop_web_apps_Deployment' }))).length, 1)
})

t.test('a HelmRelease says which chart it is', async (t) => {
  const status = {
    history: [
      { chartName: 'redis', chartVersion: '18.1.0' },
      { chartName: 'redis', chartVersion: '17' },
    ],
  }
  t.same(projectionOf('helm.toolkit.fluxcd.io/HelmRelease', { status }).facts, ['redis@18.1.0'])
  t.same(projectionOf('helm.toolkit.fluxcd.io/HelmRelease', { status: { history: {} } }).facts, [])
})

t.test('an Application of Argo CD says what is synced', async (t) => {
  const status = { sync: { status: 'OutOfSync', revision: '0123456789abcdef' } }
  t.same(projectionOf('argoproj.io/Application', { status }).facts, ['OutOfSync', '01234567'])
})

t.test('what Argo CD tracks names its Application, if it means this object', async (t) => {
  const tracked = (id: unknown, kind = 'apps/Deployment', metadata: object = { name: 'web', namespace: 'shop' }) =>
    projectionOf(kind, { metadata: { ...metadata, annotations: { 'argocd.argoproj.io/tracking-id': id } } }).references
  const deployed = (namespace: string, name: string) => [
    { relation: 'deployed by', kind: 'argoproj.io/Application', namespace, name },
  ]
  t.same(tracked('shop:apps/Deployment:shop/web'), deployed('argocd', 'shop'))
  t.same(tracked('team-a_shop:apps/Deployment:shop/web'), deployed('team-a', 'shop'))
  t.same(tracked('shop:/Service:shop/web', 'Service'), deployed('argocd', 'shop'))
  t.same(tracked('shop:/Namespace:shop/web', 'Namespace', { name: 'web' }), deployed('argocd', 'shop'), 'in none')
  for (const id of [
    'shop:apps/Deployment:shop/other',
    'shop:apps/Deployment:other/web',
    'shop:apps/ReplicaSet:shop/web',
    ':apps/Deployment:shop/web',
    'shop',
    '',
    7,
    null,
  ]) {
    t.same(tracked(id), [], String(id))
  }
})

t.test('of metadata alone no facts are made up', async (t) => {
  t.same(projectionOf('apps/Deployment', { kind: 'PartialObjectMetadata', metadata: { name: 'web' } }).facts, [])
})
