import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A bare repository on this machine, and a clone to push to it from. */
export class GitRepository {
  /** of the bare repository */
  readonly path: string
  readonly #clone: string

  private constructor(path: string, clone: string) {
    this.path = path
    this.#clone = clone
  }

  /** @param folder - where both are made */
  static async create(folder: string, name: string): Promise<GitRepository> {
    const repository = new GitRepository(join(folder, `${name}.git`), join(folder, name))
    await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', repository.path])
    await run('git', ['init', '--quiet', '--initial-branch=main', repository.#clone])
    return repository
  }

  /** Commits one file and pushes; gives the id of the commit. */
  async push(file: string, content: string | Uint8Array, { force = false } = {}): Promise<string> {
    const path = join(this.#clone, file)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, content)
    await this.#git('add', '--', file)
    const author = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'commit.gpgsign=false']
    await this.#git(...author, 'commit', '--quiet', '--message', `change ${file}`)
    await this.#git('push', '--quiet', ...(force ? ['--force'] : []), this.path, 'main')
    return (await this.#git('rev-parse', 'HEAD')).trim()
  }

  async #git(...args: string[]): Promise<string> {
    return (await run('git', ['-C', this.#clone, ...args])).stdout
  }
}
