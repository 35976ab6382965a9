import t, { type Test } from 'tap'
import type { Agent } from '../../../src/kas/agent.ts'
import type { CommitId, Repositories } from '../../../src/kas/repositories/repositories.ts'
import { type ErrorCode, KasError } from '../../../src/lib/errors.ts'

/** A repository to which a test pushes. */
export interface RepositoriesWorld {
  readonly repositories: Repositories
  readonly agent: Agent
  /** Commits files to the default branch `main`. Returns the commit. */
  push(files: Readonly<Record<string, string | Uint8Array>>): Promise<string>
  /** Adds a symbolic link to the next push. */
  link(path: string, target: string): Promise<void>
  /** Removes the default branch; another one stays. */
  loseBranch(): Promise<void>
}

/** Promises of every Repositories. */
export function repositoriesSuite(name: string, start: (t: Test) => Promise<RepositoriesWorld>): void {
  const signal = new AbortController().signal
  const path = '.gitlab/agents/prod/config.yaml'

  t.test(`${name}: an empty repository has no head; the first push gives it one`, async (t) => {
    const { repositories, agent, push } = await start(t)
    t.equal(await repositories.head(agent, signal), undefined)
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
    const commit = await push({ a: '1' })
    await moved
    t.equal(await repositories.head(agent, signal), commit)
  })

  t.test(`${name}: files at a commit, also at one that is not the newest any more`, async (t) => {
    const { repositories, agent, push } = await start(t)
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
    const one = (await push({ [path]: bytes, 'sub/x': '' })) as CommitId
    t.equal(await repositories.head(agent, signal), one)
    t.same(Buffer.from((await repositories.file(agent, one, path, 256, signal)) ?? []), Buffer.from(bytes))
    t.equal((await repositories.file(agent, one, 'sub/x', 256, signal))?.length, 0, 'an empty file is no absent one')
    t.equal(await repositories.file(agent, one, 'none', 256, signal), undefined)
    t.equal(await repositories.file(agent, one, 'sub/*', 256, signal), undefined, 'no wildcards')
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
    const two = (await push({ [path]: 'new' })) as CommitId
    await moved
    t.equal(
      String(await repositories.file(agent, two, path, 256, signal).then((file) => Buffer.from(file ?? []))),
      'new',
    )
    t.equal((await repositories.file(agent, one, path, 256, signal))?.length, 256)
  })

  t.test(`${name}: what is no file, or too large a one, is the fault of who wrote it`, async (t) => {
    const { repositories, agent, push, link } = await start(t)
    await link('link', 'large')
    const commit = (await push({ large: 'x'.repeat(11), 'folder/x': '' })) as CommitId
    await repositories.head(agent, signal)
    for (const [at, says] of [
      ['large', /large: has 11 bytes, more than 10/],
      ['folder', /folder: is not a file/],
      ['link', /link: is not a file/],
    ] as const) {
      const error = await failure(repositories.file(agent, commit, at, 10, signal))
      t.equal(error.code, 'CONFIGURATION_INVALID' satisfies ErrorCode)
      t.match(error.message, says)
    }
    t.equal((await repositories.file(agent, commit, 'large', 11, signal))?.length, 11)
  })

  t.test(`${name}: a branch that is gone is told apart from an empty repository`, async (t) => {
    const { repositories, agent, push, loseBranch } = await start(t)
    await push({ a: '1' })
    await repositories.head(agent, signal)
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(agent, resolve)))
    await loseBranch()
    await moved
    t.equal((await failure(repositories.head(agent, signal))).code, 'REF_NOT_FOUND' satisfies ErrorCode)
  })

  t.test(`${name}: a wait ends with its signal`, async (t) => {
    const { repositories, agent } = await start(t)
    const reason = new KasError({ code: 'CANCELLED' })
    t.equal(await failure(repositories.head(agent, AbortSignal.abort(reason))), reason)
  })
}

export async function failure(promise: Promise<unknown>): Promise<KasError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof KasError) return error
    throw error
  }
  throw new Error('it succeeded')
}
