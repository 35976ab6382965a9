import { join } from 'node:path'
import t, { type Test } from 'tap'
import { rendered, skip as withoutHelm } from '../../../support/charts/chart-words.ts'
import { eventually } from '../../../support/eventually.ts'
import { objectsOf } from '../../../support/manifests.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'
import { keptFields } from './kept-fields.ts'
import { Pod } from './pod.ts'
import { type Asked, type Change, createNamespaces, shippedPolicy, WarnedRequests } from './warned-requests.ts'

/**
 * The API server warns a person who changes what a source keeps, and nobody else. test/e2e/changes-by-hand.test.ts plays
 * it with kubectl, through kas.
 */

const restarted = (annotations: Readonly<Record<string, string | null>>, more: object = {}) => ({
  spec: { ...more, template: { metadata: { annotations } } },
})
const one = 'Validation failed for ValidatingAdmissionPolicy'

t.test('the warning about changes by hand', { skip, timeout: 200_000 }, async (t) => {
  const ground = await Ground.start(t)
  const people = new WarnedRequests(ground)
  await createNamespaces(ground)
  await people.create(widgetDefinition)
  await eventually(async () => {
    await ground.readKinds()
    return ground.kinds.find({ group: 'example.com', kind: 'Widget' }) !== undefined
  })
  await people.enforce(shippedPolicy())
  await t.test('names source, object and next step', (t) => namesAll(t, people))
  await t.test('fields of any kind count, with a custom kind of any shape', (t) => fieldsOfKinds(t, people))
  await t.test('metadata, status, other resources and requests without a change do not', (t) => others(t, people))
  await t.test('a restart is no change', (t) => restarts(t, people))
  await t.test('a dry run is no change', (t) => dryRuns(t, people))
  await t.test('people get it, and no account of the cluster', (t) => accounts(t, people))
  await t.test('agentk gets none for all that a source does', (t) => sources(t, ground, people))
  await t.test('objects of nobody, and of another agent', (t) => foreign(t, people))
  await t.test('hostile names, large objects, many at once', (t) => hostile(t, people))
})

t.test('two releases in one cluster', { skip: skip || withoutHelm, timeout: 60_000 }, async (t) => {
  const ground = await Ground.start(t)
  const people = new WarnedRequests(ground)
  await createNamespaces(ground)
  const values = [join(import.meta.dirname, '../../../support/charts/agentk/least.yaml')]
  const policies = async (release: string, namespace: string, agentId?: number) => {
    const set = ['rbac.gitops.enabled=true', ...(agentId === undefined ? [] : [`config.agentId=${agentId}`])]
    const objects = objectsOf(await rendered({ chart: 'agentk', release, namespace, values, set }), release)
    return objects.filter(({ kind }) => kind.startsWith('ValidatingAdmissionPolicy'))
  }
  const both = [...(await policies('agentk', 'one', 4)), ...(await policies('agentk', 'other', 42))]
  await people.enforce(both, ['4-7', '42-7'])
  for (const [id, release] of [
    ['4-7', 'one'],
    ['42-7-web', 'other'],
  ] as const) {
    const key = await people.keep(configMap(`of-${id}`, { a: '1' }), id)
    const policy = `'agentk-kept-in-git-agentk.${release}'`
    for (const change of [{ data: { a: '2' } }, 'DELETE'] as const) {
      const warnings = await people.change(key, change)
      t.equal(warnings.length, 1, 'one warning')
      t.match(warnings[0], `${one} ${policy} with binding ${policy}: GitOps source ${id} keeps`)
    }
  }
  // a release without config.agentId does not know which objects are its agent's, and warns of all
  const names = (warnings: readonly string[]) => warnings.map((text) => /'agentk-kept-in-git-([^']*)'/.exec(text)?.[1])
  for (const namespace of ['third', 'fourth']) await people.enforce(await policies('agentk', namespace), [])
  let value = 0
  for (const [id, releases] of [
    ['9-7', ['agentk.fourth', 'agentk.third']],
    ['42-7', ['agentk.fourth', 'agentk.other', 'agentk.third']],
  ] as const) {
    const key = await people.keep(configMap(`of-all-${id}`, { a: '1' }), id)
    // the API server takes a moment to know a policy
    await eventually(async () => {
      value += 1
      const warnings = await people.change(key, { data: { a: `v${value}` } })
      return names(warnings).sort().join() === releases.join()
    })
    t.strictSame(names(await people.change(key, 'DELETE')).sort(), releases, `${id}: each warns once`)
  }
})

async function namesAll(t: Test, people: WarnedRequests): Promise<void> {
  const text = (title: string) => {
    const policy = "'agentk-kept-in-git-agentk'"
    const message = `GitOps source 42-7 keeps this object (${title}) as it is in Git, and may undo this: change it in Git`
    return [`${one} ${policy} with binding ${policy}: ${message}`]
  }
  const map = await people.keep(configMap('named', { a: '1' }))
  t.strictSame(await people.change(map, { data: { a: '2' } }), text('ConfigMap shop/named'))
  t.strictSame(await people.change(map, 'DELETE'), text('ConfigMap shop/named'))
  const role = await people.keep({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'a"b\\c:d' },
  })
  t.strictSame(await people.change(role, 'DELETE'), text('ClusterRole a"b\\c:d'))
}

async function fieldsOfKinds(t: Test, people: WarnedRequests): Promise<void> {
  for (const [object, ...changes] of keptFields) {
    const key = await people.keep(object)
    for (const change of changes) {
      const name = `${key.kind} ${key.name} ${JSON.stringify(change)}`
      t.equal((await people.change(key, change)).length, 1, name)
      t.strictSame(await people.change(key, change), [], `${name}, again`)
    }
    t.strictSame(await people.change(key, { metadata: { labels: { by: 'hand' } } }), [], `${key.kind}: a label`)
    t.equal((await people.change(key, 'DELETE')).length, 1, `${key.kind} is deleted`)
  }
}

async function others(t: Test, people: WarnedRequests): Promise<void> {
  const web = await people.keep(deployment('others'))
  const silent: readonly (readonly [name: string, change: object])[] = [
    ['a label', { metadata: { labels: { by: 'hand' } } }],
    ['an annotation', { metadata: { annotations: { by: 'hand' } } }],
    ['an owner', { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'a', uid: 'b' }] } }],
    ['a finalizer', { metadata: { finalizers: ['example.com/a'] } }],
    ['no finalizer', { metadata: { finalizers: null } }],
    ['the label of the source', { metadata: { labels: { 'agent.gitlab.com/inventory': '42-7-other' } } }],
    ['a status', { status: { replicas: 7 } }],
    ['the same value', { spec: { template: { spec: { containers: [{ name: 'web', image: 'nginx:1' }] } } } }],
  ]
  for (const [name, change] of silent) t.strictSame(await people.change(web, change), [], name)
  const scale = '/apis/apps/v1/namespaces/shop/deployments/others/scale'
  const contentType = 'application/merge-patch+json'
  const scaled = await people.send('PATCH', scale, { spec: { replicas: 4 } }, { contentType })
  t.match(scaled, { status: 200, warnings: [] }, 'scale')
  const removal = { metadata: { labels: { 'agent.gitlab.com/inventory': null } }, spec: { replicas: 1 } }
  t.equal((await people.change(web, removal)).length, 1, 'the label goes together with a field')
  t.strictSame(await people.change(web, { spec: { replicas: 2 } }), [], 'without the label')
  const adopted = { metadata: { labels: { 'agent.gitlab.com/inventory': '42-7' } }, spec: { replicas: 3 } }
  t.strictSame(await people.change(web, adopted), [], 'it was not kept before')
  const widget = await people.keep({ apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'others' } })
  t.strictSame(await people.change(widget, { status: { ready: true } }), [], 'a status without a subresource')
}

async function restarts(t: Test, people: WarnedRequests): Promise<void> {
  const kubectl = 'kubectl.kubernetes.io/restartedAt'
  const widget = {
    apiVersion: 'example.com/v1',
    kind: 'Widget',
    metadata: { name: 'restarts' },
    spec: { template: { metadata: { labels: { a: 'b' } } } },
  }
  for (const object of [deployment('restarts'), widget]) {
    const key = await people.keep(object)
    const counted = async (change: Change, count: number, name: string) =>
      t.equal((await people.change(key, change)).length, count, `${key.kind}: ${name}`)
    await counted(restarted({ [kubectl]: '1' }), 0, 'the first')
    await counted(restarted({ [kubectl]: '2' }), 0, 'the second')
    await counted(restarted({ 'tool.example/restartedAt': '1' }), 0, 'by another tool')
    await counted(restarted({ [kubectl]: null }), 0, 'undone')
    await counted(restarted({ 'tool.example/restarted': '1' }), 1, 'another annotation')
    await counted(restarted({ [kubectl]: '3', 'tool.example/restarted': '2' }), 1, 'both')
    await counted(restarted({ restartedAt: '1' }), 1, 'an annotation without a prefix')
    await counted(restarted({ [kubectl]: '4' }, { paused: true }), 1, 'together with another field')
    await counted({ spec: { template: { metadata: { annotations: null } } } }, 1, 'all annotations go')
    await counted(restarted({ [kubectl]: '5' }), 0, 'after that')
    await counted({ metadata: { annotations: { [kubectl]: '6' } } }, 0, 'an annotation of the object')
  }
}

async function dryRuns(t: Test, people: WarnedRequests): Promise<void> {
  const map = await people.keep(configMap('dry', { a: '1' }))
  const query = '?dryRun=All'
  t.strictSame(await people.change(map, { data: { a: '2' } }, { query }), [])
  t.strictSame(await people.change(map, 'DELETE', { query }), [])
  const apply: Asked = { query: '?fieldManager=kubectl&force=true', contentType: 'application/apply-patch+yaml' }
  const applied = configMap('dry', { a: '2' })
  t.strictSame(await people.change(map, applied, { ...apply, query: `${apply.query}&dryRun=All` }), [], 'apply')
  t.equal((await people.change(map, applied, apply)).length, 1, 'apply without dry run')
}

async function accounts(t: Test, people: WarnedRequests): Promise<void> {
  const map = await people.keep(configMap('accounts', { a: '0' }))
  let value = 0
  const warnings = async (user: string) => {
    value += 1
    return (await people.change(map, { data: { a: String(value) } }, { user })).length
  }
  const persons = [
    'ada',
    'gitlab:user:ada',
    'gitlab:ci_job:901',
    'kubernetes-admin',
    'system:admin',
    'system',
    'a:system:b',
  ]
  for (const user of persons) t.equal(await warnings(user), 1, user)
  const programs = [
    'system:serviceaccount:agentk:agentk',
    'system:serviceaccount:shop:deployer',
    'system:serviceaccount:kube-system:deployment-controller',
    'system:kube-controller-manager',
    'system:apiserver',
    'system:node:one',
    'system:administrator',
  ]
  for (const user of programs) t.equal(await warnings(user), 0, user)
}

async function sources(t: Test, ground: Ground, people: WarnedRequests): Promise<void> {
  const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' }
  const subjects = [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }]
  await people.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'agentk' },
    roleRef: role,
    subjects,
  })
  const block = {
    access_as: { service_account: { namespace: 'agentk', name: 'agentk' } },
    prune_limit: '100%',
  } as const
  const pod = new Pod(ground, { projectId: 7n, block })
  const files = (value: string) => ({
    'map.json': JSON.stringify(configMap('source', { value })),
    'web.json': JSON.stringify(deployment('source', { replicas: Number(value) })),
  })
  await pod.bring(files('1'))
  const before = await warningCount(ground)
  const { kinds } = await pod.bring(files('2'))
  t.strictSame(kinds, { source: 'applied' })
  await pod.bring({ 'map.json': files('2')['map.json'] })
  t.equal(await ground.get(keyOf('Deployment', 'source', 'shop', 'apps')), undefined, 'pruned')
  t.equal(await warningCount(ground), before, 'no warning')
  await people.change(keyOf('ConfigMap', 'source'), { data: { value: '3' } })
  t.equal(await warningCount(ground), before + 1, 'a person gets one')
}

/** Returns the number of all warnings of the policy, as the API server counts them. */
async function warningCount(ground: Ground): Promise<number> {
  const { body } = await ground.controlPlane.admin.request('/metrics')
  const lines = body.match(/^apiserver_validating_admission_policy_check_total\{.*$/gm) ?? []
  const own = lines.filter((line) => line.includes('enforcement_action="warn"') && line.includes('agentk-kept-in-git'))
  return own.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

async function foreign(t: Test, people: WarnedRequests): Promise<void> {
  for (const id of ['4-7', '142-7', '421-7', '43-7', '', 'x']) {
    const key = await people.keep(configMap(`foreign-${id || 'none'}`, { a: '1' }), id)
    t.strictSame(await people.change(key, { data: { a: '2' } }), [], `label ${id}`)
    t.strictSame(await people.change(key, 'DELETE'), [], `label ${id}`)
  }
  const named = await people.keep(configMap('named-source', { a: '1' }), '42-7-web')
  t.match((await people.change(named, { data: { a: '2' } }))[0], 'GitOps source 42-7-web keeps')
}

async function hostile(t: Test, people: WarnedRequests): Promise<void> {
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role' }
  for (const name of ['a\u001b[31mb', 'two\nlines', 'name with \u00e9', '\u202eabc']) {
    const key = await people.keep({ ...role, metadata: { name } })
    const warnings = await people.change(key, 'DELETE')
    t.match(warnings, [/: GitOps source 42-7 keeps this object \(Role\) as it is in Git/], JSON.stringify(name))
  }

  const large = await people.keep(configMap('large', { a: 'x'.repeat(1_000_000) }))
  t.equal((await people.change(large, { data: { b: '1' } })).length, 1, 'a large value')
  const entries = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`e${i}`, '1']))
  const full = await people.keep(configMap('full', entries(5_000)))
  t.equal((await people.change(full, { data: { b: '1' } })).length, 1, 'a map with many fields')

  // beyond 1,000 fields a map is compared as a whole
  const wide = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'wide' }, ...entries(1_001) }
  const label = { metadata: { labels: { by: 'hand' } } }
  const restart = restarted({ 'kubectl.kubernetes.io/restartedAt': '1' })
  const key = await people.keep(wide)
  t.equal((await people.change(key, { more: 1 })).length, 1, 'many top-level fields')
  t.strictSame(await people.change(key, { more: 1 }), [], 'the same again')
  t.equal((await people.change(key, label)).length, 1, 'metadata count there')
  const web = deployment('annotated')
  const annotated = restarted(entries(1_001)).spec.template.metadata
  Object.assign((web.spec as { template: { metadata: object } }).template.metadata, annotated)
  const annotatedKey = await people.keep(web)
  t.equal((await people.change(annotatedKey, { spec: { paused: true } })).length, 1, 'many annotations of Pods')
  t.strictSame(await people.change(annotatedKey, label), [], 'metadata of the object')
  t.equal((await people.change(annotatedKey, restart)).length, 1, 'a restart counts there')

  for (const name of ['a', 'b', 'c']) await people.keep(configMap(`each-${name}`, {}, { labels: { all: 'yes' } }))
  const all = await people.send('DELETE', '/api/v1/namespaces/shop/configmaps?labelSelector=all%3Dyes')
  t.equal(all.status, 200)
  t.equal(all.warnings.length, 3, 'one for each object of a collection')
}
