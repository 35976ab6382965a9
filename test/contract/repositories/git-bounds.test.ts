import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { GitFolder } from '../../../src/kas/repositories/git-folder.ts'
import { type GitRepositoriesOptions, gitRepositories } from '../../../src/kas/repositories/git-repositories.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import type { RepositoryAddress } from '../../../src/kas/repositories/repository-url.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'
import { type ErrorCode, KasError } from '../../../src/lib/errors.ts'
import { Turns } from '../../../src/lib/turns.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { writeDeltaBomb } from '../../support/delta-bomb.ts'
import { eventually } from '../../support/eventually.ts'
import { startGitHttpsServer } from '../../support/git-https-server.ts'
import { GitRepository } from '../../support/git-repository.ts'
import { watchMemory } from '../../support/process-memory.ts'
import { failure } from './repositories-suite.ts'

/** Bounds of the resources that a repository can make kas' git processes use, whatever was pushed. */

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'platform/clusters' } }
const signal = new AbortController().signal
const skip = process.platform === 'linux' ? false : 'elsewhere the system counts no memory'
const mebibyte = 2 ** 20
/** resident memory of one process: its 64 MiB of allocations, its program, and mapped packs */
const maxResident = 120 * mebibyte

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kas-git-bounds-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}

async function start(
  t: Test,
  address: RepositoryAddress | ((projectId: bigint) => RepositoryAddress),
  { clock = systemClock, ...options }: Partial<GitRepositoriesOptions> & { readonly clock?: Clock } = {},
) {
  const folder = await newFolder(t)
  const repository = typeof address === 'function' ? address : () => address
  const addresses = { repository, onChange: () => () => undefined }
  // git passes HOME on to every process that it starts
  const env = { ...process.env, ...options.env, HOME: folder }
  const all = { stateDir: join(folder, 'state'), pollMs: 60_000, ...options, env }
  const repositories = gitRepositories({ addresses, log: capturedLog().log, clock }, all)
  t.teardown(() => repositories.stop())
  await repositories.start()
  return { repositories, mark: `HOME=${folder}` }
}

/** Makes a program in place of git that is called first. Processes that git itself starts bypass it. */
async function fakeGit(t: Test, script = '') {
  const bin = await newFolder(t)
  const asked = join(bin, 'asked')
  await writeFile(asked, '')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's
  const lines = ['#!/bin/sh', `echo "$1" >> ${asked}`, 'PATH=${PATH#*:}', script, 'exec git "$@"', '']
  await writeFile(join(bin, 'git'), lines.join('\n'))
  await chmod(join(bin, 'git'), 0o755)
  const commands = () => readFileSync(asked, 'utf8').split('\n')
  return {
    env: { PATH: `${bin}:${process.env.PATH}` },
    count: (command: string) => commands().filter((each) => each === command).length,
  }
}

t.test('git: a pack of a thousand bytes whose files have gigabytes', { skip }, async (t) => {
  const folder = await newFolder(t)
  const { origin, ca } = await startGitHttpsServer(t, folder)
  const [credentialsFile, caFile] = [join(folder, 'credentials'), join(folder, 'ca.pem')]
  await writeFile(credentialsFile, 'ada:s3cret\n')
  await writeFile(caFile, ca)
  for (const [name, bomb, isRefused] of [
    ['one', { fileBytes: 512 * mebibyte }, true],
    ['many', { fileBytes: 60 * mebibyte, files: 2 }, undefined], // each one may just fit
    ['smaller', { fileBytes: 20 * mebibyte, files: 4 }, false],
  ] as const) {
    const path = join(folder, `${name}.git`)
    const { packBytes } = await writeDeltaBomb(path, bomb)
    t.ok(packBytes < 2000, `${name}: ${packBytes} bytes`)
    for (const address of [{ url: path }, { url: `${origin}/${name}.git`, credentialsFile }]) {
      const { repositories, mark } = await start(t, address, { env: { SSL_CERT_FILE: caFile } })
      const memory = watchMemory(mark)
      const error = await repositories.head(agent, signal).then(() => undefined, KasError.from)
      const most = (await memory.end()) / mebibyte
      t.comment(
        `${name}, ${address.url === path ? 'here' : 'https'}: ${most.toFixed(0)} MiB, ${error?.message ?? 'fetched'}`,
      )
      t.ok(most * mebibyte < maxResident, `${most.toFixed(0)} MiB at the most`)
      if (isRefused !== undefined) t.equal(error !== undefined, isRefused)
      if (!error) continue
      t.equal(error.code, 'REPOSITORY_FAILED' satisfies ErrorCode)
      t.match(
        error.message,
        /^Repository: git needs more than 64 MiB of memory for this commit: push one with smaller files/,
      )
    }
  }
})

t.test('git: a commit that was refused is not fetched again, the next one is', { skip }, async (t) => {
  const folder = await newFolder(t)
  const { env, count } = await fakeGit(t)
  const path = join(folder, 'x.git')
  const good = await GitRepository.create(folder, 'x')
  const first = await good.push('a', '1')
  let ahead = 0
  const clock: Clock = {
    now: () => systemClock.now() + ahead,
    after: (ms, listener) => systemClock.after(ms, listener),
  }
  const { repositories } = await start(t, { url: path }, { env, clock })
  t.teardown(repositories.onMove(agent, () => undefined))
  const asked = async (command: string) => {
    const before = count(command)
    await repositories.pollAfterNotice(agent.project.id)
    return count(command) - before
  }
  const fetches = () => asked('fetch')
  t.equal(await repositories.head(agent, signal), first)
  await writeDeltaBomb(path, { fileBytes: 512 * mebibyte })
  t.equal(await fetches(), 2, 'once as it is, once without what is there')
  t.match((await failure(repositories.head(agent, signal))).message, /64 MiB of memory/)
  t.equal(await fetches(), 0)
  t.match((await failure(repositories.head(agent, signal))).message, /64 MiB of memory/)
  t.equal(String(await repositories.file(agent, first as CommitId, 'a', 9, signal)), '1', 'what is there can be read')
  ahead = 3_600_000
  t.equal(await fetches(), 1, 'after an hour once more: it may have been the machine')
  t.equal(await fetches(), 0)
  const next = await good.push('a', '2', { force: true })
  t.equal(await fetches(), 1)
  t.equal(await repositories.head(agent, signal), next)
  const last = await good.push('a', '3')
  t.equal(await asked('ls-remote'), 0, 'a push is fetched without a question again')
  t.equal(await repositories.head(agent, signal), last)
})

t.test('git: large files are no harm where they are whole, also when they change', { skip }, async (t) => {
  const folder = await newFolder(t)
  const good = await GitRepository.create(folder, 'x')
  const large = randomBytes(14 * mebibyte)
  await good.push('large', large)
  const { repositories, mark } = await start(t, { url: join(folder, 'x.git') }, { maxMemoryBytes: 24 * mebibyte })
  t.teardown(repositories.onMove(agent, () => undefined))
  const memory = watchMemory(mark)
  await repositories.head(agent, signal)
  large.write('changed', 1000)
  const second = await good.push('large', large)
  await repositories.pollAfterNotice(agent.project.id)
  t.equal(await repositories.head(agent, signal), second)
  const block = [...(await repositories.files(agent, second as CommitId, '', signal))].at(-1)
  t.equal(block?.path, 'large')
  t.ok((await memory.end()) < maxResident)
})

t.test('git: fetches of one project that last take one git, however many refs of it are followed', async (t) => {
  const folder = await newFolder(t)
  const evil = await GitRepository.create(folder, 'evil')
  const first = await evil.push('a', '1')
  await promisify(execFile)('git', ['-C', join(folder, 'evil.git'), 'update-ref', 'refs/heads/other', first])
  const good = await GitRepository.create(folder, 'good')
  const commit = await good.push('a', '1')
  const { env, count } = await fakeGit(t, 'case "$*" in fetch*evil.git*) exec sleep 1000;; esac')
  const url = (projectId: bigint) => ({ url: join(folder, projectId === 1n ? 'good.git' : 'evil.git') })
  const { repositories } = await start(t, url, { env, updateTimeoutMs: 30_000 })
  const project = { id: 2n, path: 'evil/clusters' }
  const evils = [42n, 43n, 44n].flatMap((id) =>
    [undefined, 'refs/heads/main', 'refs/heads/other'].map((ref) => ({ id: id as AgentId, project, ref })),
  )
  const ended = evils.map((of) => repositories.head(of, signal).catch(() => 'ended'))
  await eventually(() => count('fetch') > 0)
  t.equal(await Promise.race([repositories.head(agent, signal), ...ended]), commit)
  t.equal(count('fetch'), 2, 'one of each')
})

t.test('git: a path with all that means something to a shell is a path', async (t) => {
  const folder = await newFolder(t)
  const name = `a b'"; touch made; $(touch made) \`touch made\` & \n touch made #*?`
  const odd = await GitRepository.create(folder, name)
  const commit = await odd.push('a', '1')
  const { repositories } = await start(t, { url: join(folder, `${name}.git`) })
  const at = await repositories.head(agent, signal)
  t.equal(at, commit)
  const file = await repositories.file(agent, commit as CommitId, 'a', 9, signal)
  t.equal(String(file), '1')
  const files = await readdir(folder, { recursive: true })
  t.notOk(files.some((each) => basename(each) === 'made'))
})

t.test('git: what never ends is ended', async (t) => {
  const folder = await newFolder(t)
  const good = await GitRepository.create(folder, 'x')
  await good.push('a', '1')
  const path = join(folder, 'x.git')
  const turns = new Turns<unknown>({ maxRunning: 1 })
  const bounds = { silenceTimeoutMs: 60_000, maxRunMs: 60_000, maxCpuSeconds: 60, maxMemoryBytes: 64 * mebibyte }
  const asked = async (script: string, changed: Partial<typeof bounds>) => {
    const { env } = await fakeGit(t, script)
    const git = new GitFolder(path, { address: { url: path }, turns, source: 1 }, { ...bounds, ...changed, env })
    return { git, list: () => failure(git.pipe(['ls-tree', 'HEAD'], '', { take: () => undefined, signal })) }
  }
  const dripping = await asked('while :; do echo x; sleep 0.01; done', { maxRunMs: 300 })
  t.equal((await dripping.list()).message, 'Repository: git took longer than 300 ms', 'it is never silent')
  const silent = await asked('sleep 1000', { silenceTimeoutMs: 300 })
  t.equal((await silent.list()).message, 'Repository: git said nothing for 300 ms')
  const busy = await asked('while :; do :; done', { maxCpuSeconds: 1 })
  t.match((await busy.list()).message, /^Repository: git computes longer than 1 s for this commit: /)
  const flooding = await asked('exec yes "0123456789abcdef0123456789abcdef01234567\trefs/heads/main"', {})
  const flood = await failure(flooding.git.remoteHead(signal))
  t.equal(flood.message, 'Repository: git ls-remote answers with more than 1048576 bytes')
  await flooding.git
    .pipe(['version'], '', {
      take: () => {
        throw new KasError({ code: 'CANCELLED', detail: 'enough' })
      },
      signal,
    })
    .then(
      () => t.fail('it goes on'),
      (error) => t.match(error, { code: 'CANCELLED' }),
    )
})
