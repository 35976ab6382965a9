import t from 'tap'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, nameOf } from './preview-questions.ts'

/** Objects that leave Git, as agentk will treat them: deleted with all that goes with them, waiting, or staying. */

const marks = {
  own: { 'agent.gitlab.com/prune': 'never' },
  argo: { 'argocd.argoproj.io/sync-options': 'Prune=false' },
  flux: { 'kustomize.toolkit.fluxcd.io/prune': 'disabled' },
  helm: { 'helm.sh/resource-policy': 'keep' },
  cli: { 'cli-utils.sigs.k8s.io/on-remove': 'keep' },
  life: { 'client.lifecycle.config.k8s.io/deletion': 'detach' },
}

/** Definition of a kind of another tool, with any fields. */
function definitionOf(group: string, kind: string, plural: string) {
  const { spec, ...rest } = widgetDefinition
  const names = { plural, kind, singular: kind.toLowerCase() }
  const versions = spec.versions.map((one) => ({ ...one, name: 'v1' }))
  return { ...rest, metadata: { name: `${plural}.${group}` }, spec: { ...spec, group, names, versions } }
}

t.test('what leaves', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const definitions = 'apiextensions.k8s.io'
  const deleters = [
    ['kustomize.toolkit.fluxcd.io', 'Kustomization', 'kustomizations'],
    ['helm.toolkit.fluxcd.io', 'HelmRelease', 'helmreleases'],
    ['argoproj.io', 'Application', 'applications'],
  ] as const
  for (const [group, kind, plural] of deleters)
    await ground.create(keyOf('CustomResourceDefinition', '', '', definitions), definitionOf(group, kind, plural))
  const staying = Object.fromEntries(
    Object.entries(marks).map(([name, annotations]) => [`${name}.json`, mapOf(name, '1', { annotations })]),
  )
  const controlled = Object.fromEntries(
    deleters.map(([group, kind]) => [
      `${kind}.json`,
      JSON.stringify({ apiVersion: `${group}/v1`, kind, metadata: { name: 'more' }, spec: { prune: true } }),
    ]),
  )
  const base = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`map-${i}.json`, mapOf(`map-${i}`)]))
  const files = {
    ...base,
    ...staying,
    ...controlled,
    'asks.json': mapOf('asks', '1', { annotations: { 'agent.gitlab.com/prune': 'confirm' } }),
    'space.yaml': '{apiVersion: v1, kind: Namespace, metadata: {name: space}}',
    'inside.json': mapOf('inside', '1', { namespace: 'space' }),
    'widgets.json': JSON.stringify(widgetDefinition),
    'widget.yaml': '{apiVersion: example.com/v1, kind: Widget, metadata: {name: own}}',
  }
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 502n })
  const ask = (changed: Readonly<Record<string, string>>) => askForPreview(methods(), changed, { source })
  const without = (...gone: string[]) =>
    Object.fromEntries(Object.entries(files).filter(([file]) => !gone.includes(file)))

  for (const name of Object.keys(marks)) {
    await t.test(`an object with the mark of ${name} stays, and counts in nothing else`, async (t) => {
      const { objects, end } = await ask(without(`${name}.json`))
      t.strictSame(objects.map(nameOf), [`stays ConfigMap shop/${name}`])
      t.match(objects[0]?.text, /annotations say never/)
      t.match(end, { staying: 1, deleted: 0, waiting: 0, changed: 0 })
    })
  }

  await t.test('an object whose annotation asks waits', async (t) => {
    t.strictSame((await ask(without('asks.json'))).objects.map(nameOf), ['waits ConfigMap shop/asks'])
  })

  for (const [, kind] of deleters) {
    await t.test(`the controller of a ${kind} deletes more`, async (t) => {
      const { objects } = await ask(without(`${kind}.json`))
      t.strictSame(objects.map(nameOf), [`deleted ${kind} shop/more`])
      t.match(objects[0]?.alsoDeletedText, /not listed here/)
    })
  }

  await t.test('a namespace waits, and says what goes with it', async (t) => {
    await ground.create(keyOf('ConfigMap', 'others', 'space'), {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'others', namespace: 'space' },
    })
    const { objects } = await ask(without('space.yaml', 'inside.json'))
    t.strictSame(objects.map(nameOf).sort(), ['waits ConfigMap space/inside', 'waits Namespace space'])
    const space = objects.find(({ key }) => key?.kind === 'Namespace')
    t.strictSame(space?.alsoDeleted, ['ConfigMap/others'])
    t.match(space?.alsoDeletedText, /all objects in Namespace space are deleted with it/)
    t.match(space?.text, /prune_confirm: Namespace/)
  })

  await t.test('a definition waits, and says which objects go with it', async (t) => {
    await ground.readKinds()
    await ground.create(keyOf('Widget', '', 'shop', 'example.com'), {
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: { name: 'others', namespace: 'shop' },
    })
    const { objects } = await ask(without('widgets.json', 'widget.yaml'))
    t.strictSame(objects.map(nameOf).sort(), [
      'waits CustomResourceDefinition widgets.example.com',
      'waits Widget shop/own',
    ])
    const definition = objects.find(({ key }) => key?.kind === 'CustomResourceDefinition')
    t.strictSame(definition?.alsoDeleted, ['Widget.example.com/shop/others'])
  })

  await t.test('an object that somebody or another inventory has taken is not deleted', async (t) => {
    const owner = (value: string | null) => ({
      metadata: { annotations: { 'config.k8s.io/owning-inventory': value } },
    })
    await ground.merge(keyOf('ConfigMap', 'map-0'), owner(null))
    await ground.merge(keyOf('ConfigMap', 'map-1'), owner('9-9'))
    const { objects } = await ask(without('map-0.json', 'map-1.json'))
    const names = objects.filter(({ action }) => action !== 'drifted').map(nameOf)
    t.strictSame(names, ['stays ConfigMap shop/map-0'], 'the object of another inventory is not its own any more')
  })

  await t.test('an empty choice of files waits as a whole', async (t) => {
    const { objects, end } = await ask({})
    t.ok(
      objects.every(({ action }) => ['waits', 'stays'].includes(action)),
      objects.map(nameOf).join(),
    )
    t.equal(end.deleted, 0)
  })
})

t.test('a source without prune, and one that has applied nothing', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const files = { 'a.json': mapOf('a'), 'b.json': mapOf('b') }
  const {
    methods,
    id: source,
    configure,
  } = await followSource(t, ground, files, { projectId: 503n, block: { prune: false } })
  const { objects } = await askForPreview(methods(), { 'a.json': mapOf('a') }, { source })
  t.strictSame(objects.map(nameOf), ['stays ConfigMap shop/b'])
  t.match(objects[0]?.text, /prune: false/)
  const unknown = await askForPreview(methods(), files, { source: '42-999' })
  t.match(unknown.end.problem, /does not follow/)
  t.strictSame(unknown.objects, [])
  configure({ manifest_projects: [] })
  t.match((await askForPreview(methods(), files, { source })).end.problem, /does not follow/)
})
