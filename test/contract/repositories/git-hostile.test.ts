import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { gitRepositories } from '../../../src/kas/repositories/git-repositories.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { failure } from './repositories-suite.ts'

/** Handmade hostile trees. git would write their paths where they lead, so kas refuses the trees. */

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'platform/clusters' } }
const signal = new AbortController().signal
const author = ['-c', 'user.name=Mallory', '-c', 'user.email=mallory@example.com']

interface Entry {
  readonly name: string
  /** undefined: a file */
  readonly isFolder?: true
}

/** Starts with a repository whose default branch has this tree; each folder in it contains `a.yaml`. */
async function startWith(t: Test, entries: readonly Entry[]) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-git-hostile-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const url = join(folder, 'remote.git')
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', url])
  const git = (args: readonly string[], input: string | Buffer = '') =>
    execFileSync('git', ['-C', url, ...args], { input })
      .toString()
      .trim()
  const blob = git(['hash-object', '-w', '--stdin'], 'a: 1')
  const treeOf = (all: readonly Entry[], below: string) => {
    const lines = all.map(({ name, isFolder }) =>
      Buffer.concat([
        Buffer.from(`${isFolder ? '40000' : '100644'} ${name}\0`),
        Buffer.from(isFolder ? below : blob, 'hex'),
      ]),
    )
    return git(['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], Buffer.concat(lines))
  }
  const commit = git([...author, 'commit-tree', treeOf(entries, treeOf([{ name: 'a.yaml' }], '')), '-m', 'odd'])
  git(['update-ref', 'refs/heads/main', commit])
  const addresses = { repository: () => ({ url }), onChange: () => () => undefined }
  const options = { stateDir: join(folder, 'state'), env: process.env, pollMs: 3_600_000 }
  const repositories = gitRepositories({ addresses, log: capturedLog().log }, options)
  t.teardown(() => repositories.stop())
  await repositories.start()
  return repositories
}

t.test('a tree with paths that lead elsewhere does not get in', async (t) => {
  const odd: readonly (readonly Entry[])[] = [
    [{ name: '..', isFolder: true }],
    [{ name: '.', isFolder: true }],
    [{ name: '.git', isFolder: true }],
    [{ name: '.GIT', isFolder: true }],
    [{ name: '/etc/x' }],
    [{ name: '../../etc/x' }],
    [{ name: 'a/../../x' }],
    [{ name: 'a.yaml' }, { name: 'a.yaml' }],
  ]
  for (const entries of odd) {
    const repositories = await startWith(t, entries)
    t.match(await failure(repositories.head(agent, signal)), { code: 'REPOSITORY_FAILED' }, JSON.stringify(entries))
  }
})

t.test('names that would steer a terminal are listed as they are, and are read only if they are chosen', async (t) => {
  const names = ['a\u001b[2J', 'b\nc', 'd\u009b', 'e']
  const repositories = await startWith(
    t,
    names.map((name) => ({ name })),
  )
  const commit = (await repositories.head(agent, signal)) as CommitId
  const files = [...(await repositories.files(agent, commit, '', signal))]
  t.strictSame(
    files.map(({ path }) => path),
    names,
  )
})
