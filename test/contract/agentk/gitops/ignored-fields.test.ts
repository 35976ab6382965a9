import t from 'tap'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import type { IgnoreBlock, SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** Fields that rules of `drift.ignore` leave to other managers, on a real API server. */

interface Web {
  readonly image?: string
  readonly cpu?: string
  readonly replicas?: number
  readonly annotations?: Readonly<Record<string, string>>
}

/** Deployment with two containers, as in Git. */
const web = (name: string, { image = 'app:1', cpu = '100m', replicas = 2, annotations = {} }: Web = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop', annotations },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        containers: [
          { name: 'proxy', image: 'proxy:1', resources: { requests: { cpu: '10m' } } },
          { name: 'app', image, args: ['serve'], resources: { requests: { cpu, memory: '64Mi' } } },
        ],
      },
    },
  },
})

/** Returns a Deployment with some fields of the container `app`, as another manager applies it. */
const container = (name: string, fields: object) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop' },
  spec: { template: { spec: { containers: [{ name: 'app', ...fields }] } } },
})
const requests = (cpu: string) => ({ resources: { requests: { cpu } } })
const files = (...objects: object[]) =>
  Object.fromEntries(objects.map((object, i) => [`${i}.json`, JSON.stringify(object)]))

t.test('ignored fields', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  let sources = 500n
  const block = (ignore: readonly IgnoreBlock[], more: SourceBlock): SourceBlock => ({
    prune_limit: '100%',
    prune_confirm: [],
    drift: { ignore },
    ...more,
  })
  const start = (ignore: readonly IgnoreBlock[], more: SourceBlock = {}) =>
    new Pod(ground, { projectId: ++sources, block: block(ignore, more) })
  /** Returns another process of the source that was started last. */
  const again = (ignore: readonly IgnoreBlock[], more: SourceBlock = {}) =>
    new Pod(ground, { projectId: sources, block: block(ignore, more) })
  const keyed = (name: string) => keyOf('Deployment', name, 'shop', 'apps')
  const app = async (name: string) =>
    (await ground.get(keyed(name))).spec.template.spec.containers.find((one: { name: string }) => one.name === 'app')
  const cpu = async (name: string) => (await app(name)).resources.requests.cpu
  const version = async (key: ObjectKey) => (await ground.get(key)).metadata.resourceVersion
  const ofApp = '.spec.template.spec.containers[name="app"]'

  await t.test(
    'resources of a container are left to their manager, and taken back once it owns them no more',
    async (t) => {
      const rule = { kinds: ['apps/Deployment'], paths: [`${ofApp}.resources`] }
      const pod = start([rule])
      const first = await pod.bring(files(web('resources')))
      t.notOk('leftOut' in (first.ends.resources ?? {}), 'a new object has all of Git')
      t.equal(await cpu('resources'), '100m')
      await ground.apply(keyed('resources'), container('resources', requests('700m')), 'vpa-updater')
      await ground.merge(keyed('resources'), { spec: { minReadySeconds: 9 } }, 'kubectl-edit')
      const second = await pod.bring(files(web('resources', { image: 'app:2' })))
      const leftOut = [
        {
          path: `${ofApp}.resources.requests.cpu`,
          manager: 'vpa-updater',
          rule: `{ kinds: [apps/Deployment], paths: [${ofApp}.resources] }`,
        },
      ]
      t.match(second.ends.resources, { kind: 'applied', overwritten: undefined, leftOut })
      t.match(await app('resources'), { image: 'app:2', resources: { requests: { cpu: '700m', memory: '64Mi' } } })
      const before = await version(keyed('resources'))
      for (const process of [pod, again([rule])]) {
        t.match((await process.bring(files(web('resources', { image: 'app:2' })))).ends.resources, {
          kind: 'unchanged',
          leftOut,
        })
      }
      t.equal(await version(keyed('resources')), before, 'nothing was written')
      await ground.apply(keyed('resources'), container('resources', {}), 'vpa-updater')
      t.equal(await cpu('resources'), undefined)
      const third = await again([rule]).bring(files(web('resources', { image: 'app:2' })))
      t.equal(third.kinds.resources, 'applied')
      t.notOk('leftOut' in (third.ends.resources ?? {}))
      t.equal(await cpu('resources'), '100m')
      t.equal((await pod.bring(files(web('resources', { image: 'app:2' })))).kinds.resources, 'unchanged')
    },
  )

  await t.test('other fields of the same item are taken back in the same apply', async (t) => {
    const pod = start([{ paths: [`${ofApp}.resources`] }])
    await pod.bring(files(web('beside')))
    await ground.apply(keyed('beside'), container('beside', { image: 'other:1', ...requests('700m') }), 'vpa-updater')
    const { ends } = await pod.bring(files(web('beside', { image: 'app:2' })))
    t.match(ends.beside, { overwritten: [{ field: `${ofApp}.image`, manager: 'vpa-updater' }], leftOut: { length: 1 } })
    t.match(await app('beside'), { image: 'app:2', resources: { requests: { cpu: '700m' } } })
  })

  await t.test('forms of rules: what each leaves to the manager, and what it does not', async (t) => {
    const forms: Readonly<Record<string, readonly [rule: IgnoreBlock, isLeft: boolean]>> = {
      item: [{ paths: [ofApp] }, true],
      'any-item': [{ paths: ['.spec.template.spec.containers[*].resources'] }, true],
      list: [{ paths: ['.spec.template.spec.containers'] }, true],
      'other-item': [{ paths: ['.spec.template.spec.containers[name="proxy"]'] }, false],
      pointer: [{ paths: ['/spec/template/spec/containers/1/resources'] }, true],
      'pointer-of-other': [{ paths: ['/spec/template/spec/containers/0/resources'] }, false],
      leaf: [{ paths: [`${ofApp}.resources.requests.cpu`] }, true],
      'leaf-of-other': [{ paths: [`${ofApp}.resources.limits`] }, false],
      manager: [{ managers: ['vpa-*'] }, true],
      'any-manager': [{ managers: ['*'] }, true],
      'other-manager': [{ managers: ['kubectl*'] }, false],
      'both-match': [{ managers: ['vpa-*'], paths: [`${ofApp}.resources`] }, true],
      'one-matches': [{ managers: ['kubectl*'], paths: [`${ofApp}.resources`] }, false],
      kind: [{ kinds: ['Deployment'], managers: ['*'] }, true],
      'kind-by-pattern': [{ kinds: ['apps/*'], managers: ['*'] }, true],
      'other-kind': [{ kinds: ['StatefulSet', 'extensions/Deployment'], managers: ['*'] }, false],
      'whole-object': [{ paths: [''] }, true],
    }
    for (const [name, [rule, isLeft]] of Object.entries(forms)) {
      const pod = start([rule])
      await pod.bring(files(web(name)))
      await ground.apply(keyed(name), container(name, requests('700m')), 'vpa-updater')
      const { ends } = await pod.bring(files(web(name, { cpu: '200m' })))
      t.equal(await cpu(name), isLeft ? '700m' : '200m', name)
      t.equal('leftOut' in (ends[name] ?? {}), isLeft, name)
      t.equal((await pod.bring(files(web(name, { cpu: '200m' })))).kinds[name], 'unchanged', `${name}, again`)
    }
  })

  await t.test('annotations whose keys have dots and slashes', async (t) => {
    const paths = ['.metadata.annotations.tool.example/x', '/metadata/annotations/tool.example~1z']
    const pod = start([{ paths }])
    const annotations = { 'tool.example/x': '1', 'tool.example/x.y': '1', 'tool.example/z': '1', tool: '1' }
    await pod.bring(files(web('annotated', { annotations })))
    const theirs = Object.fromEntries(Object.keys(annotations).map((name) => [name, 'theirs']))
    await ground.merge(keyed('annotated'), { metadata: { annotations: theirs } }, 'annotator')
    const { ends } = await pod.bring(files(web('annotated', { annotations, image: 'app:2' })))
    t.match((await ground.get(keyed('annotated'))).metadata.annotations, {
      'tool.example/x': 'theirs',
      'tool.example/x.y': '1',
      'tool.example/z': 'theirs',
      tool: '1',
    })
    const { leftOut = [] } = ends.annotated as { leftOut?: readonly { path: string }[] }
    t.strictSame(leftOut.map(({ path }) => path).sort(), [
      '.metadata.annotations.tool.example/x',
      '.metadata.annotations.tool.example/z',
    ])
    await ground.merge(keyed('annotated'), { metadata: { annotations: { 'tool.example/x': null } } }, 'annotator')
    await pod.bring(files(web('annotated', { annotations, image: 'app:2' })))
    t.match((await ground.get(keyed('annotated'))).metadata.annotations, {
      'tool.example/x': '1',
      'tool.example/z': 'theirs',
    })
  })

  await t.test('replicas, through scale or not', async (t) => {
    for (const path of ['/spec/replicas', '.spec.replicas']) {
      for (const subresource of ['scale', '']) {
        const name = `replicas-${path.startsWith('.')}-${subresource || 'plain'}`
        const pod = start([{ kinds: ['Deployment'], paths: [path] }])
        await pod.bring(files(web(name)))
        await ground.merge(keyed(name), { spec: { replicas: 7 } }, 'k9s', subresource)
        const { ends } = await pod.bring(files(web(name, { replicas: 3 })))
        t.match(ends[name], {
          kind: 'applied',
          overwritten: undefined,
          leftOut: [{ path: '.spec.replicas', manager: 'k9s' }],
        })
        t.equal((await ground.get(keyed(name))).spec.replicas, 7)
        t.equal((await pod.bring(files(web(name, { replicas: 3 })))).kinds[name], 'unchanged')
      }
    }
    const plain = start([])
    await plain.bring(files(web('no-rule')))
    await ground.merge(keyed('no-rule'), { spec: { replicas: 7 } }, 'k9s', 'scale')
    await plain.bring(files(web('no-rule')))
    t.equal((await ground.get(keyed('no-rule'))).spec.replicas, 2, 'without a rule')
  })

  await t.test('items of a list whose keys have defaults', async (t) => {
    const key = keyOf('Service', 'web')
    const service = (nodePort: number, port = 80) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { type: 'NodePort', selector: { app: 'web' }, ports: [{ name: 'http', port, nodePort }] },
    })
    const pod = start([{ kinds: ['/Service'], paths: ['.spec.ports[port=80].nodePort'] }])
    await pod.bring(files(service(31_101)))
    const { metadata, spec, ...type } = service(31_102)
    await ground.apply(
      key,
      { ...type, metadata, spec: { ports: [{ port: 80, protocol: 'TCP', nodePort: 31_102 }] } },
      'ports',
    )
    const { ends } = await pod.bring(files(service(31_103)))
    t.match(ends.web, { kind: 'applied', leftOut: [{ path: '.spec.ports[port=80,protocol="TCP"].nodePort' }] })
    t.match((await ground.get(key)).spec.ports, [{ name: 'http', nodePort: 31_102 }])
  })

  await t.test('a field that only the source owns is never left out', async (t) => {
    const pod = start([{ paths: [''] }, { managers: ['*'] }])
    await pod.bring(files(web('own')))
    const owned = (await ground.get(keyed('own'))).metadata.managedFields[0].fieldsV1
    const { ends } = await pod.bring(files(web('own', { image: 'app:2', replicas: 4 })))
    t.match(ends.own, { kind: 'applied', overwritten: undefined })
    const { metadata, spec } = await ground.get(keyed('own'))
    t.strictSame(metadata.managedFields[0].fieldsV1, owned)
    t.equal(spec.replicas, 4)
    await pod.bring(files(web('own', { annotations: { a: '1' } })))
    await pod.bring(files(web('own')))
    t.notOk('a' in (await ground.get(keyed('own'))).metadata.annotations, 'what leaves Git leaves the object')
  })

  await t.test('a field that both own with one value is left to the other once Git wants another', async (t) => {
    const pod = start([{ managers: ['vpa-*'] }])
    await pod.bring(files(web('shared')))
    await ground.apply(keyed('shared'), container('shared', requests('100m')), 'vpa-updater')
    t.equal((await pod.bring(files(web('shared')))).kinds.shared, 'unchanged')
    t.match((await pod.bring(files(web('shared', { cpu: '300m' })))).ends.shared, {
      leftOut: [{ manager: 'vpa-updater' }],
    })
    t.equal(await cpu('shared'), '100m')
  })

  await t.test('conflicts: fail counts the other fields alone', async (t) => {
    const pod = start([{ managers: ['vpa-*'] }], { conflicts: 'fail' })
    await pod.bring(files(web('strict')))
    await ground.apply(keyed('strict'), container('strict', requests('700m')), 'vpa-updater')
    t.match((await pod.bring(files(web('strict', { cpu: '200m' })))).ends.strict, {
      kind: 'applied',
      leftOut: { length: 1 },
    })
    await ground.apply(keyed('strict'), container('strict', { image: 'other:1' }), 'other')
    t.match((await pod.bring(files(web('strict', { cpu: '300m' })))).ends.strict, {
      kind: 'failed',
      problem: {
        kind: 'conflict',
        text: /^fields of others, .*: \.spec\.template\.spec\.containers\[name="app"\]\.image \(other\); force/,
      },
    })
    t.match(await app('strict'), { image: 'other:1', resources: { requests: { cpu: '700m' } } })
  })

  await t.test('the marks of the source are healed, whatever a rule says', async (t) => {
    const rules = [{ managers: ['*'] }, { paths: ['.metadata'] }]
    const pod = start(rules)
    await pod.bring(files(web('marked')))
    const { labels, annotations } = (await ground.get(keyed('marked'))).metadata
    const theirs = {
      labels: { 'agent.gitlab.com/inventory': 'x' },
      annotations: { 'agent.gitlab.com/digest': 'x', y: 'z' },
    }
    await ground.merge(keyed('marked'), { metadata: theirs }, 'kubectl-edit')
    t.equal((await pod.bring(files(web('marked')))).kinds.marked, 'applied')
    t.match((await ground.get(keyed('marked'))).metadata, { labels, annotations: { ...annotations, y: 'z' } })
  })

  await t.test('fields of former owners stay with them, if a rule says so', async (t) => {
    const [kept, taken] = [start([{ paths: ['.data.kept'] }]), start([], {})]
    const map = (name: string, data: Record<string, string>): ObjectTree => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: 'shop' },
      data,
    })
    const value = async (name: string) => (await ground.get(keyOf('ConfigMap', name))).data
    for (const [pod, name, left] of [
      [kept, 'former', { kept: 'by hand', other: 'git' }],
      [taken, 'former-taken', { kept: 'git', other: 'git' }],
    ] as const) {
      await pod.bring(files(map(name, { kept: 'git', other: 'git' })))
      const byHand = { data: { kept: 'by hand', other: 'by hand', more: 'by hand' } }
      await ground.merge(keyOf('ConfigMap', name), byHand, 'kubectl-client-side-apply')
      const { ends } = await pod.bring(files(map(name, { kept: 'git', other: 'git' })))
      t.strictSame(await value(name), left, name)
      t.match(ends[name], { overwritten: [{ manager: 'kubectl-client-side-apply', field: '' }] })
      t.equal((await pod.bring(files(map(name, { kept: 'git', other: 'git' })))).kinds[name], 'unchanged')
    }
    const whole = start([{ managers: ['kubectl-client-side-apply'] }])
    await whole.bring(files(map('former-whole', { kept: 'git' })))
    await ground.merge(
      keyOf('ConfigMap', 'former-whole'),
      { data: { kept: 'by hand', more: 'by hand' } },
      'kubectl-client-side-apply',
    )
    const { ends } = await whole.bring(files(map('former-whole', { kept: 'git' })))
    t.match(ends['former-whole'], { kind: 'applied', overwritten: undefined, leftOut: [{ path: '.data.kept' }] })
    t.strictSame(await value('former-whole'), { kept: 'by hand', more: 'by hand' })
  })

  await t.test('managers that the source replaces are no others', async (t) => {
    const rules = [{ paths: ['.spec.replicas', `${ofApp}.resources`] }, { managers: ['*'] }]
    for (const [name, before, more] of [
      ['adopted', 'kustomize-controller', { adopt: ['kustomize-controller'] }],
      ['of-inventory', 'agentk-41-7', { adopt: ['41-7'] }],
      ['of-stock', 'agentk', { inventory_policy: 'adopt_all' }],
      ['of-kubectl', 'kubectl-client-side-apply', { inventory_policy: 'adopt_all' }],
    ] as const) {
      const owner = before === 'agentk-41-7' ? { 'config.k8s.io/owning-inventory': '41-7' } : {}
      const object = web(name, { annotations: { left: '1', ...owner } })
      if (before.startsWith('kubectl')) await ground.create(keyed(name), object, before)
      else await ground.apply(keyed(name), object, before)
      const pod = start(rules, more)
      const wanted = files(web(name, { cpu: '300m', replicas: 4 }))
      const dry = await again(rules, { ...more, dry_run_strategy: 'server' }).round(wanted)
      for (const { ends } of [dry as { ends: readonly { end: object }[] }])
        t.notOk('leftOut' in (ends[0]?.end ?? {}), `${name}: the dry run says the same`)
      t.match((await pod.bring(wanted)).ends[name], { kind: 'applied', leftOut: undefined }, name)
      const { spec, metadata } = await ground.get(keyed(name))
      t.equal(spec.replicas, 4, name)
      t.equal(await cpu(name), '300m', name)
      t.notOk('left' in metadata.annotations, `${name}: what they alone have applied leaves`)
      await ground.merge(keyed(name), { spec: { replicas: 6 } }, 'scaler')
      t.match((await pod.bring(files(web(name, { replicas: 5 })))).ends[name], { leftOut: [{ manager: 'scaler' }] })
    }
  })

  await t.test('an object whose owners were removed has no other managers', async (t) => {
    const pod = start([{ paths: ['.spec.replicas'] }, { managers: ['*'] }])
    await pod.bring(files(web('erased')))
    await ground.merge(keyed('erased'), { metadata: { managedFields: [{}] } })
    t.match((await pod.bring(files(web('erased', { replicas: 4 })))).ends.erased, {
      kind: 'applied',
      leftOut: undefined,
    })
    t.equal((await ground.get(keyed('erased'))).spec.replicas, 4)
  })

  await t.test('an index is the place in the manifest, or in the live object', async (t) => {
    const injected = { name: 'injected', image: 'mesh:1' }
    for (const [index, name] of [
      ['1', 'index-of-git'],
      ['2', 'index-of-live'],
    ] as const) {
      const pod = start([{ paths: [`/spec/template/spec/containers/${index}/resources`] }])
      await pod.bring(files(web(name)))
      const { containers } = (await ground.get(keyed(name))).spec.template.spec
      const patch = { spec: { template: { spec: { containers: [injected, ...containers] } } } }
      await ground.merge(keyed(name), patch, 'injector')
      await ground.apply(keyed(name), container(name, requests('700m')), 'vpa-updater')
      t.match((await pod.bring(files(web(name, { image: 'app:2' })))).ends[name], {
        kind: 'applied',
        leftOut: { length: 1 },
      })
      t.match(await app(name), { image: 'app:2', resources: { requests: { cpu: '700m' } } }, name)
    }
  })

  await t.test('a rule that leaves the configuration gives its fields back to Git', async (t) => {
    await start([{ managers: ['vpa-*'] }]).bring(files(web('ruled')))
    await ground.apply(keyed('ruled'), container('ruled', requests('700m')), 'vpa-updater')
    await again([{ managers: ['vpa-*'] }]).bring(files(web('ruled', { cpu: '200m' })))
    t.equal(await cpu('ruled'), '700m')
    t.equal((await again([]).bring(files(web('ruled', { cpu: '200m' })))).kinds.ruled, 'applied')
    t.equal(await cpu('ruled'), '200m')
    t.equal((await again([]).bring(files(web('ruled', { cpu: '200m' })))).kinds.ruled, 'unchanged')
  })

  await t.test('an ignored field that prevents an apply stays, and the object fails', async (t) => {
    const rolling = (name: string, strategy: object): ObjectTree => {
      const object = web(name)
      return { ...object, spec: { ...object.spec, strategy } }
    }
    for (const [name, rules, end] of [
      [
        'blocked',
        [{ managers: ['kubectl-edit'] }],
        { kind: 'failed', problem: { kind: 'invalid', text: /rollingUpdate/ } },
      ],
      ['freed', [], { kind: 'applied', undone: { by: ['kubectl-edit'] } }],
    ] as const) {
      const pod = start(rules)
      await pod.bring(files(rolling(name, {})))
      await ground.merge(keyed(name), { spec: { strategy: { rollingUpdate: { maxSurge: 3 } } } }, 'kubectl-edit')
      t.match((await pod.bring(files(rolling(name, { type: 'Recreate' })))).ends[name], end, name)
      t.equal((await ground.get(keyed(name))).spec.strategy.rollingUpdate?.maxSurge, name === 'blocked' ? 3 : undefined)
    }
  })

  await t.test('keys of a Secret are named nowhere', async (t) => {
    const secret = (password: string): ObjectTree => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'keys', namespace: 'shop' },
      data: { password: Buffer.from(password).toString('base64') },
    })
    const pod = start([{ paths: ['.data.password'] }])
    await pod.bring(files(secret('git')))
    await ground.merge(keyOf('Secret', 'keys'), secret('rotated'), 'rotator')
    const { ends } = await pod.bring(files(secret('newer')))
    const leftOut = [{ path: '.data', manager: 'rotator', rule: '{ paths: [.data] }' }]
    t.match(ends.keys, { kind: 'applied', leftOut })
    t.equal(Buffer.from((await ground.get(keyOf('Secret', 'keys'))).data.password, 'base64').toString(), 'rotated')
    const entries = [...(await pod.entries()).values()]
    t.strictSame(entries[0]?.leftOut, leftOut)
    t.notMatch(JSON.stringify(entries), /password/)
  })

  await t.test('a dry run says the same, and writes nothing', async (t) => {
    await start([{ managers: ['vpa-*'] }]).bring(files(web('dry')))
    await ground.apply(keyed('dry'), container('dry', requests('700m')), 'vpa-updater')
    const before = await version(keyed('dry'))
    const outcome = await again([{ managers: ['vpa-*'] }], { dry_run_strategy: 'server' }).round(
      files(web('dry', { cpu: '200m' })),
    )
    t.match(outcome, { kind: 'dryRun', ends: [{ end: { kind: 'applied', leftOut: [{ manager: 'vpa-updater' }] } }] })
    t.equal(await version(keyed('dry')), before)
  })
})
