import t from 'tap'
import { Environments } from '../../../../../../src/agentk/modules/views/projection/environments.ts'
import { metadataOf } from '../../../../../../src/agentk/modules/views/projection/metadata.ts'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import {
  CommonRecordParts,
  recordOf as recordFrom,
} from '../../../../../../src/agentk/modules/views/store/object-record.ts'
import type { ResourceKind } from '../../../../../../src/kubernetes/kind.ts'
import { forestOf } from '../../../../../support/views/forest-of.ts'
import { kindOf, kinds } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'

/** A user who can write to one namespace changes no verdict of an application in another one. */

const kustomization = kindOf('kustomize.toolkit.fluxcd.io/Kustomization', 'kustomizations')
const helmRelease = kindOf('helm.toolkit.fluxcd.io/HelmRelease', 'helmreleases')
const argo = kindOf('argoproj.io/Application', 'applications')

const shared = { interned: new Interned(), common: new CommonRecordParts() }
const health = (argo: 'Healthy' | 'Progressing') =>
  ({ argo, kstatus: 'Current', argoText: '', kstatusText: '' }) as const

function record(
  kind: ResourceKind,
  place: string,
  more: { metadata?: object; spec?: object; status?: object; verdict?: 'Progressing' } = {},
) {
  const [namespace = '', name = ''] = place.split('/')
  const { metadata, verdict = 'Healthy', ...rest } = more
  const object = { metadata: { uid: `${kind.key}:${place}`, namespace, name, ...metadata }, ...rest }
  const found = metadataOf(object)
  if (!found) throw new Error(`no metadata of ${place}`)
  const environments = new Environments([])
  return recordFrom({ kind, object, metadata: found, health: health(verdict), environments }, shared)
}

const flux = (namespace: string, name: string, controller = 'kustomize') => ({
  labels: {
    [`${controller}.toolkit.fluxcd.io/namespace`]: namespace,
    [`${controller}.toolkit.fluxcd.io/name`]: name,
  },
})
const inventory = (...ids: readonly string[]) => ({ status: { inventory: { entries: ids.map((id) => ({ id })) } } })

function counts(
  records: readonly ReturnType<typeof record>[],
  scope: { application: string; namespaces?: readonly string[] },
  hidden: readonly string[] = [],
) {
  const double = new RecordsDouble()
  const query = JSON.stringify({ view: 'list', scope })
  const forest = forestOf({ records: double, query, hidden })
  for (const one of records) double.put(one)
  const shown = () => [...forest.root.children()].map(({ namespace, name }) => `${namespace}/${name}`).sort()
  return { shown, records: double }
}

t.test('labels of Flux count where the Kustomization lists the object', async (t) => {
  const application = 'flux-system/apps'
  const labels = flux('flux-system', 'apps')
  const apps = (...ids: readonly string[]) => record(kustomization, 'flux-system/apps', inventory(...ids))
  const web = record(kinds.deployment, 'shop/web', { metadata: labels })
  const evil = record(kinds.service, 'mallory/evil', { metadata: labels, verdict: 'Progressing' })
  const near = record(kinds.service, 'flux-system/near', { metadata: labels })
  const node = record(kinds.node, '/node', { metadata: labels })
  const listing = apps('shop_web_apps_Deployment', '_mallory__Namespace')
  for (const order of [
    [web, evil, near, node, listing],
    [listing, node, near, evil, web],
  ]) {
    const { shown, records } = counts(order, { application })
    t.same(shown(), ['/node', 'flux-system/near', 'shop/web'])
    records.put(apps('_mallory__Namespace'))
    t.same(shown(), ['/node', 'flux-system/near'], 'once it lists it no more')
    records.put(apps('mallory_evil__Service'))
    t.same(shown(), ['/node', 'flux-system/near', 'mallory/evil'])
    records.delete(listing.uid)
    t.same(shown(), ['/node', 'flux-system/near'], 'and without it')
  }
  t.same(counts([web, evil, listing], { application }, [kustomization.key]).shown(), [], 'nor by one that is hidden')
  t.same(counts([web, evil], { application, namespaces: ['shop'] }).shown(), ['shop/web'], 'a named namespace does')
})

t.test('a HelmRelease lists its inventory, and the namespace that it deploys into', async (t) => {
  const labels = flux('flux-system', 'web', 'helm')
  const release = record(helmRelease, 'flux-system/web', {
    spec: { targetNamespace: 'shop' },
    ...inventory('bank_pay_apps_Deployment'),
  })
  const all = [
    release,
    record(kinds.deployment, 'shop/web', { metadata: labels }),
    record(kinds.deployment, 'bank/pay', { metadata: labels }),
    record(kinds.deployment, 'bank/other', { metadata: labels }),
    record(kinds.service, 'mallory/evil', { metadata: labels, verdict: 'Progressing' }),
  ]
  t.same(counts(all, { application: 'flux-system/web' }).shown(), ['bank/pay', 'shop/web'])
})

t.test('so do Applications of Argo CD, by label and by tracking id', async (t) => {
  const resources = [{ group: 'apps', version: 'v1', kind: 'Deployment', namespace: 'shop', name: 'web' }]
  const tracked = (kind: string, place: string) => ({
    annotations: { 'argocd.argoproj.io/tracking-id': `store:${kind}:${place}` },
  })
  const label = { labels: { 'argocd.argoproj.io/instance': 'store' } }
  const all = [
    record(argo, 'argocd/store', { status: { resources } }),
    record(kinds.deployment, 'shop/web', { metadata: tracked('apps/Deployment', 'shop/web') }),
    record(kinds.service, 'mallory/evil', { metadata: tracked('/Service', 'mallory/evil'), verdict: 'Progressing' }),
    record(kinds.service, 'mallory/labelled', { metadata: label, verdict: 'Progressing' }),
  ]
  t.same(counts(all, { application: 'store' }).shown(), ['shop/web'])
})

t.test('what is not believed leaves an object where its own namespace has it', async (t) => {
  const metadata = {
    labels: { ...flux('flux-system', 'apps').labels, 'app.kubernetes.io/part-of': 'shop' },
  }
  const all = [record(kinds.deployment, 'mallory/web', { metadata })]
  t.same(counts(all, { application: 'flux-system/apps' }).shown(), [])
  t.same(counts(all, { application: 'mallory/shop' }).shown(), ['mallory/web'])
})

t.test('a GitOps source is what bears its inventory, with what is below', async (t) => {
  const of = (id: string) => ({ metadata: { labels: { 'agent.gitlab.com/inventory': id } } })
  const web = record(kinds.deployment, 'shop/web', of('42-1'))
  const owner = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: web.uid, controller: true }
  const set = record(kinds.replicaSet, 'shop/web-1', { metadata: { ownerReferences: [owner] } })
  const others = [record(kinds.deployment, 'bank/vault', of('42-2')), record(kinds.deployment, 'bank/other')]
  for (const order of [
    [web, set, ...others],
    [...others, set, web],
  ]) {
    const { shown, records } = counts(order, { application: '42-1' })
    t.same(shown(), ['shop/web', 'shop/web-1'])
    records.put(record(kinds.deployment, 'shop/web'))
    t.same(shown(), [])
  }
  const double = new RecordsDouble()
  double.put(web)
  const tree = forestOf({ records: double, query: JSON.stringify({ view: 'tree' }) })
  t.same(
    [...tree.root.children()].map(({ kind }) => kind),
    ['apps/Deployment'],
    'it is no group: anyone may bear its label',
  )
})
