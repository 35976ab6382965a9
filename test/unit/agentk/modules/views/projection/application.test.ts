import t from 'tap'
import { applicationOf } from '../../../../../../src/agentk/modules/views/projection/application.ts'

const marks = (labels: object, annotations: object = {}, more: object = {}) =>
  applicationOf('apps/Deployment', { metadata: { name: 'web', namespace: 'shop', labels, annotations, ...more } })
const application = (...given: Parameters<typeof marks>) => marks(...given).application
const recommended = {
  'app.kubernetes.io/name': 'nginx',
  'app.kubernetes.io/instance': 'web-1',
  'app.kubernetes.io/part-of': 'store',
}
const helm = { 'meta.helm.sh/release-name': 'web', 'meta.helm.sh/release-namespace': 'releases' }
const kustomization = {
  'kustomize.toolkit.fluxcd.io/name': 'apps',
  'kustomize.toolkit.fluxcd.io/namespace': 'flux-system',
}
const helmRelease = { 'helm.toolkit.fluxcd.io/name': 'web', 'helm.toolkit.fluxcd.io/namespace': 'shop' }
const tracking = (application: string) => ({
  'argocd.argoproj.io/tracking-id': `${application}:apps/Deployment:shop/web`,
})

t.test('an application, by what deployed it', async (t) => {
  const claimed = (labels: object, annotations: object = {}, more: object = {}) =>
    marks(labels, annotations, more).claim?.application
  t.equal(application({ ...recommended, ...kustomization, ...helmRelease }, helm), 'shop/web')
  t.equal(claimed({ ...recommended, ...kustomization }, helm), 'flux-system/apps')
  t.equal(claimed(recommended, { ...helm, ...tracking('store') }), 'store')
  t.equal(claimed({}, tracking('team-a_store')), 'team-a/store')
  t.equal(claimed({ 'argocd.argoproj.io/instance': 'store' }), 'store')
  t.equal(claimed(recommended, { 'argocd.argoproj.io/tracking-id': 'store:apps/Deployment:shop/other' }), undefined)
  t.equal(claimed(recommended, helm), 'releases/web')
})

t.test('a mark of an application elsewhere is a claim, beside what is believed', async (t) => {
  t.same(marks({ ...recommended, ...kustomization }), {
    application: 'shop/store',
    claim: {
      application: 'flux-system/apps',
      kind: 'kustomize.toolkit.fluxcd.io/Kustomization',
      namespace: 'flux-system',
      name: 'apps',
    },
  })
  t.match(marks({}, tracking('store')).claim, { kind: 'argoproj.io/Application', namespace: 'argocd', name: 'store' })
  t.match(marks({}, helm), { application: '', claim: { kind: '', namespace: 'releases', name: 'web' } })
  t.match(marks({ ...kustomization, ...helmRelease }), { application: 'shop/web', claim: undefined })
  const near = (namespace: string | undefined) => marks(kustomization, {}, { namespace })
  t.same(near('flux-system'), { application: 'flux-system/apps', claim: undefined }, 'in its own namespace')
  t.same(near(undefined), { application: 'flux-system/apps', claim: undefined }, 'in none: no user of a namespace')
})

t.test('else by recommended labels, of its namespace', async (t) => {
  const [name, instance, partOf] = Object.entries(recommended).map(([label, value]) => ({ [label]: value }))
  t.equal(application({ ...name, ...instance, ...partOf }), 'shop/store')
  t.equal(application({ ...name, ...instance }), 'shop/web-1')
  t.equal(application({ ...name }), 'shop/nginx')
  t.equal(application({ ...name }, {}, { namespace: undefined }), 'nginx', 'of no namespace')
  t.equal(application({}), '')
})

t.test('marks that are none are passed over', async (t) => {
  t.equal(application({ ...name(7), 'app.kubernetes.io/instance': 'web-1' }), 'shop/web-1')
  t.equal(application({}, { 'meta.helm.sh/release-name': 'x'.repeat(9999) }), '')
  for (const odd of [null, 'x', 7, []])
    t.same(applicationOf('Pod', { metadata: odd }), { application: '', claim: undefined })
})

const name = (value: unknown) => ({ 'app.kubernetes.io/part-of': value })
