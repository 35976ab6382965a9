import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { map, RowsSide, source } from './rows-side.ts'

/** Rows that were once false. */

t.test('rows that are true', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const side = new RowsSide(ground, 400n)
  const syncOf = (id: string) => keyOf('ConfigMap', `gitops-${id}-sync`, 'gitops')
  const isThere = async (name: string) => (await ground.get(keyOf('ConfigMap', name))) !== undefined

  await t.test('the agent’s file is gone, and comes back', async (t) => {
    const { project, shown, becomes, configure, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': map('true-file') })
    await becomes(Phase.SYNCED)
    configure(undefined)
    await eventually(() => shown()?.phase === 'NOT_READY')
    t.match(shown(), { reason: 'configuration_gone', problem: /its sources rest/, next: /bring the agent’s file back/ })
    t.ok(await isThere('true-file'))
    configure({ manifest_projects: [source] })
    await becomes(Phase.SYNCED)
    await stop()
  })

  await t.test('and comes back without one that has made nothing', async (t) => {
    const tried = { ...source, name: 'tried', dry_run_strategy: 'client' } as const
    const { project, row, shown, becomes, configure, stop } = await side.start(t, [{ ...source, name: 'stays' }, tried])
    project.push({ 'a.yaml': map('true-tried') })
    await becomes(Phase.PAUSED, '-tried')
    configure(undefined)
    await eventually(() => shown('-tried')?.phase === 'NOT_READY')
    configure({ manifest_projects: [{ ...source, name: 'stays' }] })
    await eventually(() => row('-tried')?.removed === true)
    await stop()
  })

  await t.test('a source by another name has one row', async (t) => {
    const { project, row, becomes, id, configure, stop } = await side.start(t, [{ ...source, name: 'old' }])
    project.push({ 'a.yaml': map('true-renamed') })
    await becomes(Phase.SYNCED, '-old')
    configure({ manifest_projects: [{ ...source, name: 'new', adopt: [`${id}-old`] }] })
    await becomes(Phase.SYNCED, '-new')
    await eventually(() => row('-old')?.removed === true)
    await stop()
  })

  await t.test('an id of another agent is adopted, whatever is not known yet', async (t) => {
    const { project, becomes, stop } = await side.start(t, [
      { ...source, adopt: ['41-7'] },
      { ...source, id: 'platform/other' },
    ])
    project.unreadable = 'platform/other'
    project.push({ 'a.yaml': map('true-adopts') })
    await becomes(Phase.SYNCED)
    await stop()
  })

  await t.test('a block that cannot be used any more has one row', async (t) => {
    const { project, rows, row, becomes, id, configure, stop } = await side.start(t, [{ ...source, name: 'bad' }])
    project.push({ 'a.yaml': map('true-block') })
    await becomes(Phase.SYNCED, '-bad')
    configure({ manifest_projects: [{ ...source, name: 'bad', namespaces: ['Not_One'] }] })
    await eventually(() => row('-bad')?.phase === Phase.REFUSED)
    t.match(row('-bad'), { source: `${id}-bad`, problem: /Not_One/, commit: project.commit })
    t.strictSame(
      [...rows().values()].filter(({ removed, source }) => !removed && source.startsWith(id)).map((one) => one.source),
      [`${id}-bad`],
    )
    await stop()
  })

  await t.test('other options: what was known by those before is not so any more', async (t) => {
    const { project, row, becomes, configure, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': map('true-options') })
    await becomes(Phase.SYNCED)
    project.unreadable = 'platform/shop'
    configure({ manifest_projects: [{ ...source, ref: { branch: 'other' } }] })
    await eventually(() => row()?.ref === 'branch other')
    t.match(row(), { phase: Phase.WAITING, commit: '', wanted: '' })
    await stop()
  })

  await t.test('a source that is removed and paused has a row, and says so', async (t) => {
    const { project, row, shown, becomes, exit, id, configure, stop } = await side.start(t, [
      { ...source, on_removal: 'prune' },
    ])
    project.push({ 'a.yaml': map('true-paused') })
    await becomes(Phase.SYNCED)
    await eventually(() => row()?.object !== '')
    await ground.merge(syncOf(id), { metadata: { annotations: { 'agent.gitlab.com/pause': 'true' } } })
    await eventually(() => row()?.phase === Phase.PAUSED)
    configure({ manifest_projects: [] })
    await eventually(() => row()?.problem.includes('asked for a pause') ?? false)
    t.match(shown(), { phase: 'REMOVING' })
    t.equal(await exit(), 1)
    t.ok(await isThere('true-paused'))
    await stop()
  })

  await t.test('of two that are removed one waits for its object, and holds the other no longer', async (t) => {
    const [a, b] = ['a', 'b'].map((name) => ({ ...source, name, paths: [{ glob: `${name}/**` }], on_removal: 'prune' }))
    const { project, row, shown, becomes, id, configure, stop } = await side.start(t, [a as object, b as object])
    project.push({ 'a/a.yaml': map('true-a'), 'b/b.yaml': map('true-b') })
    await becomes(Phase.SYNCED, '-a')
    await becomes(Phase.SYNCED, '-b')
    await ground.merge(keyOf('ConfigMap', 'true-a'), { metadata: { finalizers: ['example.com/hold'] } })
    configure({ manifest_projects: [] })
    const approve = async (name: string) => {
      await eventually(() => (row(name)?.plan ?? '') !== '' && row(name)?.object !== '')
      const annotations = { 'agent.gitlab.com/approve': row(name)?.plan }
      await ground.merge(syncOf(`${id}${name}`), { metadata: { annotations } })
    }
    await approve('-a')
    await eventually(
      async () => (await ground.get(keyOf('ConfigMap', 'true-a')))?.metadata.deletionTimestamp !== undefined,
    )
    await eventually(() => row('-a')?.plan === '')
    t.match(shown('-a'), { phase: 'REMOVING', next: '' }, 'what was approved is not asked for again')
    await approve('-b')
    await eventually(async () => !(await isThere('true-b')))
    await eventually(() => row('-b')?.removed === true)
    await ground.merge(keyOf('ConfigMap', 'true-a'), { metadata: { finalizers: null } })
    await eventually(() => row('-a')?.removed === true)
    await stop()
  })

  await t.test('what another source has made is not adopted before that is known to have left', async (t) => {
    const a = { ...source, name: 'a', paths: [{ glob: 'a/**' }] }
    const b = { ...source, id: 'platform/other', name: 'b', paths: [{ glob: 'b/**' }] }
    const first = await side.start(t, [a, b])
    first.project.push({ 'a/a.yaml': map('true-own'), 'b/b.yaml': map('true-others') })
    await first.becomes(Phase.SYNCED, '-a')
    await first.becomes(Phase.SYNCED, '-b')
    await first.stop()
    const id = BigInt(first.id.slice('42-'.length))
    const project = new ProjectKas(id)
    project.unreadable = 'platform/other' // the id of that project is no longer known
    const adopting = { ...a, paths: [{ glob: 'a/**' }, { glob: 'c/**' }], adopt: [`${first.id}-b`] }
    const { row, becomes, stop } = await side.startAt(t, { id, project }, [adopting, b])
    project.push({ 'a/a.yaml': map('true-own'), 'c/b.yaml': map('true-others') })
    await becomes(Phase.FAILING, '-a')
    t.match(row('-a')?.trouble, [
      { text: `it belongs to inventory ${first.id}-b: adopt that once its source has left` },
    ])
    const owner = (await ground.get(keyOf('ConfigMap', 'true-others')))?.metadata.annotations
    t.match(owner, { 'config.k8s.io/owning-inventory': `${first.id}-b` })
    await stop()
  })
})
