import t from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { parseMayImpersonate } from '../../../../src/agentk/cluster/may-impersonate.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { AggregatedApi } from '../../../support/aggregated-api.ts'
import { eventually } from '../../../support/eventually.ts'
import { identities } from '../../../support/identities.ts'
import { installedRenderers } from '../../../support/renderers.ts'
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
  t.strictSame(alone.map(nameOf), ['stays ConfigMap shop/b'])
  t.match(alone[0]?.text, /may not delete/)
})

const [kustomize] = installedRenderers('kustomize')
const cannotRender = skip || (!kustomize && 'needs kustomize in KAS_RENDERERS')

t.test('a source that is rendered', { skip: cannotRender, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const prefixed = (prefix: string) => `namePrefix: ${prefix}\nresources: [map.json]\n`
  const files = { 'app/kustomization.yaml': prefixed('a-'), 'app/map.json': mapOf('map') }
  const block = { kustomize: { path: 'app' } }
  const of = { projectId: 514n, block, path: kustomize?.folder ?? '' }
  const { methods, id: source, project, becomesSynced } = await followSource(t, ground, files, of)
  const ask = (changed: Readonly<Record<string, string>>) =>
    askForPreview(methods(), { ...files, ...changed }, { source })

  await t.test('the output of the change is compared', async (t) => {
    const { objects } = await ask({ 'app/map.json': mapOf('map', '2') })
    t.strictSame(objects.map(nameOf), ['changed ConfigMap shop/a-map'])
    const renamed = await ask({ 'app/kustomization.yaml': prefixed('b-') })
    t.strictSame(renamed.objects.map(nameOf).sort(), ['created ConfigMap shop/b-map', 'deleted ConfigMap shop/a-map'])
  })

  await t.test('what the program refuses is refused', async (t) => {
    const { end } = await ask({ 'app/kustomization.yaml': 'resources: [map.json, missing.json]\n' })
    t.match(end.refusal, { text: /missing\.json/ })
    const remote = await ask({ 'app/kustomization.yaml': 'resources: ["https://example.com/x.yaml"]\n' })
    t.match(remote.end.refusal, { file: /kustomization\.yaml/ })
  })

  await t.test('rounds and previews render by turns', async (t) => {
    const previews = [1, 2].map((value) => ask({ 'app/map.json': mapOf('map', `preview-${value}`) }))
    project.push({ ...files, 'app/map.json': mapOf('map', 'pushed') })
    await becomesSynced()
    for (const { objects } of await Promise.all(previews))
      t.ok(objects.every((one) => nameOf(one).endsWith('ConfigMap shop/a-map')))
    t.equal((await ground.get(keyOf('ConfigMap', 'a-map'))).data.value, 'pushed')
  })
})
