import t, { type Test } from 'tap'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { Renderer } from '../../../../src/agentk/modules/gitops/render/renderer.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'
import { scripted } from './scripted.ts'

/** The effect of each key of a source on a real API server, compared with a source without the key. */

const map = (name: string, value = '1', metadata: object = {}) => JSON.stringify(configMap(name, { value }, metadata))
const text = (object: ObjectTree) => JSON.stringify(object)
const files = (...names: string[]) => Object.fromEntries(names.map((name) => [`${name}.json`, map(name)]))
const finalizers = ['example.com/hold']

/** Checks one key, with objects whose names begin with the key's name. */
type Row = (t: Test, side: KeySide) => Promise<void>

/** Pods with one block each, on one cluster. */
class KeySide {
  readonly #ground: Ground
  #projectId = 100n

  constructor(ground: Ground) {
    this.#ground = ground
  }

  /** Returns a pod of a new project. */
  pod(block: SourceBlock): Pod {
    return new Pod(this.#ground, { projectId: ++this.#projectId, block })
  }

  /** Returns another process of the same source, with another block. */
  again(block: SourceBlock): Pod {
    return new Pod(this.#ground, { projectId: this.#projectId, block })
  }

  get ground(): Ground {
    return this.#ground
  }

  async value(name: string, namespace = 'shop'): Promise<string | undefined> {
    return (await this.#ground.get(keyOf('ConfigMap', name, namespace)))?.data.value
  }

  /** Starts the whole module with a kas whose project has these files. */
  async module(t: Test, block: SourceBlock, pushed: Readonly<Record<string, string>>) {
    const projectId = ++this.#projectId
    const project = new ProjectKas(projectId)
    const started = await startGitops(t, this.#ground, project, { manifest_projects: [block] })
    project.push(pushed)
    await eventually(() => project.requests.length > 0)
    const [request] = project.requests
    if (!request) throw new Error('nothing was asked')
    const state = () => project.states.findLast(({ source }) => source.startsWith(`42-${projectId}`))
    return { ...started, project, projectId, request, state }
  }
}

const rows: Readonly<Record<keyof SourceBlock, Row>> = {
  id: async (t, side) => {
    const named = await side.module(t, { id: 'platform/other' }, {})
    t.equal(named.request.projectId, 'platform/other')
    const own = await side.module(t, {}, {})
    t.equal(own.request.projectId, 'platform/clusters', "the agent's own")
  },

  paths: async (t, side) => {
    const block: SourceBlock = { paths: [{ glob: 'prod/**' }, { file: 'one.yaml' }] }
    const chosen = await side.module(t, block, {})
    t.match(chosen.request.paths, [
      { path: { case: 'glob', value: 'prod/**' } },
      { path: { case: 'file', value: 'one.yaml' } },
    ])
    const all = await side.module(t, {}, {})
    t.match(all.request.paths, [{ path: { case: 'glob', value: '**/*.{yaml,yml,json}' } }])
  },

  ref: async (t, side) => {
    for (const ref of [{ tag: 'v1' }, { branch: 'next' }, { commit: '4'.repeat(40) }]) {
      const [[is, name]] = Object.entries(ref) as [[string, string]]
      const { request } = await side.module(t, { ref }, {})
      t.match(request.ref, { ref: { case: is, value: name } })
    }
    const { request } = await side.module(t, {}, {})
    t.equal(request.ref?.ref.value, undefined, 'the default branch')
  },

  environments: async (t, side) => {
    const { state } = await side.module(t, { default_namespace: 'shop', environments: ['production'] }, files('env'))
    await eventually(() => state()?.environment.length === 1)
    t.match(state(), { environment: ['production'] })
  },

  name: async (t, side) => {
    const pod = side.pod({ name: 'web' })
    await pod.bring(files('name-a'))
    const { metadata } = await side.ground.get(keyOf('ConfigMap', 'name-a'))
    t.match(pod.options.id, /^42-\d+-web$/)
    t.equal(metadata.labels['agent.gitlab.com/inventory'], pod.options.id)
    t.equal(metadata.managedFields[0].manager, `agentk-${pod.options.id}`)
  },

  default_namespace: async (t, side) => {
    const { namespace: _, ...metadata } = configMap('homeless', {}).metadata as { name: string; namespace: string }
    const homeless = { 'a.json': text({ ...configMap('homeless', { value: '1' }), metadata }) }
    await side.pod({ default_namespace: 'else' }).bring(homeless)
    t.equal(await side.value('homeless', 'else'), '1')
    await side.pod({ default_namespace: '' }).bring(homeless)
    t.equal(await side.value('homeless', 'default'), '1', 'as the stock agent has it')
  },

  namespaces: async (t, side) => {
    const elsewhere = { 'a.json': text({ ...configMap('far', {}), metadata: { name: 'far', namespace: 'else' } }) }
    const narrow = await side.pod({ namespaces: ['shop'] }).round(elsewhere)
    t.match(narrow, { kind: 'refused', problems: [{ file: 'a.json', text: /else/ }] })
    t.match((await side.pod({ namespaces: ['shop', 'else'] }).bring(elsewhere)).kinds, { far: 'applied' })
  },

  resource_inclusions: async (t, side) => {
    const included = (kinds: string[]) => side.pod({ resource_inclusions: [{ api_groups: [''], kinds }] })
    t.match(await included(['Secret']).round(files('included')), { kind: 'refused', problems: [{ text: /ConfigMap/ }] })
    t.match((await included(['*']).bring(files('included'))).kinds, { included: 'applied' })
  },

  resource_exclusions: async (t, side) => {
    const excluded = (kinds: string[]) => side.pod({ resource_exclusions: [{ api_groups: ['*'], kinds }] })
    t.match(await excluded(['ConfigMap']).round(files('excluded')), {
      kind: 'refused',
      problems: [{ text: /ConfigMap/ }],
    })
    t.match((await excluded(['Secret']).bring(files('excluded'))).kinds, { excluded: 'applied' })
  },

  access_as: async (t, side) => {
    const account = (name: string) => side.pod({ access_as: { service_account: { namespace: 'shop', name } } })
    const rbac = 'rbac.authorization.k8s.io'
    await side.ground.create(keyOf('Role', 'deploys', 'shop', rbac), {
      metadata: { name: 'deploys' },
      rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['*'] }],
    })
    await side.ground.create(keyOf('RoleBinding', 'deploys', 'shop', rbac), {
      metadata: { name: 'deploys' },
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'deploys' },
      subjects: [{ kind: 'ServiceAccount', name: 'deploys', namespace: 'shop' }],
    })
    t.match((await account('nobody').bring(files('acting'))).kinds, { acting: 'failed' })
    t.equal(await side.value('acting'), undefined)
    const pod = account('deploys')
    await eventually(async () => (await pod.bring(files('acting'))).kinds.acting === 'applied')
    t.equal(await side.value('acting'), '1')
  },

  inventory_policy: async (t, side) => {
    const owned = { annotations: { 'config.k8s.io/owning-inventory': '41-9' } }
    await side.ground.create(keyOf('ConfigMap', 'nobodys'), configMap('nobodys', { value: '0' }))
    await side.ground.create(keyOf('ConfigMap', 'anothers'), configMap('anothers', { value: '0' }, owned))
    const ends = async (policy?: SourceBlock['inventory_policy']) =>
      (await side.pod(policy ? { inventory_policy: policy } : {}).bring(files('nobodys', 'anothers'))).kinds
    t.match(await ends(), { nobodys: 'failed', anothers: 'failed' })
    t.match(await ends('must_match'), { nobodys: 'failed', anothers: 'failed' })
    t.match(await ends('adopt_if_no_inventory'), { nobodys: 'applied', anothers: 'failed' })
    t.match(await ends('adopt_all'), { nobodys: 'applied', anothers: 'applied' })
  },

  adopt: async (t, side) => {
    const before = side.pod({})
    await before.bring(files('adopted'))
    t.match((await side.pod({}).bring(files('adopted'))).kinds, { adopted: 'failed' })
    t.match((await side.pod({ adopt: [before.options.id] }).bring(files('adopted'))).kinds, { adopted: 'applied' })
  },

  conflicts: async (t, side) => {
    for (const [conflicts, left] of [
      ['fail', 'by hand'],
      ['force', '2'],
    ] as const) {
      const name = `conflict-${conflicts}`
      const pod = side.pod({ conflicts })
      await pod.bring(files(name))
      await side.ground.merge(keyOf('ConfigMap', name), { data: { value: 'by hand' } }, 'kubectl-edit')
      await pod.bring({ 'a.json': map(name, '2') })
      t.equal(await side.value(name), left)
    }
  },

  drift: async (t, side) => {
    for (const [ignore, left] of [
      [[{ kinds: ['ConfigMap'], paths: ['.data.value'] }], 'by hand'],
      [[{ kinds: ['Secret'], paths: ['.data.value'] }], '2'],
    ] as const) {
      const name = `drift-${left === '2'}`
      const pod = side.pod({ drift: { ignore } })
      await pod.bring(files(name))
      await side.ground.merge(keyOf('ConfigMap', name), { data: { value: 'by hand' } }, 'kubectl-edit')
      await pod.bring({ 'a.json': map(name, '2') })
      t.equal(await side.value(name), left)
    }
  },

  dry_run_strategy: async (t, side) => {
    for (const strategy of ['client', 'server'] as const) {
      t.match(await side.pod({ dry_run_strategy: strategy }).round(files('rehearsed')), { kind: 'dryRun' })
      t.equal(await side.value('rehearsed'), undefined)
    }
    t.match(await side.pod({ dry_run_strategy: 'none' }).round(files('rehearsed')), { kind: 'done' })
    t.equal(await side.value('rehearsed'), '1')
  },

  reconcile_timeout: async (t, side) => {
    // nothing makes its Pods here, so it never becomes healthy
    const waved = (name: string) => {
      const annotations = { 'config.kubernetes.io/depends-on': `apps/namespaces/shop/Deployment/${name}` }
      return { 'a.json': text(deployment(name)), 'b.json': map(`after-${name}`, '1', { annotations }) }
    }
    const newer = new AbortController()
    let isOver = false
    const patient = side.pod({ reconcile_timeout: '3600s' }).bring(waved('slower'), { superseded: newer.signal })
    void patient.then(() => {
      isOver = true
    })
    await eventually(async () => (await side.ground.get(keyOf('Deployment', 'slower', 'shop', 'apps'))) !== undefined)
    const { kinds } = await side.pod({ reconcile_timeout: '0.2s' }).bring(waved('slow'))
    t.match(kinds, { slow: 'applied', 'after-slow': 'waits' })
    t.notOk(isOver, 'it began before, and waits still')
    newer.abort()
    t.match((await patient).kinds, { slower: 'applied' })
    t.equal(await side.value('after-slower'), undefined)
  },

  prune: async (t, side) => {
    for (const [prune, left] of [
      [false, '1'],
      [true, undefined],
    ] as const) {
      const [stays, goes] = [`stays-${prune}`, `goes-${prune}`]
      const pod = side.pod({ prune })
      await pod.bring(files(stays, goes))
      await pod.bring(files(stays))
      t.equal(await side.value(goes), left)
    }
  },

  prune_timeout: async (t, side) => {
    const pod = side.pod({ prune_timeout: '1s' })
    await pod.bring(files('hung', 'hung-beside'))
    await side.ground.merge(keyOf('ConfigMap', 'hung'), { metadata: { finalizers } })
    const { entries, pruned } = await pod.bring(files('hung-beside'))
    t.equal(pruned.length, 0)
    t.match(
      [...entries.values()].find(({ key }) => key.name === 'hung'),
      { reason: /not gone after 1 s/ },
    )
  },

  prune_propagation_policy: async (t, side) => {
    // the controller that removes these finalizers does not run here
    for (const [policy, left] of [
      ['background', undefined],
      ['foreground', ['foregroundDeletion']],
      ['orphan', ['orphan']],
    ] as const) {
      const [goes, stays] = [`goes-${policy}`, `stays-${policy}`]
      const pod = side.pod({ prune_propagation_policy: policy, prune_timeout: '0.1s' })
      await pod.bring(files(goes, stays))
      await pod.bring(files(stays))
      t.strictSame((await side.ground.get(keyOf('ConfigMap', goes)))?.metadata.finalizers, left)
    }
  },

  prune_confirm: async (t, side) => {
    const pod = side.pod({ prune_confirm: ['ConfigMap'] })
    await pod.bring(files('confirmed', 'confirmed-beside'))
    const { planDigest, awaitingApproval } = await pod.bring(files('confirmed-beside'))
    t.match(awaitingApproval, [{ key: { name: 'confirmed' } }])
    t.equal(await side.value('confirmed'), '1')
    await pod.bring(files('confirmed-beside'), { approved: planDigest })
    t.equal(await side.value('confirmed'), undefined)
  },

  prune_limit: async (t, side) => {
    const many = (kept: number) => files(...Array.from({ length: kept }, (_, at) => `limited-${at}`))
    for (const [limit, kept, isPlanned] of [
      [1, 8, false],
      [1, 6, true],
      ['50%', 5, false],
      ['50%', 0, true],
    ] as const) {
      const pod = side.pod({ prune_limit: limit, adopt: [], inventory_policy: 'adopt_all' })
      await pod.bring({ ...many(9), ...files('limit-rest') })
      const { planDigest } = await pod.bring({ ...many(kept), ...files('limit-rest') })
      t.equal(planDigest !== '', isPlanned, `${limit}: ${9 - kept} of 10`)
    }
  },

  on_removal: async (t, side) => {
    for (const removal of ['keep', 'prune'] as const) {
      const block: SourceBlock = { default_namespace: 'shop', on_removal: removal, name: removal }
      const { configure, state } = await side.module(t, block, files(`removal-${removal}`))
      const name = `removal-${removal}`
      await eventually(async () => (await side.value(name)) === '1')
      configure({ manifest_projects: [] })
      if (removal === 'keep')
        await eventually(() => /has it no longer: 1 objects are left/.test(state()?.problem ?? ''))
      else await eventually(() => state()?.planned[0]?.name === name)
      t.equal(await side.value(name), '1', 'not before it was approved')
    }
  },

  kustomize: async (t, side) => {
    const path = await scripted(t, 'kustomize', `echo '${map('kustomized')}'`)
    const pod = side.pod({ kustomize: { path: 'prod' } })
    const input = { 'prod/kustomization.yaml': 'resources: [a.yaml]\n', 'prod/a.yaml': map('plain') }
    await pod.bring(input, {}, rendering(path, pod))
    t.equal(await side.value('kustomized'), '1')
    t.equal(await side.value('plain'), undefined)
  },

  helm: async (t, side) => {
    const path = await scripted(
      t,
      'helm',
      `printf -- '---\\n# Source: shop/templates/a.yaml\\n'; echo '${map('charted')}'`,
    )
    const pod = side.pod({ helm: { chart: 'charts/shop', values: ['values.yaml'], release: 'web' } })
    const input = {
      'charts/shop/Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.0.0\n',
      'charts/shop/templates/a.yaml': map('charted'),
      'values.yaml': 'a: 1\n',
    }
    await pod.bring(input, {}, rendering(path, pod))
    t.equal(await side.value('charted'), '1')
  },
}

/** Programs are scripts here. Other tests run the real ones. */
function rendering(path: string, { options }: Pod) {
  const renderer = new Renderer({ path })
  const cluster = { version: 'v1.35.4', apiVersions: [] }
  return {
    render: (all: Parameters<Renderer['render']>[0], _: unknown, signal: AbortSignal) =>
      renderer.render(all, options, cluster, signal),
  }
}

t.test('the keys of a source', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'else', 'gitops', 'default']) {
    if (!(await ground.get(keyOf('Namespace', name, '')))) {
      await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    }
  }
  const side = new KeySide(ground)
  for (const [key, row] of Object.entries(rows)) await t.test(key, (t) => row(t, side))
})
