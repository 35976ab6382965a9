import t from 'tap'
import { aggregatedVersions, namedVersions, resourcesOf, versionsOfGroup } from '../../../src/kubernetes/discovery.ts'

const names = { singular: 'deployment', short: ['deploy'], categories: ['all'] }
const deployments = { plural: 'deployments', kind: 'Deployment', isNamespaced: true, verbs: ['list'], names }

t.test('all at once, with what is not known now', async (t) => {
  const resource = {
    resource: 'deployments',
    responseKind: { kind: 'Deployment' },
    scope: 'Namespaced',
    verbs: ['list'],
    subresources: [{ subresource: 'scale' }, { subresource: 'status' }],
    singularResource: 'deployment',
    shortNames: ['deploy', 1],
    categories: ['all'],
  }
  const versions = [
    { version: 'v1', resources: [resource] },
    { version: 'v1beta1', freshness: 'Stale' },
  ]
  const items = [{ metadata: { name: 'apps' }, versions }]
  t.strictSame(aggregatedVersions({ kind: 'APIGroupDiscoveryList', items }), [
    { group: 'apps', version: 'v1', isStale: false, resources: [{ ...deployments, hasStatus: true }] },
    { group: 'apps', version: 'v1beta1', isStale: true, resources: [] },
  ])
  for (const other of [undefined, { items }, { kind: 'APIGroupDiscoveryList' }, { kind: 'APIGroupList', groups: [] }]) {
    t.equal(aggregatedVersions(other), undefined)
  }
})

t.test('group by group, the preferred version first', async (t) => {
  const versions = [{ version: 'v1beta1' }, { version: 'v1' }, { version: 'v1alpha1' }]
  const group = { name: 'apps', versions, preferredVersion: { version: 'v1' } }
  const sorted = ['v1', 'v1beta1', 'v1alpha1'].map((version) => ({ group: 'apps', version }))
  t.strictSame(versionsOfGroup(group), sorted)
  t.strictSame(namedVersions({ groups: [group] }), sorted)
  t.strictSame(namedVersions({ versions: ['v1'] }), [{ group: '', version: 'v1' }])
  t.strictSame(versionsOfGroup(undefined), [])
  t.equal(namedVersions({ message: 'no' }), undefined)
})

t.test('resources of a version, their subresources among them', async (t) => {
  const { plural: name, kind, verbs } = deployments
  const resource = { name, kind, verbs, namespaced: true, singularName: 'deployment', shortNames: ['deploy'] }
  const status = { name: 'deployments/status', kind, namespaced: true }
  const found = resourcesOf({ resources: [{ ...resource, categories: ['all'] }, status] })
  t.strictSame(found?.[0], { ...deployments, hasStatus: true })
  t.match(found?.[1], { plural: 'deployments/status', hasStatus: false, verbs: [] })
  t.equal(resourcesOf({ groups: [] }), undefined)
  const many = Array.from({ length: 50 }, (_, i) => `d${i}`)
  t.equal(resourcesOf({ resources: [{ ...resource, shortNames: many }] })?.[0]?.names.short.length, 16)
})
