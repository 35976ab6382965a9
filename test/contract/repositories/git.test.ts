import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { type GitRepositoriesOptions, gitRepositories } from '../../../src/kas/repositories/git-repositories.ts'
import type { CommitId, Reading } from '../../../src/kas/repositories/repositories.ts'
import type { RepositoryAddress } from '../../../src/kas/repositories/repository-url.ts'
import type { Clock } from '../../../src/lib/clock.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { startGitHttpsServer } from '../../support/git-https-server.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { failure, repositoriesSuite } from './repositories-suite.ts'
import { treesSuite } from './trees-suite.ts'

const run = promisify(execFile)
const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'platform/clusters' } }
const signal = new AbortController().signal

/** Starts with a bare repository. Returns the repositories of kas for it. */
async function start(
  t: Test,
  {
    clock,
    isPolledAsAddressed,
    ...options
  }: Partial<GitRepositoriesOptions> & {
    address?: Partial<RepositoryAddress>
    clock?: Clock
    isPolledAsAddressed?: boolean
  } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-git-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder, 'remote.git')
  const url = repository.bare
  const git = (...args: string[]) => repository.git(...args)
  const changes = new Set<() => void>()
  const addresses = {
    known: { url, ...options.address } as RepositoryAddress | undefined,
    repository: (id: bigint) => (id === 1n ? addresses.known : undefined),
    onChange: (listener: () => void) => {
      changes.add(listener)
      return () => changes.delete(listener)
    },
    change(to: RepositoryAddress | undefined) {
      addresses.known = to
      for (const listener of changes) listener()
    },
  }
  const stateDir = join(folder, 'state')
  const { log, lines } = capturedLog()
  const components = { addresses, log, random: () => 0, ...(clock && { clock }) }
  const all: GitRepositoriesOptions = {
    stateDir,
    env: process.env,
    ...(!isPolledAsAddressed && { pollMs: 100 }),
    ...options,
  }
  const repositories = gitRepositories(components, all)
  t.teardown(() => repositories.stop())
  await repositories.start()
  const push = (files: Readonly<Record<string, string | Uint8Array>>) => repository.push(files)
  const link = (path: string, target: string) => repository.link(path, target)
  const loseBranch = async () => {
    await git('push', '--quiet', url, 'HEAD:other', 'HEAD:another')
    await repository.inBare('update-ref', '-d', 'refs/heads/main')
  }
  return {
    repositories,
    agent,
    push,
    link,
    loseBranch,
    git,
    url,
    folder,
    stateDir,
    addresses,
    components,
    options: all,
    lines,
  }
}

t.test('git: the default branch by its name, also after it was renamed', async (t) => {
  const { repositories, push, url, git } = await start(t)
  const commit = await push({ a: '1' })
  t.equal(await repositories.head(agent, signal), commit)
  t.match(repositories.lastPoll(agent), { commit, branch: 'main' })
  const ref = { ...agent, ref: 'refs/heads/main' }
  t.equal(await repositories.head(ref, signal), commit)
  t.match(repositories.lastPoll(ref), { commit, branch: undefined }, 'a ref is no default branch')
  const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
  await git('--git-dir', url, 'branch', '-m', 'main', 'trunk')
  await moved
  t.equal(await repositories.head(agent, signal), commit)
  t.match(repositories.lastPoll(agent), { commit, branch: 'trunk' })
})

/** Makes a git that records its commands. Processes that git itself starts do not count. */
async function recordingGit(t: Test) {
  const bin = t.testdir()
  const told = join(bin, 'told')
  const script = `#!/bin/sh\necho "$1" >> ${told}\nPATH=\${PATH#*:} exec git "$@"\n`
  await writeFile(join(bin, 'git'), script)
  await chmod(join(bin, 'git'), 0o755)
  return { bin, commands: () => readFileSync(told, 'utf8').trim().split('\n') }
}

repositoriesSuite('git', start)
treesSuite('git', start)

t.test('git: the branch that the directory names, else the one that the repository names', async (t) => {
  const named = await start(t, { address: { defaultBranch: 'trunk' } })
  await named.push({ a: '1' })
  t.equal(
    (await failure(named.repositories.head(agent, signal))).message,
    'ref refs/heads/trunk not found: the repository has main',
  )
  await named.git('checkout', '--quiet', '-b', 'trunk')
  const other = await start(t)
  const commit = await other.push({ a: '1' })
  await other.git('push', '--quiet', other.url, 'HEAD:zzz')
  await run('git', ['-C', other.url, 'symbolic-ref', 'HEAD', 'refs/heads/zzz'])
  t.equal(await other.repositories.head(agent, signal), commit)
})

t.test('git: HEAD names a branch that is not there: the only one is taken, of more the error says which', async (t) => {
  for (const transport of ['', 'file://']) {
    const side = await start(t)
    const only = await side.push({ a: '1' })
    await run('git', ['-C', side.url, 'symbolic-ref', 'HEAD', 'refs/heads/gone'])
    side.addresses.change({ url: `${transport}${side.url}` })
    t.equal(await side.repositories.head(agent, signal), only)
    t.equal(String(await side.repositories.file(agent, only as CommitId, 'a', 10, signal)), '1')
    await side.git('push', '--quiet', side.url, 'HEAD:feature/x', 'HEAD:zzz')
    await side.repositories.pollAfterNotice(agent.project.id)
    t.equal(
      (await failure(side.repositories.head(agent, signal))).message,
      'ref HEAD not found: it names refs/heads/gone, which is not there; the repository has feature/x, main, zzz',
    )
    await side.git('push', '--quiet', side.url, 'HEAD:gone')
    await side.repositories.pollAfterNotice(agent.project.id)
    t.equal(await side.repositories.head(agent, signal), only)
  }
})

t.test('git: agents of one project share a mirror and its polls', async (t) => {
  const { repositories, push, stateDir } = await start(t)
  await push({ a: '1' })
  const second: Agent = { ...agent, id: 43n as AgentId, name: 'staging' }
  const heads = await Promise.all([repositories.head(agent, signal), repositories.head(second, signal)])
  t.equal(heads[0], heads[1])
  t.equal((await readdir(stateDir)).length, 1)
})

t.test('git: a ref is polled as often as it is said here, though who follows it asks Gitaly seldom', async (t) => {
  const { repositories, push } = await start(t)
  await push({ a: '1' })
  const ofRef = { ...agent, ref: 'refs/heads/main' }
  const { promise: moved, resolve } = Promise.withResolvers<void>()
  t.teardown(repositories.onMove(ofRef, resolve, { pollMs: 300_000 }))
  await repositories.head(ofRef, signal)
  const second = await push({ a: '2' })
  await moved
  t.equal(await repositories.head(ofRef, signal), second)
})

t.test('git: a period that the directory changes holds at once, for the same mirror', async (t) => {
  const clock = new ManualClock()
  const { repositories, push, addresses, url, stateDir } = await start(t, { clock, isPolledAsAddressed: true })
  addresses.change({ url, hookSecretFile: '/etc/kas/hook' })
  await push({ a: '1' })
  await repositories.head(agent, signal)
  const { promise: moved, resolve } = Promise.withResolvers<void>()
  t.teardown(repositories.onMove(agent, resolve))
  await repositories.head(agent, signal)
  const second = await push({ a: '2' })
  clock.advance(299_000)
  addresses.change({ url, hookSecretFile: '/etc/kas/hook', pollMs: 1000 })
  clock.advance(1000)
  await moved
  t.equal(await repositories.head(agent, signal), second)
  t.equal((await readdir(stateDir)).length, 1)
})

t.test('git: a push that is told is fetched without a look; one that brings nothing is looked for', async (t) => {
  const { bin, commands } = await recordingGit(t)
  const { repositories, push, git, url } = await start(t, {
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
    pollMs: 60_000,
  })
  await push({ a: '1' })
  await repositories.head(agent, signal)
  t.teardown(repositories.onMove(agent, () => undefined))
  const first = commands().length
  const second = (await push({ a: '2' })) as CommitId
  await repositories.pollAfterNotice(agent.project.id)
  t.equal(await repositories.head(agent, signal), second)
  t.same(commands().slice(first), ['fetch'])
  t.equal(String(await repositories.file(agent, second, 'a', 9, signal)), '2')
  // the default branch is another one now
  await git('push', '--quiet', url, 'HEAD:next')
  await run('git', ['-C', url, 'symbolic-ref', 'HEAD', 'refs/heads/next'])
  await git('commit', '--quiet', '--allow-empty', '--message', 'next')
  await git('push', '--quiet', url, 'HEAD:next')
  await repositories.pollAfterNotice(agent.project.id)
  t.equal(await repositories.head(agent, signal), await git('rev-parse', 'HEAD'))
  await run('git', ['-C', url, 'update-ref', '-d', 'refs/heads/next'])
  await run('git', ['-C', url, 'update-ref', '-d', 'refs/heads/main'])
  await repositories.pollAfterNotice(agent.project.id)
  t.equal(await repositories.head(agent, signal), undefined, 'it is empty now')
})

t.test('git: another start goes on with what was fetched', async (t) => {
  const { repositories, push, stateDir, components, options } = await start(t)
  const commit = (await push({ a: '1' })) as CommitId
  await repositories.head(agent, signal)
  await repositories.stop()
  const [mirror = ''] = await readdir(stateDir)
  t.equal((await stat(join(stateDir, mirror, '0'))).mode & 0o777, 0o700)
  const again = gitRepositories(components, options)
  t.teardown(() => again.stop())
  t.equal(await again.head(agent, signal), commit)
  t.same(await readdir(join(stateDir, mirror)), ['0'])
  t.equal(String(await again.file(agent, commit, 'a', 9, signal)), String(Buffer.from('1')))
})

t.test('git: history does not count, a newest commit that is too large does', async (t) => {
  const noise = (bytes: number) => Buffer.from(Array.from({ length: bytes }, () => Math.floor(Math.random() * 256)))
  const { repositories, push, stateDir } = await start(t, { maxRepositoryBytes: 300_000, maxBackoffMs: 20 })
  for (let i = 0; i < 4; i++) await push({ large: noise(100_000) })
  const commit = await push({ large: 'small' })
  t.equal(await repositories.head(agent, signal), commit)
  const moved = () => new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
  let move = moved()
  await push({ large: noise(400_000) })
  await move
  const error = await failure(repositories.head(agent, signal))
  t.equal(error.message, 'Repository: the newest commit takes more than 300000 bytes')
  move = moved()
  const last = (await push({ large: 'small again' })) as CommitId
  await move
  t.equal(await repositories.head(agent, signal), last)
  t.equal(String(Buffer.from((await repositories.file(agent, last, 'large', 99, signal)) ?? [])), 'small again')
  t.equal((await readdir(stateDir)).length, 1)
})

t.test('git: a worn mirror is made anew, and the old one goes', async (t) => {
  const { repositories, push, stateDir } = await start(t, { renewAfterFetches: 1, keepReplacedMs: 0 })
  let commit = (await push({ a: '0' })) as CommitId
  await repositories.head(agent, signal)
  for (let i = 1; i < 3; i++) {
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
    commit = (await push({ a: String(i) })) as CommitId
    await moved
  }
  t.equal(String(Buffer.from((await repositories.file(agent, commit, 'a', 9, signal)) ?? [])), '2')
  await repositories.stop()
  const [mirror = ''] = await readdir(stateDir)
  t.equal((await readdir(join(stateDir, mirror))).length, 1)
})

t.test('git: a repository that moves, goes and comes back in the directory is followed', async (t) => {
  const { repositories, push, url, addresses, folder } = await start(t)
  const commit = await push({ a: '1' })
  t.equal(await repositories.head(agent, signal), commit)
  let told = 0
  t.teardown(repositories.onMove(agent, () => told++))
  addresses.change(undefined)
  t.equal(told, 1)
  t.match((await failure(repositories.head(agent, signal))).message, /platform\/clusters has no git repository/)
  await rename(url, join(folder, 'moved.git'))
  addresses.change({ url: `file://${join(folder, 'moved.git')}` })
  t.equal(told, 2)
  t.equal(await repositories.head(agent, signal), commit)
  addresses.change({ url: `file://${join(folder, 'moved.git')}` })
  t.equal(told, 2, 'the same address is no news')
})

t.test('git: a repository that is not there, and one that asks for a program', async (t) => {
  const { repositories, addresses, folder } = await start(t, { maxBackoffMs: 20 })
  addresses.change({ url: join(folder, 'none.git') })
  t.match(
    (await failure(repositories.head(agent, signal))).message,
    /^Repository: fatal: .*does not appear to be a git repo/,
  )
  const proof = join(folder, 'proof')
  addresses.change({ url: `ext::sh -c "touch ${proof}"` })
  t.equal((await failure(repositories.head(agent, signal))).code, 'REPOSITORY_FAILED')
  await t.rejects(stat(proof))
})

t.test(
  'git: credentials go to their host by the environment, never by argv, and a redirect is not followed',
  async (t) => {
    const folder = t.testdir({ credentials: 'ada:s3cret\n', bin: {} })
    // a git that records its input and environment instead of running
    const seen = join(folder, 'seen')
    const script = `#!/bin/sh\n{ echo "argv: $*"; env; } >> ${seen}\nexit 128\n`
    await writeFile(join(folder, 'bin', 'git'), script)
    await chmod(join(folder, 'bin', 'git'), 0o755)
    const { repositories } = await start(t, {
      address: { url: 'https://gitlab.example.com:8443/a/b.git', credentialsFile: join(folder, 'credentials') },
      env: { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, SECRET_OF_KAS: 'x', HTTPS_PROXY: 'http://proxy:1' },
    })
    const error = await failure(repositories.head(agent, signal))
    t.equal(error.message, 'Repository: git ended with exit code 128', 'also a failure without a word is one')
    const { stdout } = await run('cat', [seen])
    const basic = Buffer.from('ada:s3cret').toString('base64')
    t.match(stdout, `Authorization: Basic ${basic}`)
    t.match(stdout, 'http.https://gitlab.example.com:8443/.extraHeader')
    t.match(stdout, 'http.followRedirects')
    t.match(stdout, 'HTTPS_PROXY=http://proxy:1')
    t.notMatch(stdout, 'SECRET_OF_KAS')
    for (const line of stdout.split('\n').filter((one) => one.startsWith('argv:'))) t.notMatch(line, /s3cret|Basic/)
  },
)

t.test('git: credentials that cannot be read are told without showing them', async (t) => {
  const folder = t.testdir({ two: 'ada:s3cret\nbob:s3cret\n', empty: '' })
  for (const [name, says] of [
    ['none', /credentials_file .*none: ENOENT/],
    ['two', /one line, user:password or a token alone/],
    ['empty', /one line/],
  ] as const) {
    const { repositories } = await start(t, {
      address: { url: 'https://localhost:1/x.git', credentialsFile: join(folder, name) },
    })
    const error = await failure(repositories.head(agent, signal))
    t.match(error.message, says)
    t.notMatch(error.message, 's3cret')
  }
})

const noProc = process.platform === 'linux' ? false : 'needs /proc'
t.test(
  'git: a server that never answers is left after the time-out, with all processes',
  { skip: noProc },
  async (t) => {
    const server = createServer() // accepts connections and sends nothing
    const sockets = new Set<Socket>()
    server.on('connection', (socket) => sockets.add(socket))
    t.teardown(() => server.close())
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const running = async () => {
      const { stdout } = await run('ps', ['-eo', 'args'])
      return stdout.split('\n').filter((args) => args.includes(`127.0.0.1:${port}`))
    }
    const url = `https://127.0.0.1:${port}/x.git`
    const silent = await start(t, { address: { url }, updateTimeoutMs: 500 })
    const error = await failure(silent.repositories.head(agent, signal))
    t.equal(error.message, 'Repository: git took longer than 500 ms')
    t.same(await running(), [])
    const stopped = await start(t, { address: { url } })
    const head = failure(stopped.repositories.head(agent, signal))
    await new Promise((resolve) => server.once('connection', resolve))
    await stopped.repositories.stop()
    t.equal((await head).code, 'SHUTTING_DOWN')
    t.same(await running(), [])
  },
)

t.test('git: https with credentials and a CA of its own, over the wire', async (t) => {
  const { repositories, push, addresses, folder, components, options } = await start(t, { maxBackoffMs: 20 })
  const commit = (await push({ a: '1' })) as CommitId
  await rename(addresses.known?.url ?? '', join(folder, 'x.git'))
  const { origin, ca, seen } = await startGitHttpsServer(t, folder)
  const [credentialsFile, caFile, wrongFile] = ['credentials', 'ca.pem', 'wrong'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(credentialsFile, 'ada:s3cret\n')
  await writeFile(wrongFile, 'glpat-wrong')
  await writeFile(caFile, ca)

  addresses.change({ url: `${origin}/x.git`, credentialsFile })
  t.match((await failure(repositories.head(agent, signal))).message, /certificate/, 'an unknown CA is refused')

  const trusting = gitRepositories(components, { ...options, env: { ...process.env, SSL_CERT_FILE: caFile } })
  t.teardown(() => trusting.stop())
  t.equal(await trusting.head(agent, signal), commit)
  t.equal(String(Buffer.from((await trusting.file(agent, commit, 'a', 9, signal)) ?? [])), '1')

  addresses.change({ url: `${origin}/x.git`, credentialsFile: wrongFile })
  const refused = await failure(trusting.head(agent, signal))
  t.match(refused.message, /^Repository: fatal: /)
  t.notMatch(refused.message, 'glpat-wrong')
  t.equal(seen.at(-1)?.authorization, `Basic ${Buffer.from('oauth2:glpat-wrong').toString('base64')}`)

  seen.length = 0
  addresses.change({ url: `${origin}/moved`, credentialsFile })
  await failure(trusting.head(agent, signal))
  t.ok(seen.length > 0 && seen.every(({ url }) => url.startsWith('/moved/')), 'a redirect is not followed')
})

t.test('git: the mirror of a ref that nobody follows any more goes; who comes back soon finds it', async (t) => {
  const clock = new ManualClock()
  const { repositories, push, git, url, stateDir } = await start(t, { clock })
  const one = await push({ a: '1' })
  await git('push', '--quiet', url, 'HEAD:b')
  const of = { ...agent, ref: 'refs/heads/b' }
  const ignore = () => undefined
  let released = 0
  const following = { released: () => void released++ }
  const leave = repositories.onMove(of, ignore, following)
  t.equal(await repositories.head(of, signal), one)
  t.equal((await readdir(stateDir)).length, 1)
  leave()
  clock.advance(29_999)
  t.equal(released, 0, 'its mirror is there')
  const leaveAgain = repositories.onMove(of, ignore, following)
  t.equal(released, 1)
  clock.advance(60_000)
  t.equal((await readdir(stateDir)).length, 1, 'somebody has come back')
  await repositories.head(of, signal)
  leaveAgain()
  clock.advance(30_000)
  t.equal(released, 1, 'its mirror is being removed')
  await eventually(() => released === 2)
  t.strictSame(await readdir(stateDir), [])
  t.equal(await repositories.head(of, signal), one, 'it is fetched anew')
  t.equal(String(await repositories.file(of, one as CommitId, 'a', 10, signal)), '1')
})

t.test('git: refs beside the default branch take no more than they may together', async (t) => {
  const { repositories, push, git, url } = await start(t, { maxCountedBytes: 200_000, maxBackoffMs: 20 })
  const head = await push({ big: randomBytes(120_000) })
  const refs = ['b', 'c', 'd'].map((name) => ({ ...agent, ref: `refs/heads/${name}` }))
  for (const { ref } of refs) await git('push', '--quiet', url, `HEAD:${ref}`)
  const [b, c, d] = refs as Reading[] as [Reading, Reading, Reading]
  t.equal(await repositories.head(b, signal), head)
  const refused = /refs beside default branches take more than 200000 bytes/
  t.match((await failure(repositories.head(c, signal))).message, refused)
  t.match((await failure(repositories.head(d, signal))).message, refused)
  t.equal(await repositories.head(agent, signal), head, 'default branches do not count')
  t.equal(await repositories.head(b, signal), head, 'who was there first stays')
})

t.test('git: the refs of one agent leave room on the disk for those of others', async (t) => {
  const { repositories, push, git, url } = await start(t, { maxCountedBytesOfAgent: 200_000, maxBackoffMs: 20 })
  const head = await push({ big: randomBytes(120_000) })
  const refs = ['b', 'c', 'd'].map((name) => `refs/heads/${name}`)
  for (const ref of refs) await git('push', '--quiet', url, `HEAD:${ref}`)
  const [b, c, d] = refs.map((ref) => ({ ...agent, ref })) as Reading[] as [Reading, Reading, Reading]
  t.equal(await repositories.head(b, signal), head)
  const refused = /refs beside default branches of one agent take more than 200000 bytes/
  t.match((await failure(repositories.head(c, signal))).message, refused)
  t.equal(await repositories.head({ ...d, id: 43n as AgentId }, signal), head)
  t.match((await failure(repositories.head(c, signal))).message, refused)
})

t.test('a history is fetched once for each head, without files, and only so far back', async (t) => {
  const { repositories, push, git, url, stateDir } = await start(t, {
    pollMs: 3_600_000,
    maxRepositoryBytes: 300_000,
  })
  const first = (await push({ a: randomBytes(1_000_000) })) as CommitId
  await push({ a: '1' })
  for (let i = 0; i < 99; i++) await git('commit', '--quiet', '--allow-empty', '--message', String(i))
  const near = (await git('rev-parse', 'HEAD~99')) as CommitId
  await git('push', '--quiet', url, 'HEAD:main')
  const head = (await repositories.head(agent, signal)) as CommitId
  const has = (commit: CommitId) => repositories.contains(agent, head, commit, signal)
  t.strictSame(await Promise.all([has(near), has(head), has(first)]), [true, true, false])
  await rename(url, `${url}.away`)
  t.equal(await has(near), true, 'it is known')
  t.equal((await failure(repositories.contains(agent, near, head, signal))).code, 'REPOSITORY_FAILED')
  await rename(`${url}.away`, url)
  const left = await readdir(stateDir, { recursive: true })
  t.notOk(
    left.some((name) => name.includes('history')),
    'nothing of it stays',
  )
})
