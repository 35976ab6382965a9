import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { pluralOf, rightsFor, vendorsRules } from '../../dev/roles/views-role.ts'
import { isLike } from '../../src/agentk/health/custom/kind-pattern.ts'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { findObject, readManifests } from '../support/manifests.ts'

/** The role for kinds of vendors contains what their rules need. */

const file = join(import.meta.dirname, '../../deploy/charts/agentk/files/vendors.yaml')

t.test('the chart has what `npm run roles` writes', async (t) => {
  t.equal(readFileSync(file, 'utf8'), vendorsRules(await vendorRules()))
})

t.test('it lets each kind that has a rule be read, and nothing be changed', async (t) => {
  const { rules } = findObject(readManifests('agentk-views'), 'ClusterRole', 'agentk-views-vendors')
  const rights = new Map<string, string[]>()
  for (const { apiGroups, resources, verbs } of rules) {
    t.strictSame(verbs, ['get', 'list', 'watch'])
    for (const group of apiGroups) rights.set(group, resources)
  }
  const all = await vendorRules()
  const { unnamed } = rightsFor(all)
  const unread = all.flatMap(({ kind, known }) => {
    const [group = '', name = ''] = kind.split('/')
    const kinds = name.includes('*') ? known : [name]
    return kinds.length > 0 && kinds.every((one) => rights.get(group)?.includes(pluralOf(one))) ? [] : [kind]
  })
  t.strictSame(unread.sort(), unnamed)
  t.strictSame(unnamed, [
    '*.cnrm.cloud.google.com/*',
    '*.crossplane.io/*',
    '*.services.k8s.aws/*',
    '*.upbound.io/*',
    'kro.run/*',
  ])
  for (const { kind, known } of all)
    t.ok(
      known.every((one) => isLike(kind, `${kind.split('/')[0]}/${one}`)),
      kind,
    )
  t.notOk(rights.has('') || rights.has('*'), 'neither the core group nor all groups')
})

t.test('kinds have the names that their definitions have in paths', async (t) => {
  const names = {
    Analysis: 'analyses', // of Keptn
    ApigeeRedis: 'apigeeredis',
    Canary: 'canaries',
    CommitStatus: 'commitstatuses',
    EventBus: 'eventbus', // of Argo Events
    Gateway: 'gateways',
    GlobalProxySettings: 'globalproxysettings',
    HTTPProxy: 'httpproxies',
    KafkaMirrorMaker2: 'kafkamirrormaker2s',
    Logstash: 'logstashes',
    Prometheus: 'prometheuses',
    Vertex: 'vertices', // of Numaflow
    postgresql: 'postgresqls',
  }
  for (const [kind, name] of Object.entries(names)) t.equal(pluralOf(kind), name)
})

t.test('kinds that a role cannot name are left to the cluster', async (t) => {
  const rule = (kind: string, ...known: string[]) => ({ kind, known })
  const rules = [rule('*.example.com/*'), rule('b.com/*Policy', 'OddPolicy'), rule('c.com/*'), rule('a.com/Thing')]
  const { groups, unnamed } = rightsFor([...rules, rule('b.com/Thing')])
  t.strictSame(
    [...groups],
    [
      ['a.com', ['things']],
      ['b.com', ['oddpolicies', 'things']],
    ],
  )
  t.strictSame(unnamed, ['*.example.com/*', 'c.com/*'])
})
