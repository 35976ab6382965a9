import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const identity = {
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
}

/** A repository with a work tree, outside of every other repository. */
export class GitWorkTree {
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  /** Makes one with these files, committed; without files there is no commit. */
  static async create(
    t: { teardown(action: () => unknown): void },
    files: Readonly<Record<string, string>> = {},
  ): Promise<GitWorkTree> {
    const path = await mkdtemp(join(tmpdir(), 'work-tree-'))
    t.teardown(() => rm(path, { recursive: true, force: true, maxRetries: 5 }))
    const tree = new GitWorkTree(path)
    await tree.git('init', '--quiet', '--initial-branch=main')
    if (Object.keys(files).length > 0) await tree.commit(files)
    return tree
  }

  /** @returns its output, without the last line end */
  async git(...args: string[]): Promise<string> {
    const { stdout } = await run('git', args, { cwd: this.path, env: { ...process.env, ...identity } })
    return stdout.replace(/\n$/, '')
  }

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(this.path, name)), { recursive: true })
      await writeFile(join(this.path, name), content)
    }
  }

  /** @returns id of the commit */
  async commit(files: Readonly<Record<string, string>>): Promise<string> {
    await this.write(files)
    await this.git('add', '--all')
    await this.git('commit', '--quiet', '--allow-empty', '--message', 'change')
    return await this.git('rev-parse', 'HEAD')
  }
}
