import { execFile } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A bare repository below a Gitaly's folder, and a clone to push to it from. */
export class ServedRepository {
  readonly relativePath: string
  /** its path */
  readonly bare: string
  readonly #clone: string

  private constructor(folder: string, relativePath: string) {
    this.relativePath = relativePath
    this.bare = join(folder, relativePath)
    this.#clone = join(folder, 'clones', relativePath)
  }

  static async create(folder: string, relativePath = '@hashed/1.git'): Promise<ServedRepository> {
    const repository = new ServedRepository(folder, relativePath)
    await mkdir(repository.#clone, { recursive: true })
    await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', repository.bare])
    await repository.git('init', '--quiet', '--initial-branch=main')
    await repository.git('config', 'user.name', 'Ada')
    await repository.git('config', 'user.email', 'ada@example.com')
    await repository.git('config', 'commit.gpgsign', 'false')
    return repository
  }

  /** Commits these files and pushes; gives the commit. */
  async push(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(this.#clone, path)), { recursive: true })
      await writeFile(join(this.#clone, path), content)
    }
    await this.git('add', '--all')
    await this.git('commit', '--quiet', '--allow-empty', '--message', 'change')
    await this.git('push', '--quiet', '--force', this.bare, 'HEAD:main')
    return await this.git('rev-parse', 'HEAD')
  }

  /** Makes a symbolic link part of the next push. */
  async link(path: string, target: string): Promise<void> {
    await symlink(target, join(this.#clone, path))
  }

  /** Takes the default branch away and leaves another. */
  async loseBranch(): Promise<void> {
    await this.git('push', '--quiet', this.bare, 'HEAD:other')
    await this.inBare('update-ref', '-d', 'refs/heads/main')
  }

  async git(...args: string[]): Promise<string> {
    return (await run('git', ['-C', this.#clone, ...args])).stdout.trim()
  }

  async inBare(...args: string[]): Promise<string> {
    return (await run('git', ['-C', this.bare, ...args])).stdout.trim()
  }
}
