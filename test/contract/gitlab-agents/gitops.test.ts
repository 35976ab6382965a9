import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { pushMethod } from '../../../src/kas/modules/gitops/states-receiver.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import { Phase, SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../support/eventually.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { GitalyDouble } from '../../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import type { GitlabVersion } from '../../support/gitlab/gitlab-versions.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'
import { openSynchronize, type Round, type StockRelease, stockRequests, synchronize } from './stock-gitops.ts'

/** Files of projects for agents with stock requests, from whole replicas of kas with GitLab and Gitaly. */

const info = '/internal/kubernetes/project_info'
const releases = Object.keys(stockRequests) as StockRelease[]

interface StartOptions {
  readonly version?: GitlabVersion
  readonly count?: number
  readonly configuration?: string
  readonly withProxy?: boolean
}

async function start(t: Test, { version, count = 1, configuration, withProxy = false }: StartOptions = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-gitops-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const gitaly = await GitalyDouble.start(t, { folder })
  const world = suiteWorld(configuration)
  world.gitaly = { address: gitaly.address, token: gitaly.token }
  const repositories = new Map<string, ServedRepository>()
  for (const { id, path } of world.projects) {
    repositories.set(path, await ServedRepository.create(folder, `@hashed/${id}.git`))
  }
  const side = await startWholeReplicas(t, count, { world, withProxy, ...(version ? { version } : {}) })
  const repository = (path: string) => repositories.get(path) as ServedRepository
  const dial = async (i = 0) => (await side.replicas[i]?.dial()) as FakeAgent
  const idOf = (path: string) => BigInt(world.projects.find((project) => project.path === path)?.id ?? 0)
  return { ...side, gitaly, repository, dial, idOf }
}

const texts = (round: Round | undefined) =>
  Object.fromEntries(Array.from(round?.files ?? [], ([k, v]) => [k, String(v)]))
const failed = async (round: Promise<unknown>) => {
  try {
    await round
  } catch (error) {
    const { grpcCode, message } = error as KasError
    return { code: grpcCode, message }
  }
  throw new Error('it succeeded')
}

// wire: 8150.GetObjectsToSynchronize, gitaly.GetBlobs, usage.gitops_sync
t.test('an agent of each stock release gets its own project, waits for a push and gets that at once', async (t) => {
  const { repository, dial, tellPush, idOf } = await start(t)
  const own = 'platform/clusters'
  let head = await repository(own).push({
    'manifests/x.yaml': 'a: 1',
    'manifests/deep/er/y.yaml': 'x'.repeat(300_000),
    'manifests/.hidden/z.yaml': 'z: 1',
    'README.md': 'no',
    'top.json': '{}',
    '.gitlab/agents/prod/config.yaml': '',
  })
  const agent = await dial()
  for (const release of releases) {
    const request = stockRequests[release]
    const round = await synchronize(agent, request(own))
    t.equal(round?.commitId, head, release)
    t.equal(round?.projectId, idOf(own))
    t.equal(round?.largest, 128 * 1024)
    const all = ['manifests/deep/er/y.yaml', 'manifests/x.yaml', ...(release === '13.8' ? ['top.json'] : [])]
    t.strictSame([...(round?.files.keys() ?? [])], all, release)
    t.equal(round?.files.get('manifests/deep/er/y.yaml')?.length, 300_000)
    const waiting = openSynchronize(agent, request(own, head))
    await waiting.stream.metadata
    head = await repository(own).push({ 'manifests/x.yaml': `for: ${release}` })
    await tellPush(own, idOf(own))
    const pushed = await waiting.round()
    t.equal(pushed?.commitId, head)
    t.equal(texts(pushed)['manifests/x.yaml'], `for: ${release}`)
  }
})

// wire: rest.project_info, rest.repository_info
for (const version of ['16.5', '18.9'] as const) {
  t.test(`GitLab ${version}: public projects may be read, others and unknown ones are not found`, async (t) => {
    const { repository, dial, gitlab, idOf } = await start(t, { version })
    const commit = await repository('other/thing').push({ 'a.yaml': 'a: 1' })
    await repository('apps/web').push({ 'secret.yaml': 's: 1' })
    const agent = await dial()
    for (const project of ['other/thing', String(idOf('other/thing'))]) {
      const round = await synchronize(agent, stockRequests['13.8'](project))
      t.strictSame(
        [round?.commitId, round?.projectId, texts(round)],
        [commit, idOf('other/thing'), { 'a.yaml': 'a: 1' }],
      )
    }
    const refused = { code: status.NOT_FOUND, message: 'project not found' }
    t.strictSame(await failed(synchronize(agent, stockRequests['13.8']('apps/web'))), refused)
    t.strictSame(await failed(synchronize(agent, stockRequests['13.8']('no/such'))), refused)
    const asked = gitlab.of(info).length
    t.strictSame(await failed(synchronize(agent, stockRequests['13.8']('no/such'))), refused)
    t.equal(gitlab.of(info).length, asked, 'the answer is kept')
    const stranger = await failed(synchronize(agent, stockRequests['13.8']('other/thing'), 'glagent-unknown'))
    t.equal(stranger.code, status.UNAUTHENTICATED)
    t.equal(gitlab.of('/internal/autoflow/repository_info').length, version === '18.9' ? 2 : 0)
  })
}

t.test('refusals have the codes and words of stock kas', async (t) => {
  const { repository, dial } = await start(t)
  const own = 'platform/clusters'
  await repository(own).push({ 'a/x.yaml': '1', 'b/y.yaml': '2' })
  const agent = await dial()
  const glob = (value: string) => ({ path: { case: 'glob' as const, value } })
  const ask = (paths: ReturnType<typeof glob>[], more: object = {}) =>
    failed(synchronize(agent, { projectId: own, paths, ...more }))
  const prefix = 'GitOps: failed to get objects to synchronize: manifest file: '
  t.strictSame(await ask([glob('a/*'), glob('**/x.yaml')]), {
    code: status.FAILED_PRECONDITION,
    message: `${prefix}path visited more than once: a/x.yaml`,
  })
  t.strictSame(await ask([glob('[')]), {
    code: status.FAILED_PRECONDITION,
    message: `${prefix}glob [ match failed: syntax error in pattern`,
  })
  t.match(await ask([glob('**')], { ref: { ref: { case: 'branch', value: 'none' } } }), { code: status.NOT_FOUND })
  t.match(await ask([glob('**')], { ref: { ref: { case: 'tag', value: 'main' } } }), { code: status.NOT_FOUND })
  t.match(await ask([glob('**')], { ref: { ref: { case: 'commit', value: 'ab'.repeat(20) } } }), {
    code: status.NOT_FOUND,
  })
  t.strictSame(await ask(Array.from({ length: 101 }, (_, i) => glob(`${i}/*`))), {
    code: status.INVALID_ARGUMENT,
    message: 'maximum number of GitOps paths per manifest project is 100, but 101 was requested',
  })
})

t.test('an empty repository waits; blobs that the agent has are not sent again', async (t) => {
  const { repository, dial, tellPush, idOf, gitaly } = await start(t)
  const own = 'platform/clusters'
  const agent = await dial()
  const first = openSynchronize(agent, stockRequests['13.8'](own))
  await first.stream.metadata
  await repository(own).push({ 'a.yaml': 'a: 1', 'b.yaml': 'b: 1' })
  await tellPush(own, idOf(own))
  const round = await first.round()
  t.strictSame(texts(round), { 'a.yaml': 'a: 1', 'b.yaml': 'b: 1' })
  await repository(own).push({ 'b.yaml': 'b: 2' })
  await tellPush(own, idOf(own))
  gitaly.calls.length = 0
  const knownBlob = Array.from(round?.blobs.values() ?? [], (id) => Buffer.from(id, 'hex'))
  const second = await synchronize(agent, { ...stockRequests['13.8'](own, round?.commitId), knownBlob })
  t.strictSame([second?.known, texts(second)], [['a.yaml'], { 'b.yaml': 'b: 2' }])
  t.equal(second?.blobs.size, 2)
  const calls = gitaly.calls.map(({ method }) => method).filter((method) => method !== 'TreeEntry')
  t.ok(calls.length <= 3, calls.join())
})

t.test('a tag and a commit; the one that the agent has is never answered', async (t) => {
  const { repository, dial, tellPush, idOf } = await start(t)
  const own = 'platform/clusters'
  const one = await repository(own).push({ 'a.yaml': '1' })
  await repository(own).git('tag', '--annotate', '--message', 'm', 'v1')
  await repository(own).git('push', '--quiet', repository(own).bare, 'v1')
  await repository(own).push({ 'a.yaml': '2' })
  const agent = await dial()
  const paths = [{ path: { case: 'glob' as const, value: '**' } }]
  for (const ref of [
    { case: 'tag', value: 'v1' },
    { case: 'commit', value: one },
  ] as const) {
    const round = await synchronize(agent, { projectId: own, paths, ref: { ref } })
    t.strictSame([round?.commitId, texts(round)], [one, { 'a.yaml': '1' }], ref.case)
    const known = openSynchronize(agent, { projectId: own, paths, ref: { ref }, commitId: one })
    await known.stream.metadata
    await tellPush(own, idOf(own))
    let isOver = false
    void known.stream.done.then(() => {
      isOver = true
    })
    await synchronize(agent, { projectId: own, paths })
    t.notOk(isOver, 'it waits')
    known.stream.cancel()
  }
})

t.test('a push that GitLab tells one replica wakes an agent of another', async (t) => {
  const { repository, dial, tellPush, idOf } = await start(t, { count: 2 })
  const path = 'other/thing'
  const one = await repository(path).push({ 'a.yaml': '1' })
  const agent = await dial(1)
  let known = (await synchronize(agent, stockRequests['13.8'](path)))?.commitId
  t.equal(known, one)
  for (let i = 2; i < 6; i++) {
    const waiting = openSynchronize(agent, stockRequests['13.8'](path, known))
    await waiting.stream.metadata
    const commit = await repository(path).push({ 'a.yaml': String(i) })
    await tellPush(path, idOf(path))
    known = (await waiting.round())?.commitId
    t.equal(known, commit)
  }
})

t.test('what an agent tells one replica of its sources, any replica shows to its users', async (t) => {
  const configuration = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }'
  const { replicas, dial } = await start(t, { count: 2, configuration, withProxy: true })
  const ask = async (i: number, token: string) =>
    await fetch(`http://127.0.0.1:${replicas[i]?.portOf('Kubernetes API')}/gitops/state`, {
      headers: { authorization: `Bearer pat:42:${token}` },
    })
  const shown = async (i: number) => ((await (await ask(i, 'glpat-ada')).json()) as { sources: object[] }).sources
  t.strictSame(await shown(0), [])
  const agent = await dial(1)
  const metadata = { authorization: ['Bearer glagent-prod'] }
  const stream = agent.session.open({ method: pushMethod, metadata })
  const tell = (phase: Phase) =>
    stream.send(
      toBinary(SourceStateSchema, create(SourceStateSchema, { source: '42-1', phase, counts: { objects: 3 } })),
    )
  for (const phase of ['APPLYING', 'SYNCED'] as const) {
    await tell(Phase[phase])
    for (const i of [0, 1]) {
      await eventually(async () => {
        const [state] = (await shown(i)) as { phase?: string }[]
        if (state?.phase !== phase) throw new Error(`replica ${i} shows ${state?.phase}`)
      })
    }
  }
  t.match(await shown(0), [{ source: '42-1', counts: { objects: 3 }, stale: false }])
  agent.close()
  await eventually(async () => {
    const [state] = (await shown(0)) as { stale?: boolean }[]
    if (!state?.stale) throw new Error('it is not stale yet')
  })
  t.equal((await ask(0, 'glpat-bob')).status, 401)
})
