import t from 'tap'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops, traceparent } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Tests the module with a kas and a real API server. */

const map = (name: string, value: string) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name} }
data: { value: "${value}" }
`

t.test('GitOps', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const value = async (name: string) => (await ground.get(keyOf('ConfigMap', name)))?.data.value
  const source = { id: 'platform/shop', default_namespace: 'shop', prune_propagation_policy: 'background' } as const
  const statusOf = async (id: string) => {
    const object = await ground.get(keyOf('ConfigMap', `gitops-${id}-sync`, 'gitops'))
    return object ? JSON.parse(object.data.status) : undefined
  }

  await t.test('a push becomes an object; the next one asks for what has changed alone', async (t) => {
    const project = new ProjectKas(7n)
    const { stop } = await startGitops(t, ground, project, { manifest_projects: [source] })
    project.push({ 'a.yaml': map('a', '1'), 'b.yaml': map('b', '1') })
    await eventually(async () => (await value('b')) === '1' && (await value('a')) === '1')
    await eventually(async () => (await statusOf('42-7'))?.phase === 'Synced')
    t.match(await statusOf('42-7'), { commit: project.commit, counts: { objects: 2, applied: 2 } })
    project.push({ 'a.yaml': map('a', '2'), 'b.yaml': map('b', '1') })
    await eventually(async () => (await value('a')) === '2')
    await eventually(() => project.requests.length === 3)
    t.strictSame(
      project.requests.map(({ knownBlob, projectId }) => [projectId, knownBlob.length]),
      [
        ['platform/shop', 0],
        ['platform/shop', 2],
        ['platform/shop', 2],
      ],
    )
    project.push({ 'a.yaml': map('a', '2') })
    await eventually(async () => (await value('b')) === undefined)
    await stop()
  })

  await t.test('a plan waits for its approval', async (t) => {
    const project = new ProjectKas(8n)
    await startGitops(t, ground, project, { manifest_projects: [{ ...source, prune_confirm: ['ConfigMap'] }] })
    project.push({ 'a.yaml': map('stays', '1'), 'b.yaml': map('goes', '1') })
    await eventually(async () => (await value('goes')) === '1')
    project.push({ 'a.yaml': map('stays', '1') })
    await eventually(async () => (await statusOf('42-8'))?.phase === 'Approval')
    const { plan, planned } = await statusOf('42-8')
    t.strictSame(planned, ['ConfigMap shop/goes'])
    t.equal(await value('goes'), '1')
    const annotations = { 'agent.gitlab.com/approve': plan }
    await ground.merge(keyOf('ConfigMap', 'gitops-42-8-sync', 'gitops'), { metadata: { annotations } })
    await eventually(async () => (await value('goes')) === undefined)
    await eventually(async () => (await statusOf('42-8'))?.phase === 'Synced')
    const { metadata } = await ground.get(keyOf('ConfigMap', 'gitops-42-8-sync', 'gitops'))
    t.strictSame(metadata.annotations, { 'agent.gitlab.com/resynced': '' }, 'it was used; the other one is of agentk')
  })

  await t.test('paused, and going on; a commit that is wrong; one that is right', async (t) => {
    const project = new ProjectKas(9n)
    await startGitops(t, ground, project, { manifest_projects: [source] })
    project.push({ 'a.yaml': map('paused', '1') })
    await eventually(async () => (await statusOf('42-9'))?.phase === 'Synced')
    const wish = (pause: string | null) =>
      ground.merge(keyOf('ConfigMap', 'gitops-42-9-sync', 'gitops'), {
        metadata: { annotations: { 'agent.gitlab.com/pause': pause } },
      })
    await wish('true')
    await eventually(async () => (await statusOf('42-9'))?.phase === 'Paused')
    project.push({ 'a.yaml': map('paused', '2') })
    await eventually(async () => (await statusOf('42-9'))?.wanted === project.commit)
    t.equal(await value('paused'), '1')
    await wish(null)
    await eventually(async () => (await value('paused')) === '2')
    project.push({ 'a.yaml': 'kind: [' })
    await eventually(async () => (await statusOf('42-9'))?.phase === 'Refused')
    t.match((await statusOf('42-9')).problem, /^a\.yaml:/)
    t.equal(await value('paused'), '2')
    project.push({ 'a.yaml': map('paused', '3') })
    await eventually(async () => (await value('paused')) === '3')
  })

  await t.test('an object moves from one source of a project to another: it stays the same object', async (t) => {
    const project = new ProjectKas(11n)
    const of = (name: string, id: string) => ({ ...source, id, name, paths: [{ glob: `${name}/**` }] })
    const [one, other] = [of('one', 'platform/shop'), of('other', 'Platform/Shop')]
    await startGitops(t, ground, project, { manifest_projects: [one, other] })
    project.push({ 'one/a.yaml': map('moves', '1'), 'one/b.yaml': map('one-b', '1'), 'other/c.yaml': map('c', '1') })
    await eventually(async () => (await statusOf('42-11-one'))?.phase === 'Synced')
    await eventually(async () => (await statusOf('42-11-other'))?.phase === 'Synced')
    const { uid } = (await ground.get(keyOf('ConfigMap', 'moves'))).metadata
    project.push({ 'other/a.yaml': map('moves', '2'), 'one/b.yaml': map('one-b', '1'), 'other/c.yaml': map('c', '1') })
    await eventually(async () => (await value('moves')) === '2')
    await eventually(async () => (await statusOf('42-11-one'))?.commit === project.commit)
    await eventually(async () => (await statusOf('42-11-other'))?.phase === 'Synced')
    t.equal((await ground.get(keyOf('ConfigMap', 'moves'))).metadata.uid, uid)
  })

  await t.test('a source that is paused holds what it wants, and not what others prune', async (t) => {
    const project = new ProjectKas(14n)
    const of = (name: string) => ({ ...source, name, paths: [{ glob: `${name}/**` }] })
    const pause = { metadata: { name: 'gitops-42-14-other-sync', annotations: { 'agent.gitlab.com/pause': 'true' } } }
    await ground.create(keyOf('ConfigMap', 'gitops-42-14-other-sync', 'gitops'), pause)
    await startGitops(t, ground, project, { manifest_projects: [of('one'), of('other')] })
    project.push({ 'one/a.yaml': map('pa', '1'), 'one/b.yaml': map('pb', '1'), 'one/c.yaml': map('pc', '1') })
    await eventually(async () => (await statusOf('42-14-one'))?.phase === 'Synced')
    project.push({ 'one/a.yaml': map('pa', '1'), 'other/c.yaml': map('pc', '1') })
    await eventually(async () => (await value('pb')) === undefined)
    t.equal(await value('pc'), '1', 'the other one wants it')
    await eventually(async () => (await statusOf('42-14-other'))?.phase === 'Paused')
  })

  await t.test(
    'a source whose commit is refused holds what it could want, until one comes that can be read',
    async (t) => {
      const project = new ProjectKas(15n)
      const of = (name: string) => ({ ...source, name, paths: [{ glob: `${name}/**` }] })
      const { configure } = await startGitops(t, ground, project, { manifest_projects: [of('one'), of('other')] })
      const isDone = async () => {
        const { phase, commit } = (await statusOf('42-15-one')) ?? {}
        return phase === 'Synced' && commit === project.commit
      }
      project.push({ 'one/a.yaml': map('ra', '1'), 'one/b.yaml': map('rb', '1'), 'one/c.yaml': map('rc', '1') })
      await eventually(isDone)
      project.push({ 'one/a.yaml': map('ra', '1'), 'one/c.yaml': map('rc', '1'), 'other/b.yaml': 'kind: [' })
      await eventually(async () => (await statusOf('42-15-other'))?.phase === 'Refused')
      await eventually(async () => (await statusOf('42-15-one'))?.phase === 'WaitingForOthers')
      t.equal(await value('rb'), '1', 'perhaps it has moved')
      project.push({ 'one/a.yaml': map('ra', '1'), 'one/c.yaml': map('rc', '1'), 'other/d.yaml': map('rd', '1') })
      await eventually(async () => (await value('rb')) === undefined)
      configure({ manifest_projects: [of('one'), { ...of('other'), namespaces: ['elsewhere'] }] })
      await eventually(async () => (await statusOf('42-15-other'))?.phase === 'Refused')
      project.push({ 'one/a.yaml': map('ra', '1'), 'other/d.yaml': map('rd', '1') })
      await eventually(async () => (await value('rc')) === undefined)
      await eventually(async () => (await statusOf('42-15-other'))?.phase === 'Refused') // not Reading, as before
    },
  )

  await t.test('kas is told how sources fare', async (t) => {
    const project = new ProjectKas(12n)
    const { register, tracer, configure } = await startGitops(t, ground, project, { manifest_projects: [source] })
    project.push({ 'a.yaml': map('told', '1') })
    const told = () => project.states.findLast((state) => state.source === '42-12')
    await eventually(() => told()?.phase === Phase.SYNCED)
    t.match(told(), { source: '42-12', project: 'platform/shop', commit: project.commit })
    // metrics and traces report it too
    await eventually(async () => /rounds_total\{result="synced"\} 1/.test(await register.metrics()))
    const metrics = await register.metrics()
    t.match(metrics, 'agentk_gitops_push_to_applied_seconds_count 1')
    t.match(metrics, 'agentk_gitops_objects{source="42-12"} 1')
    t.match(metrics, 'agentk_gitops_prune_survivors{source="42-12"} 0')
    const round = { name: 'gitops round', traceId: traceparent.split('-')[1], ended: true, failure: undefined }
    t.match(tracer.spans, [{ ...round, attributes: { 'kas.source': '42-12', agent_id: 42 } }])
    const changed = { ...source, environments: ['production'] }
    configure({ manifest_projects: [changed] })
    await eventually(() => told()?.environment[0] === 'production')
    // a source of another project that has made nothing may leave meanwhile
    t.notOk(
      project.states.some((state) => state.source === '42-12' && state.removed),
      'it is the same source in other words',
    )
    configure({ manifest_projects: [{ ...changed, name: 'renamed' }] })
    await eventually(() => told()?.problem.includes('has it no longer: 1 objects are left'))
    await eventually(() => project.states.some((state) => state.source === '42-12-renamed'))
    await eventually(async () => !/objects\{source="42-12"\} 1/.test(await register.metrics()))
  })

  await t.test(
    'a configuration that comes back at once; one that has a source twice, or one that is wrong',
    async (t) => {
      const project = new ProjectKas(13n)
      const { configure, lines } = await startGitops(t, ground, project, { manifest_projects: [source] })
      project.push({ 'a.yaml': map('back', '1') })
      await eventually(async () => (await statusOf('42-13'))?.phase === 'Synced')
      configure({ manifest_projects: [] })
      configure({ manifest_projects: [source] })
      project.push({ 'a.yaml': map('back', '2') })
      await eventually(async () => (await value('back')) === '2')
      configure({ manifest_projects: [source, { ...source, id: 'Platform/Shop' }, { ...source, name: 'B' }] })
      await eventually(() => lines.some(({ reason }) => /has 42-13 twice/.test(String(reason))))
      t.ok(lines.some(({ msg }) => msg === 'A source of GitOps cannot be used'))
      project.push({ 'a.yaml': map('back', '3') })
      await eventually(async () => (await value('back')) === '3')
    },
  )

  await t.test('what a removed source has made: told, and kept', async (t) => {
    const project = new ProjectKas(16n)
    const { configure } = await startGitops(t, ground, project, { manifest_projects: [source] })
    project.push({ 'a.yaml': map('removed', '1') })
    await eventually(async () => (await statusOf('42-16'))?.phase === 'Synced')
    const before = (await ground.get(keyOf('ConfigMap', 'removed'))).metadata.resourceVersion
    configure({ manifest_projects: [] })
    await eventually(async () => /has it no longer: 1 objects are left/.test((await statusOf('42-16')).problem))
    t.match(await statusOf('42-16'), { phase: 'Kept', trouble: [] })
    t.equal((await ground.get(keyOf('ConfigMap', 'removed'))).metadata.resourceVersion, before)
    configure({ manifest_projects: [source] })
    await eventually(async () => (await statusOf('42-16')).commit === project.commit)
    project.push({ 'a.yaml': map('removed', '2') })
    await eventually(async () => (await value('removed')) === '2')
  })

  await t.test(
    'on_removal: prune: it goes once that is approved, of a configuration that was read whole',
    async (t) => {
      const project = new ProjectKas(17n)
      const removed = { ...source, on_removal: 'prune' } as const
      const { configure } = await startGitops(t, ground, project, { manifest_projects: [removed] })
      project.push({ 'a.yaml': map('gone-a', '1'), 'b.yaml': map('gone-b', '1') })
      const phase = async () => (await statusOf('42-17'))?.phase
      await eventually(async () => (await phase()) === 'Synced')
      configure(undefined)
      configure({ manifest_projects: [{ ...source, name: 'B' }] })
      configure({ manifest_projects: [{ ...source, id: 'renamed/shop' }] })
      await eventually(async () => (await statusOf('42-17')).trouble.length === 0 && (await phase()) === 'Synced')
      configure({ manifest_projects: [removed] })
      await eventually(() => project.requests.length > 2)
      configure({ manifest_projects: [] })
      const planned = async () => (await phase()) === 'Removing' && (await statusOf('42-17')).plan !== ''
      await eventually(planned)
      const first = await statusOf('42-17')
      t.strictSame(first.planned.sort(), ['ConfigMap shop/gone-a', 'ConfigMap shop/gone-b'])
      configure({ manifest_projects: [removed] })
      await eventually(async () => (await phase()) === 'Synced')
      t.equal(await value('gone-a'), '1')
      configure({ manifest_projects: [] })
      await eventually(planned)
      const annotations = { 'agent.gitlab.com/approve': (await statusOf('42-17')).plan }
      await ground.merge(keyOf('ConfigMap', 'gitops-42-17-sync', 'gitops'), { metadata: { annotations } })
      await eventually(async () => (await value('gone-a')) === undefined && (await value('gone-b')) === undefined)
      const inventories = keyOf('ConfigMap', 'gitops-42-17-source', 'gitops')
      await eventually(async () => (await ground.get(inventories)) === undefined)
      t.equal(await statusOf('42-17'), undefined, 'what tells of it is gone, too')
      await eventually(() => project.states.findLast((state) => state.source === '42-17')?.removed === true)
    },
  )

  await t.test('a source renamed: nothing is deleted', async (t) => {
    const project = new ProjectKas(18n)
    const removed = { ...source, on_removal: 'prune' } as const
    const { configure } = await startGitops(t, ground, project, { manifest_projects: [removed] })
    project.push({ 'a.yaml': map('named', '1') })
    await eventually(async () => (await statusOf('42-18'))?.phase === 'Synced')
    const { uid } = (await ground.get(keyOf('ConfigMap', 'named'))).metadata
    configure({ manifest_projects: [{ ...removed, name: 'web', adopt: ['42-18'] }] })
    await eventually(async () => (await statusOf('42-18-web'))?.phase === 'Synced')
    project.push({ 'a.yaml': map('named', '2') })
    await eventually(async () => (await value('named')) === '2')
    configure({ manifest_projects: [{ ...removed, name: 'web' }] })
    // the new source now owns the objects of the old one
    await eventually(async () => (await ground.get(keyOf('ConfigMap', 'gitops-42-18-source', 'gitops'))) === undefined)
    t.equal(await statusOf('42-18'), undefined)
    t.equal((await ground.get(keyOf('ConfigMap', 'named'))).metadata.uid, uid)
  })

  await t.test('a source that leaves the configuration, and a kas that refuses: nothing is deleted', async (t) => {
    const project = new ProjectKas(10n)
    const { configure, lines } = await startGitops(t, ground, project, { manifest_projects: [source] })
    project.push({ 'a.yaml': map('left', '1') })
    await eventually(async () => (await statusOf('42-10'))?.phase === 'Synced')
    const writes = async () => (await ground.get(keyOf('ConfigMap', 'left'))).metadata.resourceVersion
    const before = await writes()
    configure(undefined)
    configure({ manifest_projects: [] })
    project.refusal = new KasError({ code: 'STATUS', grpc: Code.NOT_FOUND, message: 'no such ref' })
    configure({ manifest_projects: [{ ...source, prune: true }] })
    await eventually(() => lines.some(({ msg }) => msg === 'The files of a project cannot be read'))
    t.equal(await writes(), before)
  })
})
