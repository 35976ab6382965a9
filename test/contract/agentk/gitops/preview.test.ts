import t from 'tap'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, changeText, countsOf, nameOf, RecordingClient } from './preview-questions.ts'

/** Previews of changes by agentk, with a real API server. */

/** objects of the source; a few of them change */
const count = Number(process.env.KAS_PREVIEW_OBJECTS ?? 100)
const rollout = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
        - { name: web, image: "nginx:1", ports: [{ containerPort: 80 }] }
        - { name: log, image: "log:1", args: [a, b] }
`

t.test('previews', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  const client = RecordingClient.start(t, ground)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const maps = Array.from({ length: count }, (_, i) => mapOf(`map-${i}`, 'old'))
  const single = 5
  const many = {
    ...Object.fromEntries(maps.slice(0, single).map((map, i) => [`map-${i}.json`, map])),
    'many.yaml': maps.slice(single).join('\n---\n'),
  }
  const files = { ...many, 'web.yaml': rollout, 'gone.json': mapOf('gone') }
  const {
    methods,
    project,
    id: source,
    becomes,
    becomesSynced,
  } = await followSource(t, ground, files, { projectId: 501n, client })
  const ask = (
    changed: Readonly<Record<string, string>>,
    asked: { readonly auditId?: string; readonly values?: boolean } = {},
  ) => askForPreview(methods(), changed, { source, ...asked })

  await t.test('nothing changes, and only rights and the inventory are asked about', async (t) => {
    const { objects, end } = await ask(files, { auditId: 'same' })
    t.strictSame(objects.map(nameOf), [])
    t.match(end, { objects: count + 2, notCompared: 0, commit: project.commit, problem: '' })
    t.ok(client.of('same').length < 8, client.of('same').join('\n'))
  })

  await t.test('five changed objects take few calls, and write nothing', async (t) => {
    const five = Object.fromEntries([0, 1, 2, 3, 4].map((i) => [`map-${i}.json`, mapOf(`map-${i}`, 'new')]))
    const since = performance.now()
    const { objects, end } = await ask({ ...files, ...five }, { auditId: 'five' })
    t.comment(`${Math.round(performance.now() - since)} ms, ${client.of('five').length} calls`)
    t.strictSame(
      objects.map(nameOf),
      [0, 1, 2, 3, 4].map((i) => `changed ConfigMap shop/map-${i}`),
    )
    t.strictSame(objects[0]?.field.map(changeText), ['changed .data.value "old" -> "new"'])
    t.match(objects[0], { file: 'map-0.json', line: 1, unverified: false })
    t.strictSame(countsOf(end), { objects: count + 2, changed: 5 })
    const calls = client.of('five')
    t.ok(calls.length < 20, calls.join('\n'))
    const writes = calls.filter((call) => !call.startsWith('GET') && !call.includes('dryRun=All'))
    t.ok(
      writes.every((call) => call.includes('/selfsubject')),
      writes.join('\n'),
    )
  })

  await t.test('without values there are names and paths alone', async (t) => {
    const { objects, text } = await ask({ ...files, 'map-0.json': mapOf('map-0', 'planted') }, { values: false })
    t.strictSame(objects[0]?.field.map(changeText), ['changed .data.value - -> -'])
    t.notMatch(text, /planted|old/)
  })

  await t.test('fields of containers are named by their keys, without defaults', async (t) => {
    const change = rollout.replace('nginx:1', 'nginx:2').replace('args: [a, b]', 'args: [a, c]')
    const { objects } = await ask({ ...files, 'web.yaml': change })
    t.strictSame(objects.flatMap(({ field }) => field.map(changeText)).sort(), [
      'changed .spec.template.spec.containers[name="log"].args ["a","b"] -> ["a","c"]',
      'changed .spec.template.spec.containers[name="web"].image "nginx:1" -> "nginx:2"',
    ])
    const without = rollout.replace(/ +- \{ name: log.*\n/, '')
    const [removed] = (await ask({ ...files, 'web.yaml': without })).objects
    t.strictSame(removed?.field.map(changeText), [
      'missing .spec.template.spec.containers[name="log"] {"args":["a","b"],"image":"log:1","name":"log"} -> -',
    ])
  })

  await t.test('a null, and other words for the same value, are no change', async (t) => {
    const nulls = rollout.replace('spec:\n      containers', 'spec:\n      nodeSelector: null\n      containers')
    t.strictSame((await ask({ ...files, 'web.yaml': nulls })).objects.map(nameOf), [])
  })

  await t.test('new objects have the fields of Git alone', async (t) => {
    const service = '{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}'
    const { objects, end } = await ask({ ...files, 'service.yaml': service })
    t.strictSame(objects.map(nameOf), ['created Service shop/web'])
    t.strictSame(objects[0]?.field.map(changeText), ['added .spec.ports - -> [{"port":80}]'])
    t.equal(end.created, 1)
  })

  await t.test('a namespace with its content, and a definition with its instances, come together', async (t) => {
    const definition = JSON.stringify({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'gadgets.example.com' },
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'gadgets', kind: 'Gadget' },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
      },
    })
    const { objects, end } = await ask({
      ...files,
      'namespace.yaml': '{apiVersion: v1, kind: Namespace, metadata: {name: new}}',
      'inside.json': mapOf('inside', '1', { namespace: 'new' }),
      'definition.json': definition,
      'gadget.yaml': '{apiVersion: example.com/v1, kind: Gadget, metadata: {name: one}, size: 3}',
    })
    t.strictSame(objects.map(nameOf).sort(), [
      'created CustomResourceDefinition gadgets.example.com',
      'created Namespace new',
      'created? ConfigMap new/inside',
      'created? Gadget shop/one',
    ])
    t.match(end, { created: 4, unverified: 2, failing: 0 })
    t.match(objects.find(({ key }) => key?.kind === 'Gadget')?.text, /definition of its kind comes with/)
  })

  await t.test('what leaves is deleted, or stays by its marks, and a large deletion waits', async (t) => {
    const { 'gone.json': _, ...without } = files
    const { objects, end } = await ask(without)
    t.strictSame(objects.map(nameOf), ['deleted ConfigMap shop/gone'])
    t.strictSame(countsOf(end), { objects: count + 1, deleted: 1 })
    const few = await ask({ 'web.yaml': rollout })
    t.equal(few.end.waiting, count + 1)
    t.match(few.objects[0]?.text, /prune_limit/)
  })

  await t.test('a file that agentk refuses is named by line', async (t) => {
    const { objects, end } = await ask({ ...files, 'bad.yaml': '\n\nkind: [\n' })
    t.strictSame(objects, [])
    t.match(end.refusal, { file: 'bad.yaml', line: Number })
    t.ok((end.refusal?.line ?? 0) > 0)
    t.match((await ask({ ...files, 'again.json': mapOf('gone') })).end.refusal, { text: /also defined at/, line: 1 })
  })

  await t.test('what an immutable field forbids fails, or is made anew', async (t) => {
    const other = rollout
      .replace('matchLabels: { app: web }', 'matchLabels: { app: web, tier: a }')
      .replace('labels: { app: web } }', 'labels: { app: web, tier: a } }')
    const failing = await ask({ ...files, 'web.yaml': other })
    t.strictSame(failing.objects.map(nameOf), ['fails Deployment shop/web'])
    t.match(failing.objects[0]?.text, /field is immutable/)
    const replaced = other.replace('name: web }', 'name: web, annotations: { agent.gitlab.com/replace: allow } }')
    const anew = await ask({ ...files, 'web.yaml': replaced })
    t.strictSame(anew.objects.map(nameOf), ['recreated Deployment shop/web'])
    t.strictSame(anew.objects[0]?.field.filter(({ path }) => path.includes('selector')).map(changeText), [
      'added .spec.selector.matchLabels.tier - -> "a"',
    ])
    const asking = replaced.replace('replace: allow', 'replace: allow, agent.gitlab.com/prune: confirm')
    const textOf = async (values: boolean) =>
      (await ask({ ...files, 'web.yaml': asking }, { values })).objects.map((one) => `${nameOf(one)}: ${one.text}`)
    const waits = 'waits Deployment shop/web: it is to be deleted and made again, and that waits for approval'
    t.strictSame(await textOf(false), [waits], 'a reason may have live values')
    t.match(await textOf(true), [`${waits}: its annotation asks for it`])
  })

  await t.test('one refused object leaves the others compared', async (t) => {
    const bad = '{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 99999}]}}'
    const { objects, end } = await ask({ ...files, 'bad.yaml': bad, 'map-0.json': mapOf('map-0', 'new') })
    t.strictSame(objects.map(nameOf), ['fails Service shop/bad', 'changed ConfigMap shop/map-0'])
    t.match(end, { failing: 1, changed: 1 })
    t.match(objects[0], { file: 'bad.yaml', line: 1 })
  })

  await t.test('drift is shown apart, and is no change', async (t) => {
    await ground.merge(keyOf('ConfigMap', 'map-1'), { data: { value: 'by hand' } }, 'kubectl-edit')
    await becomes((now) => now.drifted.some(({ key }) => key?.name === 'map-1'))
    const { objects, end } = await ask({ ...files, 'map-2.json': mapOf('map-2', 'new') })
    t.strictSame(objects.map(nameOf), ['changed ConfigMap shop/map-2', 'drifted ConfigMap shop/map-1'])
    t.match(objects[1], { field: [{ path: '.data.value', kind: 'changed', manager: 'kubectl-edit' }] })
    t.match(end, { changed: 1, drifted: 1 })
  })

  await t.test('what is previewed is what comes', async (t) => {
    const { 'gone.json': _, ...without } = files
    const next = { ...without, 'web.yaml': rollout.replace('nginx:1', 'nginx:3') }
    t.strictSame((await ask(next)).objects.map(nameOf).slice(0, 2), [
      'deleted ConfigMap shop/gone',
      'changed Deployment shop/web',
    ])
    project.push(next)
    await becomesSynced()
    t.equal(await ground.get(keyOf('ConfigMap', 'gone')), undefined)
    t.equal((await ask(next)).end.changed, 0)
  })
})
