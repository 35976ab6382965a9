import t, { type Test } from 'tap'
import { KasError } from '../../../../src/lib/errors.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { exitOf } from './exit-of.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { map, namespace, RowsSide, shownRow, source } from './rows-side.ts'

/** Text of a source's row in each situation, on a real API server. */

const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: trinkets.rows.example.com }
spec:
  group: rows.example.com
  scope: Namespaced
  names: { plural: trinkets, kind: Trinket, singular: trinket }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
`

t.test('rows', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const value = async (name: string) => (await ground.get(keyOf('ConfigMap', name)))?.data.value
  const side = new RowsSide(ground, 100n)
  const start = (t: Test, ...blocks: Parameters<RowsSide['start']>[1]) => side.start(t, blocks)
  await t.test('a source that agentk cannot read has a row; others say what it blocks', async (t) => {
    const wrong = { id: 'platform/other', name: 'b', namespaces: ['Not_One'] }
    const { project, rows, row, becomes, exit, configure, stop } = await start(t, source, wrong)
    project.push({ 'a.yaml': map('rows-a'), 'b.yaml': map('rows-b') })
    await eventually(async () => (await value('rows-b')) === '1')
    t.match(shownRow(rows().get('42-platform/other-b')), {
      phase: 'REFUSED',
      project: 'platform/other',
      name: 'b',
      problem: 'gitops.manifest_projects[1].namespaces[0]: found "Not_One", allowed: the name of a namespace',
      next: 'mend the agent’s file',
    })
    t.equal(await exit(), 1)
    project.push({ 'a.yaml': map('rows-a') })
    const blocked = await becomes(Phase.PRUNING, '', 'WAITING_FOR_OTHERS')
    t.match(blocked.kept, [{ key: { name: 'rows-b' }, code: 'sourceUnread', text: /cannot be read/ }])
    t.equal(await value('rows-b'), '1')
    configure({ manifest_projects: [source] })
    await eventually(async () => (await value('rows-b')) === undefined)
    t.match(await becomes(Phase.SYNCED), { kept: [], counts: { pruned: 1 } })
    t.equal(rows().get('42-platform/other-b')?.removed, true)
    t.ok((row()?.appliedAtMs ?? 0n) > 0n)
    t.equal(await exit(), 0)
    await stop()
  })

  await t.test('a project or a ref that cannot be read, and files that are refused', async (t) => {
    const { rows, stop } = await start(t, { ...source, ref: { branch: 'gone' } })
    const own = '42-platform/shop'
    await eventually(() => rows().get(own)?.phase === Phase.WAITING)
    await stop()
    for (const [refusal, expected] of [
      [
        new KasError({ code: 'PROJECT_NOT_READABLE', project: 'platform/shop' }),
        { phase: 'NOT_READY', reason: 'project_not_readable' },
      ],
      [new KasError({ code: 'REF_NOT_FOUND', ref: 'gone' }), { phase: 'NOT_READY', reason: 'ref_not_found' }],
      [
        new KasError({ code: 'MANIFESTS_REFUSED', detail: 'more than 1000 files: agent.gitops.max_number_of_files' }),
        { phase: 'REFUSED', reason: 'files_refused', problem: /max_number_of_files/ },
      ],
    ] as const) {
      const again = new ProjectKas(5n)
      again.refusal = refusal
      const { stop } = await startGitops(t, ground, again, {
        manifest_projects: [{ ...source, ref: { branch: 'gone' } }],
      })
      await eventually(() => again.states.some(({ reason }) => reason !== ''))
      const shown = shownRow(again.states.at(-1))
      t.match(shown, { source: own, ref: 'branch gone', ...expected })
      t.not(shown?.next, '')
      t.equal(await exitOf(again.states), 1)
      await stop()
    }
  })

  await t.test('a path that matches nothing', async (t) => {
    const { project, becomes, exit, stop } = await start(t, { ...source, paths: [{ glob: 'prod/**' }] })
    project.push({})
    t.match(await becomes(Phase.REFUSED), { problem: /no file of the repository is chosen by paths: prod/ })
    t.equal(await exit(), 1)
    project.push({ 'prod/a.yaml': map('rows-path') })
    await becomes(Phase.SYNCED)
    project.push({})
    t.match(await becomes(Phase.APPROVAL), { leaving: [{ code: 'nothingWanted', key: { name: 'rows-path' } }] })
    t.equal(await value('rows-path'), '1')
    t.equal(await exit(), 1)
    await stop()
  })

  await t.test(
    'a plan lists what goes with a namespace, whoever made it; what comes later makes it void',
    async (t) => {
      const { project, row, shown, becomes, id, stop } = await start(t, source)
      const key = keyOf('ConfigMap', 'foreign', 'rows-home')
      project.push({ 'a.yaml': namespace('rows-home'), 'b.yaml': map('rows-stays') })
      await becomes(Phase.SYNCED)
      await ground.create(key, { metadata: { name: 'foreign', namespace: 'rows-home' } })
      project.push({ 'b.yaml': map('rows-stays') })
      await becomes(Phase.APPROVAL)
      await eventually(() => row()?.object !== '')
      const { plan = '', leaving } = row() ?? {}
      t.match(leaving, [
        { key: { kind: 'Namespace', name: 'rows-home' }, text: /with it go 1 ConfigMap: ConfigMap foreign$/ },
      ])
      t.match(
        shown()?.next,
        `kubectl annotate --overwrite configmap gitops-${id}-sync -n gitops agent.gitlab.com/approve=${plan}`,
      )
      await ground.create({ ...key, name: 'later' }, { metadata: { name: 'later', namespace: 'rows-home' } })
      const sync = keyOf('ConfigMap', `gitops-${id}-sync`, 'gitops')
      await ground.merge(sync, { metadata: { annotations: { 'agent.gitlab.com/approve': plan } } })
      await eventually(() => row()?.plan !== plan && row()?.phase === Phase.APPROVAL)
      t.match(row()?.leaving, [{ text: /with it go 2 ConfigMap: ConfigMap foreign, ConfigMap later$/ }])
      t.ok(await ground.get(keyOf('Namespace', 'rows-home', '')), 'it stays')
      await ground.merge(sync, { metadata: { annotations: { 'agent.gitlab.com/approve': row()?.plan } } })
      await eventually(
        async () => (await ground.get(keyOf('Namespace', 'rows-home', '')))?.metadata.deletionTimestamp !== undefined,
      )
      await stop()
    },
  )

  await t.test('and what goes with a definition', async (t) => {
    const { project, becomes, stop } = await start(t, source)
    project.push({ 'a.yaml': crd, 'b.yaml': map('rows-beside') })
    await becomes(Phase.SYNCED)
    await ground.readKinds()
    await ground.create(keyOf('Trinket', 'theirs', 'shop', 'rows.example.com'), {
      apiVersion: 'rows.example.com/v1',
      kind: 'Trinket',
      metadata: { name: 'theirs', namespace: 'shop' },
    })
    project.push({ 'b.yaml': map('rows-beside') })
    const { leaving } = await becomes(Phase.APPROVAL)
    t.match(leaving, [{ text: /with it go 1 Trinket\.rows\.example\.com: Trinket\.rows\.example\.com shop\/theirs$/ }])
    await stop()
  })

  await t.test('a source that is removed and kept is one row, until it is forgotten', async (t) => {
    const { project, row, shown, becomes, exit, id, configure, stop } = await start(t, source)
    project.push({ 'a.yaml': map('rows-kept') })
    await becomes(Phase.SYNCED)
    configure({ manifest_projects: [] })
    await eventually(() => shown()?.phase === 'KEPT' && row()?.object !== '')
    t.match(shown(), { trouble: [], kept: [], next: `kas gitops forget ${id}`, problem: /1 objects are left/ })
    t.match(row()?.object, `/api/v1/namespaces/gitops/configmaps/gitops-${id}-sync`)
    t.equal(await exit(), 0)
    const sync = keyOf('ConfigMap', `gitops-${id}-sync`, 'gitops')
    await ground.merge(sync, { metadata: { annotations: { 'agent.gitlab.com/forget': 'true' } } })
    await eventually(() => row()?.removed === true)
    await eventually(async () => (await ground.get(sync)) === undefined)
    t.equal(await ground.get(keyOf('ConfigMap', `gitops-${id}-source`, 'gitops')), undefined)
    t.equal(await value('rows-kept'), '1', 'what it has made stays')
    await stop()
  })

  await t.test('what lacks its namespace comes soon after that', async (t) => {
    const { project, becomes, exit, stop } = await start(t, source)
    project.push({ 'a.yaml': map('rows-homeless').replace('name:', 'namespace: rows-late, name:') })
    await becomes(Phase.FAILING)
    t.equal(await exit(), 1)
    await ground.create(keyOf('Namespace', 'rows-late', ''), { metadata: { name: 'rows-late' } })
    await becomes(Phase.SYNCED)
    await stop()
  })

  await t.test('what lacks an account, a class or its kind comes soon after that, whatever else fails', async (t) => {
    const { project, becomes, stop } = await start(t, source)
    const pod = (name: string, spec: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name} }\nspec: { containers: [{ name: a, image: a }], ${spec} }\n`
    project.push({
      'bad.yaml': `${map('rows-bad')}\nunknown: 1\n`,
      'account.yaml': pod('rows-account', 'serviceAccountName: rows-late'),
      'class.yaml': pod('rows-class', 'serviceAccountName: rows-late, priorityClassName: rows-late'),
      'kind.yaml': 'apiVersion: late.example.com/v1\nkind: Late\nmetadata: { name: rows-kind }\n',
    })
    await becomes(Phase.FAILING)
    await ground.create(keyOf('ServiceAccount', 'rows-late'), { metadata: { name: 'rows-late' } })
    await eventually(() => ground.get(keyOf('Pod', 'rows-account')))
    const late = keyOf('PriorityClass', 'rows-late', '', 'scheduling.k8s.io')
    await ground.create(late, { metadata: { name: 'rows-late' }, value: 1 })
    await eventually(() => ground.get(keyOf('Pod', 'rows-class')))
    const names = { plural: 'lates', singular: 'late', kind: 'Late' }
    const schema = { openAPIV3Schema: { type: 'object' } }
    await ground.create(keyOf('CustomResourceDefinition', 'lates.late.example.com', '', 'apiextensions.k8s.io'), {
      metadata: { name: 'lates.late.example.com' },
      spec: {
        group: 'late.example.com',
        scope: 'Namespaced',
        names,
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    })
    const path = '/apis/late.example.com/v1/namespaces/shop/lates/rows-kind'
    await eventually(async () => (await ground.client.json('GET', path)).status === 200)
    await stop()
  })

  await t.test('a kustomization in the paths of a plain source is named, with what to write', async (t) => {
    const { project, becomes, stop } = await start(t, source)
    project.push({
      'base/a.yaml': map('rows-plain'),
      'base/kustomization.yaml': 'namePrefix: prod-\nresources: [a.yaml]\n',
    })
    const { problem } = await becomes(Phase.SYNCED)
    t.match(problem, 'base/kustomization.yaml is not rendered: write kustomize: { path: base }')
    await stop()
  })

  await t.test('a source whose commit is refused holds what it has made, and nothing else', async (t) => {
    const two = [
      { ...source, name: 'good', paths: [{ glob: 'good/**' }] },
      { ...source, name: 'bad', paths: [{ glob: 'bad/**' }] },
    ]
    const { project, becomes, stop } = await start(t, ...two)
    const files = { 'good/a.yaml': map('rows-good-stays'), 'bad/b.yaml': map('rows-bad-made') }
    project.push({ ...files, 'good/b.yaml': map('rows-leaves') })
    await becomes(Phase.SYNCED, '-good')
    await becomes(Phase.SYNCED, '-bad')
    project.push({ ...files, 'bad/b.yaml': 'kind: [' })
    await becomes(Phase.REFUSED, '-bad')
    await becomes(Phase.SYNCED, '-good')
    t.equal(await ground.get(keyOf('ConfigMap', 'rows-leaves')), undefined)
    t.equal(await value('rows-bad-made'), '1')
    await stop()
  })

  await t.test('so does one whose files kas refuses, also for an agentk that has just started', async (t) => {
    const two = [
      { ...source, name: 'good', paths: [{ glob: 'good/**' }] },
      { ...source, name: 'bad', paths: [{ glob: 'bad/**' }] },
    ]
    const first = await start(t, ...two)
    const { project, becomes } = first
    const files = { 'good/a.yaml': map('rows-files-stay'), 'bad/b.yaml': map('rows-files-made') }
    project.push({ ...files, 'good/b.yaml': map('rows-files-leave'), 'good/c.yaml': map('rows-files-later') })
    await becomes(Phase.SYNCED, '-good')
    await becomes(Phase.SYNCED, '-bad')
    project.refusedGlob = 'bad/**'
    project.push({ ...files, 'good/c.yaml': map('rows-files-later') })
    await eventually(() => first.row('-bad')?.phase === Phase.REFUSED)
    await becomes(Phase.SYNCED, '-good')
    t.equal(await ground.get(keyOf('ConfigMap', 'rows-files-leave')), undefined)
    await first.stop()
    project.push(files)
    const again = await side.startAt(t, { id: BigInt(first.id.slice(3)), project }, two)
    await again.becomes(Phase.SYNCED, '-good')
    t.equal(await ground.get(keyOf('ConfigMap', 'rows-files-later')), undefined)
    t.equal(await value('rows-files-made'), '1')
    await again.stop()
  })

  await t.test('objects and commit of a source whose new configuration is refused are told', async (t) => {
    const { project, id, row, becomes, configure, stop } = await start(t, source)
    project.push({ 'a.yaml': map('rows-held'), 'b.yaml': map('rows-held-too') })
    const { commit } = await becomes(Phase.SYNCED)
    const held = { commit, counts: { objects: 2, unchanged: 2 } }
    configure({ manifest_projects: [{ ...source, resource_exclusions: [{ api_groups: [''], kinds: ['ConfigMap'] }] }] })
    t.match(await becomes(Phase.REFUSED), held)
    await stop()
    const again = new RowsSide(ground, 0n)
    const block = { ...source, kustomize: { path: 'nowhere' } }
    const next = await again.startAt(t, { id: BigInt(id.slice(3)), project }, [block])
    t.match(await next.becomes(Phase.REFUSED), held, 'also after a restart')
    next.configure({ manifest_projects: [source] })
    t.match(await next.becomes(Phase.SYNCED), held)
    for (const wrong of ['Not_One', 'Nor_This']) {
      next.configure({ manifest_projects: [{ ...source, namespaces: [wrong] }] })
      await eventually(() => next.row()?.problem.includes(wrong))
      t.match(next.row(), { phase: Phase.REFUSED, ...held })
    }
    t.equal(row()?.source, id)
    await next.stop()
  })

  await t.test('two sources that want one object, and one that adopts another which stands', async (t) => {
    const two = [
      { ...source, name: 'one', paths: [{ glob: 'x/**' }] },
      { ...source, name: 'two', paths: [{ glob: '**/*' }] },
    ]
    const { project, row, becomes, exit, id, stop } = await start(t, ...two)
    project.push({ 'x/a.yaml': map('rows-twice') })
    await eventually(() => [row('-one')?.problem, row('-two')?.problem].every((text) => text?.includes('as well')))
    t.match(
      row('-one')?.problem,
      `source ${id}-two wants ConfigMap shop/rows-twice as well: take it out of one of them`,
    )
    t.equal(await exit(), 1)
    await stop()
    const adopting = { ...source, name: 'three', adopt: [`${id}-one`], paths: [{ glob: 'y/**' }] }
    const again = new ProjectKas(BigInt(id.slice('42-'.length)))
    const started = await startGitops(t, ground, again, { manifest_projects: [two[0] as SourceBlock, adopting] })
    again.push({ 'x/a.yaml': map('rows-twice'), 'y/b.yaml': map('rows-three') })
    await eventually(() =>
      again.states.some(({ source: of, problem }) => of === `${id}-three` && problem.includes('is a source of this')),
    )
    t.equal(await value('rows-three'), undefined)
    await becomes(Phase.SYNCED, '-one').catch(() => undefined)
    await started.stop()
  })

  await t.test(
    'hooks of other tools that run on failure, deletion, rollback or test are not made, and told',
    async (t) => {
      const { project, becomes, stop } = await start(t, source)
      project.push({ 'a.yaml': map('rows-hook'), 'b.yaml': map('rows-sync') })
      await becomes(Phase.SYNCED)
      project.push({
        'a.yaml': map('rows-hook', 'annotations: { argocd.argoproj.io/hook: SyncFail }'),
        'b.yaml': map('rows-sync', 'annotations: { argocd.argoproj.io/hook: PreSync }'),
        'c.yaml': map('rows-test', 'annotations: { helm.sh/hook: test }'),
      })
      await eventually(
        async () =>
          (await ground.get(keyOf('ConfigMap', 'rows-sync')))?.metadata.annotations['argocd.argoproj.io/hook'],
      )
      const { problem, kept } = await becomes(Phase.SYNCED)
      t.match(problem, /ConfigMap shop\/rows-hook is a hook \(argocd\.argoproj\.io\/hook: SyncFail\): not made/)
      t.match(problem, /rows-sync is a hook .*: made like other objects/)
      t.match(kept, [{ code: 'hookNotRun', key: { name: 'rows-hook' } }])
      t.equal(await value('rows-hook'), '1', 'an earlier version of it stays')
      t.equal(await value('rows-test'), undefined)
      await stop()
    },
  )
})
