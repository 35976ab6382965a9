import t from 'tap'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { eventually } from '../../support/eventually.ts'
import { gitalyAgent as agent, startGitalySide } from '../../support/gitaly/gitaly-side.ts'
import { type GitalyVersion, gitalyVersions } from '../../support/gitaly/gitaly-versions.ts'
import { failure, repositoriesSuite } from './repositories-suite.ts'
import { treesSuite } from './trees-suite.ts'

/** Calls that kas makes to a sound Gitaly, and their times (doc/reference/tunnel-protocol.md 1.20, 2.9). */

const signal = new AbortController().signal
const path = '.gitlab/agents/prod/config.yaml'
const versions = Object.keys(gitalyVersions) as GitalyVersion[]
/** only notifications cause calls */
const unpolled = { repositories: { pollMs: 3_600_000 } }

for (const version of ['16.5', '18.9'] as const) {
  repositoriesSuite(`gitaly ${version}`, async (t) => {
    const { repositories, repository } = await startGitalySide(t, { double: { version } })
    return {
      repositories,
      agent,
      push: (files) => repository.push(files),
      link: (at, target) => repository.link(at, target),
      loseBranch: () => repository.loseBranch(),
    }
  })
}

for (const version of versions) {
  treesSuite(`gitaly ${version}`, async (t) => {
    const { repositories, repository } = await startGitalySide(t, { double: { version } })
    return {
      repositories,
      agent,
      push: (files) => repository.push(files),
      link: (at, target) => repository.link(at, target),
      git: (...args) => repository.git(...args),
      url: repository.bare,
    }
  })
}

t.test('the default branch by its name: GitLab’s, or that of HEAD', async (t) => {
  for (const defaultBranch of ['main', '']) {
    const { repositories, repository, learn } = await startGitalySide(t, { coordinates: { defaultBranch } })
    const commit = await repository.push({ a: '1' })
    t.equal(await repositories.head(agent, signal), commit)
    t.match(repositories.lastPoll(agent), { commit, branch: 'main' })
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
    await repository.inBare('branch', '-m', 'main', 'trunk')
    if (defaultBranch !== '') learn({ defaultBranch: 'trunk' })
    await moved
    t.equal(await repositories.head(agent, signal), commit)
    t.match(repositories.lastPoll(agent), { commit, branch: 'trunk' })
    const ref = { ...agent, ref: 'refs/heads/trunk' }
    t.equal(await repositories.head(ref, signal), commit)
    t.match(repositories.lastPoll(ref), { commit, branch: undefined }, 'a ref is no default branch')
  }
})

t.test('a round is three calls, and its answers come in pieces of any size', async (t) => {
  for (const chunkBytes of [1, 3, 50]) {
    const { repositories, repository, gitaly } = await startGitalySide(t, { ...unpolled, double: { chunkBytes } })
    const commit = (await repository.push({ 'a/x': '1'.repeat(60), 'a/y': '', 'b/z': '3' })) as CommitId
    t.equal(await repositories.head(agent, signal), commit)
    const files = [...(await repositories.files(agent, commit, '', signal))]
    const limits = { maxFileBytes: 60, maxTotalBytes: 61 }
    const blobs = await repositories.blobs(agent, commit, files, limits, signal)
    t.strictSame(blobs.map(String), ['1'.repeat(60), '', '3'])
    t.strictSame(
      gitaly.calls.map(({ method }) => method),
      ['InfoRefsUploadPack', 'GetTreeEntries', 'GetBlobs'],
    )
  }
})

// wire: gitaly.CommitIsAncestor
t.test('whether a head contains a commit is one call; one without an answer is an error', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const first = (await repository.push({ a: '1' })) as CommitId
  const head = (await repository.push({ a: '2' })) as CommitId
  t.equal(await repositories.head(agent, signal), head)
  t.equal(await repositories.contains(agent, head, head, signal), true)
  t.equal(gitaly.of('CommitIsAncestor').length, 0)
  t.equal(await repositories.contains(agent, head, first, signal), true)
  t.equal(await repositories.contains(agent, first, head, signal), false)
  t.match(gitaly.of('CommitIsAncestor'), [{ unknownFields: [], request: { ancestorId: first, childId: head } }, {}])
  for (const fault of [{ kind: 'nothing' }, { kind: 'garbage' }, { kind: 'status', code: 13, message: 'x' }] as const) {
    gitaly.fault = fault
    const { code } = await failure(repositories.contains(agent, head, first, signal))
    t.equal(code, 'REPOSITORY_FAILED', fault.kind)
  }
})

// wire: gitaly.InfoRefsUploadPack, gitaly.TreeEntry, gitaly.GetTreeEntries, gitaly.token, gitaly.features
t.test('calls are as upstream makes them: fields, token, features, one connection', async (t) => {
  const features = { 'gitaly-feature-quick': 'true', 'Gitaly-Feature-Loud': 'false', 'not sendable': 'x', te: 'y\n' }
  const { repositories, repository, gitaly } = await startGitalySide(t, { ...unpolled, coordinates: { features } })
  const commit = (await repository.push({ [path]: 'a: 1' })) as CommitId
  t.equal(await repositories.head(agent, signal), commit)
  await Promise.all([1, 2, 3].map(() => repositories.file(agent, commit, path, 1000, signal)))
  await repositories.file(agent, commit, 'none', 1000, signal)
  t.strictSame(
    gitaly.calls.map(({ method }) => method),
    ['InfoRefsUploadPack', 'GetTreeEntries', 'TreeEntry', 'TreeEntry', 'TreeEntry', 'TreeEntry', 'GetTreeEntries'],
    'an absent file is believed once the commit is seen to be there',
  )
  t.strictSame(new Set(gitaly.calls.map(({ peer }) => peer)).size, 1)
  for (const { metadata, unknownFields, request } of gitaly.calls) {
    t.strictSame(unknownFields, [], 'neither git_config_options nor git_protocol, which keep Gitaly from its cache')
    t.match(metadata, { 'gitaly-feature-quick': 'true', 'gitaly-feature-loud': 'false' })
    t.match(metadata.authorization, /^Bearer v2\.[0-9a-f]{64}\.\d{10}$/)
    t.match(metadata['user-agent'], /^gitlab-kas\/v18\.5\.0\/abcdef/)
    const { repository: asked } = request as { repository: object }
    t.match(asked, { storageName: 'default', relativePath: '@hashed/1.git', glRepository: 'project-1' })
    t.match(asked, { glProjectPath: 'platform/clusters' })
  }
  t.match(gitaly.of('TreeEntry')[0]?.request, {
    revision: Buffer.from(commit),
    path: Buffer.from(path),
    maxSize: 1000n,
  })
})

// wire: gitaly.token
t.test('without a token none is shown', async (t) => {
  const { repositories, gitaly } = await startGitalySide(t, { double: { token: '' } })
  t.equal(await repositories.head(agent, signal), undefined)
  t.notOk('authorization' in (gitaly.calls[0]?.metadata ?? {}))
})

t.test('the branch that GitLab names, else the one that HEAD names', async (t) => {
  const { repositories, repository, learn } = await startGitalySide(t, unpolled)
  const main = await repository.push({ a: '1' })
  await repository.git('checkout', '--quiet', '-b', 'größer/neu')
  await repository.git('commit', '--quiet', '--allow-empty', '--message', 'other')
  await repository.git('push', '--quiet', repository.bare, 'HEAD')
  const other = await repository.git('rev-parse', 'HEAD')
  for (const [defaultBranch, commit] of [
    ['main', main],
    ['größer/neu', other],
    ['', main],
  ] as const) {
    learn({ defaultBranch })
    t.equal(await repositories.head(agent, signal), commit, defaultBranch)
  }
  await repository.inBare('symbolic-ref', 'HEAD', 'refs/heads/größer/neu')
  learn({ defaultBranch: 'none' })
  t.equal(
    (await failure(repositories.head(agent, signal))).message,
    'ref refs/heads/none not found: the repository has größer/neu, main',
  )
  learn({ defaultBranch: '', features: { 'gitaly-feature-x': 'true' } })
  await repositories.pollAfterNotice(1n)
  t.equal(await repositories.head(agent, signal), other)
})

t.test('answers in pieces of any size', async (t) => {
  for (const chunkBytes of [1, 3, 50]) {
    const { repositories, repository } = await startGitalySide(t, { ...unpolled, double: { chunkBytes } })
    const commit = (await repository.push({ [path]: 'a: 1' })) as CommitId
    t.equal(await repositories.head(agent, signal), commit)
    t.equal(String(Buffer.from((await repositories.file(agent, commit, path, 10, signal)) ?? [])), 'a: 1')
  }
})

t.test('an absent file in an empty tree is absent', async (t) => {
  for (const version of versions) {
    const { repositories, repository } = await startGitalySide(t, { ...unpolled, double: { version } })
    const commit = (await repository.push({})) as CommitId
    t.equal(await repositories.file(agent, commit, path, 10, signal), undefined, version)
  }
})

t.test('a push that is told is looked at now, also while a look is under way', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const one = await repository.push({ a: '1' })
  let moves = 0
  t.teardown(repositories.onMove(agent, () => moves++))
  t.equal(await repositories.head(agent, signal), one)
  const two = await repository.push({ a: '2' })
  t.equal(await repositories.head(agent, signal), one, 'nobody has looked')
  await repositories.pollAfterNotice(2n)
  t.equal(await repositories.head(agent, signal), one, 'another project')
  await repositories.pollAfterNotice(1n)
  t.equal(await repositories.head(agent, signal), two)
  t.equal(moves, 1)

  const { promise: until, resolve: answer } = Promise.withResolvers<void>()
  gitaly.fault = { kind: 'broken' }
  await repositories.pollAfterNotice(1n)
  const looks = gitaly.calls.length
  gitaly.fault = { kind: 'slow', until }
  const first = repositories.pollAfterNotice(1n)
  await eventually(() => gitaly.calls.length > looks || Promise.reject(new Error('not asked yet')))
  gitaly.fault = undefined
  const rest = [1, 2, 3].map(() => repositories.pollAfterNotice(1n))
  const three = await repository.push({ a: '3' })
  answer()
  await Promise.all([first, ...rest])
  t.equal(gitaly.calls.length, looks + 2, 'once more for all that were told meanwhile')
  t.equal(await repositories.head(agent, signal), three)
})

t.test('a repository that moves, and a token that changes, are followed', async (t) => {
  const { repositories, repository, gitaly, learn } = await startGitalySide(t, unpolled)
  const one = await repository.push({ a: '1' })
  let moves = 0
  t.teardown(repositories.onMove(agent, () => moves++))
  t.equal(await repositories.head(agent, signal), one)
  const elsewhere = await startGitalySide(t)
  const two = await elsewhere.repository.push({ a: '2' })
  learn({ address: elsewhere.gitaly.address })
  t.equal(moves, 1)
  t.equal(await repositories.head(agent, signal), two)
  elsewhere.gitaly.token = 'another'
  learn({ address: elsewhere.gitaly.address, token: 'another' })
  t.equal(await repositories.head(agent, signal), two)
  const asked = elsewhere.gitaly.calls.length
  learn({ address: elsewhere.gitaly.address, token: 'another', features: { 'gitaly-feature-x': 'true' } })
  t.equal(await repositories.head(agent, signal), two)
  t.equal(elsewhere.gitaly.calls.length, asked, 'features alone are no news')
  await repositories.pollAfterNotice(1n)
  t.equal(elsewhere.gitaly.calls.at(-1)?.metadata['gitaly-feature-x'], 'true')
  t.equal(gitaly.calls.length, 1)
})

t.test('the files of all agents of a project: one listing a commit, and what has changed', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const fileOf = (name: string) => `.gitlab/agents/${name}/config.yaml`
  const names = Array.from({ length: 50 }, (_, i) => `agent-${i}`)
  const methods = () => gitaly.calls.splice(0).map(({ method }) => method)
  const read = (commit: CommitId) =>
    Promise.all(names.map((name) => repositories.file(agent, commit, fileOf(name), 1000, signal))).then((all) =>
      all.map((content) => content && String(content)),
    )
  const empty = (await repository.push({ other: '1' })) as CommitId
  await repositories.head(agent, signal)
  methods()
  t.strictSame(await read(empty), Array(50).fill(undefined))
  t.strictSame(methods(), ['GetTreeEntries', 'GetTreeEntries'], 'and one that shows that the commit is there')
  t.notOk(await repositories.mayHave(agent, empty, '.gitlab/agents/agent-1/gitops.yaml', signal))
  const files = Object.fromEntries(names.slice(0, 3).map((name, i) => [fileOf(name), `a: ${i}`]))
  const first = (await repository.push(files)) as CommitId
  t.strictSame((await read(first)).slice(0, 4), ['a: 0', 'a: 1', 'a: 2', undefined])
  t.strictSame(methods(), ['GetTreeEntries', 'TreeEntry', 'TreeEntry', 'TreeEntry'])
  const second = (await repository.push({ [fileOf('agent-1')]: 'b: 1' })) as CommitId
  t.strictSame((await read(second)).slice(0, 4), ['a: 0', 'b: 1', 'a: 2', undefined])
  t.strictSame(methods(), ['GetTreeEntries', 'TreeEntry'])
  const tooLarge = repositories.file(agent, second, fileOf('agent-0'), 3, signal)
  t.match(await failure(tooLarge), { code: 'CONFIGURATION_INVALID', message: /has 4 bytes, more than 3/ })
  t.strictSame(methods(), [], 'kept, and too large all the same')
})

t.test('no more Gitalys are kept than allowed, and each gets no more calls than it should', async (t) => {
  const serverLimit = { refillPerSecond: 50, bucketSize: 1 }
  const { repositories, repository, gitaly, learn } = await startGitalySide(t, {
    repositories: { pollMs: 3_600_000, maxServers: 1, serverLimit },
  })
  const commit = (await repository.push({ file: 'a: 1' })) as CommitId
  const begin = performance.now()
  for (let i = 0; i < 6; i++) await repositories.file(agent, commit, 'file', 10, signal)
  t.ok(performance.now() - begin >= 95, 'five calls waited for 20 ms each')
  const elsewhere = await startGitalySide(t)
  const other = (await elsewhere.repository.push({ file: 'b: 1' })) as CommitId
  learn({ address: elsewhere.gitaly.address })
  await repositories.file(agent, other, 'file', 10, signal)
  learn()
  await repositories.file(agent, commit, 'file', 10, signal)
  t.equal(new Set(gitaly.calls.map(({ peer }) => peer)).size, 2, 'its connection had made room')
})
