import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { AgentkGo, type AgentkGoEvent, withoutGo } from '../support/agentk-go.ts'
import { GitalyDouble } from '../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../support/gitaly/served-repository.ts'
import { suiteWorld } from '../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../support/gitlab/whole-replicas.ts'

// GitOps of agents in Go by the configuration of kas, as stock agents of three releases do it. The test runs a whole
// kas, with GitLab and Gitaly.

/** Flags that leave out calls that these releases do not make. */
const releases = {
  'v13.8.0': ['--without-register'],
  'v15.0.0': ['--without-register'],
  'v16.5.0': [],
}
const [own, other] = ['platform/clusters', 'other/thing']
const configurationFile = '.gitlab/agents/prod/config.yaml'
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

async function start(t: Test, version: keyof typeof releases, files: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-peer-gitops-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const gitaly = await GitalyDouble.start(t, { folder })
  const world = suiteWorld()
  world.gitaly = { address: gitaly.address, token: gitaly.token }
  const repositories = new Map<string, ServedRepository>()
  for (const { id, path } of world.projects) {
    repositories.set(path, await ServedRepository.create(folder, `@hashed/${id}.git`))
  }
  const repository = (path: string) => repositories.get(path) as ServedRepository
  const { replicas, tellPush } = await startWholeReplicas(t, 1, { world })
  const push = async (path: string, pushed: Readonly<Record<string, string>>) => {
    const commit = await repository(path).push(pushed)
    await tellPush(path, BigInt(world.projects.find((project) => project.path === path)?.id ?? 0))
    return commit
  }
  await repository(other).push({ 'b.yml': 'b: 1', 'not.txt': '' })
  const commit = await repository(own).push(files)
  const agent = await AgentkGo.start(t, {
    kasAddress: `grpc://127.0.0.1:${replicas[0]?.portOf('Agentk API')}`,
    token: 'glagent-prod',
    flags: [`--version=${version}`, '--config-backoff=200ms', ...releases[version]],
  })
  return { agent, push, repository, commit }
}

const filesOf = ({ files }: AgentkGoEvent) =>
  (files as { source: string; sha256: string }[]).map(({ source, sha256 }) => [source, sha256])

for (const version of Object.keys(releases) as (keyof typeof releases)[]) {
  t.test(
    `${version}: two projects, pushes to each, one that may not be read, and none any more`,
    { skip: withoutGo },
    async (t) => {
      const large = 'x'.repeat(300_000)
      const configured = `
gitops:
  manifest_projects:
  - { id: ${own}, default_namespace: shop, paths: [{ glob: 'manifests/**/*.yaml' }], reconcile_timeout: 60s }
  - { id: ${other} }
  - { id: apps/web }
`
      const { agent, push, commit } = await start(t, version, {
        [configurationFile]: configured,
        'manifests/deep/a.yaml': large,
        'manifests/z.yaml': 'z: 1',
        'top.yaml': 'no: 1',
      })
      const first = await agent.event('gitops-objects', { project: own })
      t.match(first, { commit, projectId: 1, largest: 128 * 1024 })
      t.strictSame(filesOf(first), [
        ['manifests/deep/a.yaml', sha256(large)],
        ['manifests/z.yaml', sha256('z: 1')],
      ])
      t.ok((first.unknownFields as number) > 0, 'what is ours is there, and skipped')
      const whole = await agent.event('gitops-objects', { project: other })
      t.strictSame(filesOf(whole), [['b.yml', sha256('b: 1')]], 'by the glob that stands for none')
      t.match(await agent.event('gitops-failed', { project: 'apps/web' }), {
        code: 'NotFound',
        message: 'project not found',
      })

      await agent.event('gitops-asked', { project: own, commit })
      const next = await push(own, { 'manifests/z.yaml': 'z: 2' })
      const second = await agent.event('gitops-objects', { project: own, commit: next })
      t.strictSame(
        filesOf(second),
        [
          ['manifests/deep/a.yaml', sha256(large)],
          ['manifests/z.yaml', sha256('z: 2')],
        ],
        'whole, each time',
      )

      await agent.event('gitops-asked', { project: own, commit: next })
      const from = agent.events.length
      const left = await push(own, { [configurationFile]: 'gitops: { manifest_projects: [{ id: other/thing }] }' })
      await agent.event('configuration', { commit: left })
      const moved = await push(other, { 'b.yml': 'b: 2' })
      t.strictSame(filesOf(await agent.event('gitops-objects', { project: other, commit: moved })), [
        ['b.yml', sha256('b: 2')],
      ])
      const asked = agent.events.slice(from).filter(({ event, project }) => event === 'gitops-asked' && project === own)
      t.ok(asked.length <= 1, 'the source that is gone asks no longer')
      t.strictSame(agent.all('invalid-response'), [])
    },
  )
}

t.test('v16.5.0: a branch, a tag, and its own project without a name', { skip: withoutGo }, async (t) => {
  const configured = `
gitops:
  manifest_projects:
  - { ref: { tag: v1 } }
  - { id: ${other}, ref: { branch: main } }
`
  const { agent, push, repository, commit } = await start(t, 'v16.5.0', {
    [configurationFile]: configured,
    'a.yaml': 'a: 1',
  })
  await agent.event('gitops-failed', { project: own, code: 'NotFound' })
  await repository(own).git('tag', 'v1')
  await repository(own).git('push', '--quiet', repository(own).bare, 'v1')
  await push(own, { 'a.yaml': 'a: 2' })
  const tagged = await agent.event('gitops-objects', { project: own })
  t.match(tagged, { commit, projectId: 1 })
  t.same(filesOf(tagged).at(-1), ['a.yaml', sha256('a: 1')])
  await agent.event('gitops-objects', { project: other })
  t.strictSame(agent.all('invalid-response'), [])
})
