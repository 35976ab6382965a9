import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { followSource, mapOf } from './followed-source.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { allow, askForPreview, changeText, countsOf, nameOf, RecordingClient } from './preview-questions.ts'

/** Previews while something else happens, and what they say without live values. */

const isDryRun = ({ path }: { readonly path: string }) => path.includes('dryRun=All')
const web = (tier: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { tier: ${tier} } }
  template:
    metadata: { labels: { tier: ${tier} } }
    spec: { containers: [{ name: web, image: "nginx:1" }] }
`

t.test('previews that something interrupts', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  const client = RecordingClient.start(t, ground)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  await allow(ground, 'pods', [{ apiGroups: [''], resources: ['pods', 'namespaces'] }])
  const files = { 'a.json': mapOf('a'), 'b.json': mapOf('b'), 'web.yaml': web('old') }
  const side = await followSource(t, ground, files, { projectId: 511n, client })
  const { methods, id: source, project, becomesSynced } = side
  const ask = (changed: Readonly<Record<string, string>>, asked: { values?: boolean; as?: string } = {}) =>
    askForPreview(methods(), changed, { source, ...asked })
  t.afterEach(() => {
    client.onCall = () => undefined
  })

  await t.test('without values, texts of the API server are not shown, nor are values in paths', async (t) => {
    const marked = mapOf('a', '1', { finalizers: ['planted.example.com/value'] })
    const change = { ...files, 'a.json': marked, 'web.yaml': web('new') }
    const shown = await ask(change)
    t.match(shown.objects[0]?.text, /field is immutable/)
    t.match(shown.text, /planted/)
    const { objects, text } = await ask(change, { values: false })
    t.strictSame(objects.map(nameOf), ['fails Deployment shop/web', 'changed ConfigMap shop/a'])
    t.match(objects[0]?.text, /a field of it cannot change in place/)
    t.strictSame(objects[1]?.field.map(changeText), ['added .metadata.finalizers[=…] - -> -'])
    t.notMatch(text, /planted|field is immutable/)
  })

  await t.test('an object that the API server does not answer for is no silent one', async (t) => {
    const change = { ...files, 'a.json': mapOf('a', '2') }
    client.onCall = (call) => {
      if (isDryRun(call)) throw new Error('the API server is away')
    }
    const { objects, end } = await ask(change)
    t.strictSame(objects.map(nameOf), ['fails ConfigMap shop/a'])
    t.strictSame(countsOf(end), { objects: 3, failing: 1 })
    client.onCall = ({ path }) => {
      if (path.endsWith('/configmaps/a')) throw new Error('the API server is away')
    }
    await t.rejects(ask(change), { code: 'INTERNAL' })
  })

  await t.test('what an account may not see of a Pod makes no difference', async (t) => {
    const pod = (account: string) => {
      const spec = { serviceAccountName: account, containers: [{ name: 'a', image: 'a:1' }] }
      return JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'one' }, spec })
    }
    const answers = async () => {
      const { text } = await ask({ ...files, 'pod.json': pod('hidden') }, { as: 'pods' })
      return text.replace(/"atMs":"\d+"/, '')
    }
    const without = await answers()
    await ground.create(keyOf('ServiceAccount', 'hidden'), { metadata: { name: 'hidden' } })
    t.equal(await answers(), without)
    t.match(without, /created.*you may not get/)
  })

  await t.test('a commit that comes meanwhile is told', async (t) => {
    const next = { ...files, 'b.json': mapOf('b', 'next') }
    let isPushed = false
    client.onCall = async (call) => {
      if (!isDryRun(call) || isPushed) return
      isPushed = true
      project.push(next)
      await becomesSynced()
    }
    const { end } = await ask({ ...files, 'a.json': mapOf('a', '2') })
    t.match(end.problem, /another commit meanwhile/)
    t.equal((await ask({ ...next, 'a.json': mapOf('a', '2') })).end.problem, '')
  })

  await t.test('another configuration that comes meanwhile is told', async (t) => {
    const block = { id: 'platform/shop', default_namespace: 'shop', prune: false }
    client.onCall = (call) => {
      if (isDryRun(call)) side.configure({ manifest_projects: [block] })
    }
    const { end } = await ask({ ...files, 'a.json': mapOf('a', '2') })
    t.match(end.problem, /configured in another way/)
    await eventually(async () => (await ask(files)).end.problem === '')
  })

  await t.test('a preview ends with the term, and calls nothing a failure of the change', async (t) => {
    const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    client.onCall = async (call) => {
      if (!isDryRun(call)) return
      begun.resolve()
      await released.promise
    }
    const asked = askForPreview(methods(), { ...files, 'a.json': mapOf('a', '2') }, { source })
    const rejected = t.rejects(asked)
    await begun.promise
    await side.stop()
    released.resolve()
    await rejected
  })
})

t.test('an object that moves to another source of the project', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const project = new ProjectKas(512n)
  const source = (name: string) => ({
    id: 'platform/shop',
    name,
    default_namespace: 'shop',
    paths: [{ glob: `${name}/**` }],
  })
  const { methods } = await startGitops(t, ground, project, { manifest_projects: [source('one'), source('two')] })
  project.push({ 'one/a.json': mapOf('a'), 'one/b.json': mapOf('b'), 'two/c.json': mapOf('c') })
  await eventually(() => {
    const now = (name: string) => project.states.findLast(({ source }) => source === `42-512-${name}`)
    return ['one', 'two'].every((name) => now(name)?.phase === Phase.SYNCED)
  })
  const left = await askForPreview(methods(), { 'one/b.json': mapOf('b') }, { source: '42-512-one' })
  t.strictSame(left.objects.map(nameOf), ['deleted ConfigMap shop/a'])
  t.match(left.objects[0]?.text, /unless the same change moves it to source 42-512-two/)
  const taken = { 'two/c.json': mapOf('c'), 'two/a.json': mapOf('a') }
  const came = await askForPreview(methods(), taken, { source: '42-512-two' })
  t.strictSame(came.objects.map(nameOf), ['adopted? ConfigMap shop/a'])
  t.match(came.objects[0]?.text, /source 42-512-one has it/)
  t.equal(came.end.failing, 0)
})
