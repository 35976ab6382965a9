import t from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { parseMayImpersonate } from '../../../../src/agentk/cluster/may-impersonate.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { AggregatedApi } from '../../../support/aggregated-api.ts'
import { eventually } from '../../../support/eventually.ts'
import { identities } from '../../../support/identities.ts'
import { followSource, mapOf } from './followed-source.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, changeText, nameOf } from './preview-questions.ts'

/** Previews of kinds of other servers, beside other sources, and for an account with few rights. */

const group = 'other.example.com'
const rbac = 'rbac.authorization.k8s.io'

t.test('no dry run goes to a kind of another server', { skip, timeout: 300_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start(t, controlPlane)
  const api = await AggregatedApi.start(t, controlPlane.admin, group)
  await eventually(() => api.isAvailable(), { timeoutMs: 60_000 })
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const gadget = (name: string, size: number) =>
    JSON.stringify({ apiVersion: `${group}/v1`, kind: 'Gadget', metadata: { name }, spec: { size } })
  const files = { 'gadget.json': gadget('one', 1), 'map.json': mapOf('map') }
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 511n })
  const written = [...api.writes]
  const { objects, end } = await askForPreview(
    methods(),
    { ...files, 'gadget.json': gadget('one', 2), 'new.json': gadget('two', 1) },
    { source },
  )
  t.strictSame(objects.map(nameOf).sort(), ['changed? Gadget shop/one', 'created? Gadget shop/two'])
  const changed = objects.find(({ action }) => action === 'changed')
  t.strictSame(changed?.field.map(changeText), ['changed .spec.size - -> 2'], "Git's side alone")
  t.match(changed?.text, /another server answers for/)
  t.match(end, { unverified: 2, failing: 0 })
  t.strictSame(api.writes, written)
})

t.test('an object that another source of the agent wants is not deleted', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const project = new ProjectKas(512n)
  const source = { id: 'platform/shop', default_namespace: 'shop' }
  const { methods } = await startGitops(t, ground, project, {
    manifest_projects: ['one', 'two'].map((name) => ({ ...source, name, paths: [{ glob: `${name}/**` }] })),
  })
  const files = { 'one/a.json': mapOf('a'), 'one/b.json': mapOf('b'), 'two/c.json': mapOf('c') }
  const isSynced = (id: string) => {
    const now = project.states.findLast((state) => state.source === id)
    return now?.phase === Phase.SYNCED && now.commit === project.commit
  }
  project.push(files)
  await eventually(() => isSynced('42-512-one') && isSynced('42-512-two'))
  const named = async () => {
    const answer = await askForPreview(methods(), { 'one/a.json': mapOf('a') }, { source: '42-512-one' })
    return answer.objects.map(nameOf)
  }
  t.strictSame(await named(), ['deleted ConfigMap shop/b'])
  project.push({ ...files, 'two/b.json': mapOf('b') })
  await eventually(() => project.states.findLast(({ source }) => source === '42-512-two')?.wanted === project.commit)
  await eventually(async () => (await named())[0] !== 'deleted ConfigMap shop/b')
  t.ok((await named()).every((name) => name === 'stays ConfigMap shop/b'))
})

t.test('an account that may not delete', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const account = { namespace: 'gitops', name: 'keeper' }
  await ground.create(keyOf('ServiceAccount', 'keeper', 'gitops'), { metadata: account })
  const verbs = ['get', 'list', 'watch', 'create', 'patch']
  const metadata = { name: 'keeper', namespace: 'shop' }
  await ground.create(keyOf('Role', 'keeper', 'shop', rbac), {
    metadata,
    rules: [{ apiGroups: [''], resources: ['configmaps'], verbs }],
  })
  await ground.create(keyOf('RoleBinding', 'keeper', 'shop', rbac), {
    metadata,
    subjects: [{ kind: 'ServiceAccount', ...account }],
    roleRef: { apiGroup: rbac, kind: 'Role', name: 'keeper' },
  })
  const files = { 'a.json': mapOf('a'), 'b.json': mapOf('b') }
  const may = { callers: new Set<string>(), kas: parseMayImpersonate(['serviceaccount:gitops:keeper']) }
  const accepted = identities({ may })
  const block = { access_as: { service_account: account } }
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 513n, block, accepted })
  const service = '{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}'
  const changed = { 'a.json': mapOf('a', '2'), 'service.yaml': service }
  const { objects } = await askForPreview(methods(), changed, { source })
  t.strictSame(objects.map(nameOf).sort(), [
    'changed ConfigMap shop/a',
    'fails Service shop/web',
    'stays ConfigMap shop/b',
  ])
  t.match(objects.find(({ action }) => action === 'stays')?.text, /part of the commit is not applied/, 'as in a round')
  const { objects: alone } = await askForPreview(methods(), { 'a.json': mapOf('a') }, { source })
  t.strictSame(alone.map(nameOf), ['changed ConfigMap shop/a', 'stays ConfigMap shop/b'])
  t.match(alone[1]?.text, /may not delete/)
})
