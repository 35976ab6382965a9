import { execFile } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

// the larger this process is, the longer it takes to start another one, but a shell starts others fast
const create = `set -e
git init --quiet --bare --initial-branch=main "$1"
git init --quiet --initial-branch=main
git config user.name Ada
git config user.email ada@example.com
git config commit.gpgsign false`

const push = `set -e
git add --all
git commit --quiet --allow-empty --message change
git push --quiet --force "$1" HEAD:main
git rev-parse HEAD`

/** A bare repository below a Gitaly's folder, and a clone to push to it from. */
export class ServedRepository {
  readonly relativePath: string
  /** path of the bare repository */
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
    await repository.#script(create)
    return repository
  }

  /** Commits these files and pushes. @returns the commit */
  async push(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(this.#clone, path)), { recursive: true })
      await writeFile(join(this.#clone, path), content)
    }
    return await this.#script(push)
  }

  /** Adds a symbolic link to the next push. */
  async link(path: string, target: string): Promise<void> {
    await symlink(target, join(this.#clone, path))
  }

  /** Removes the default branch and leaves another. */
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

  /** Runs a script in the clone; `$1` is the bare repository. */
  async #script(text: string): Promise<string> {
    return (await run('sh', ['-c', text, 'sh', this.bare], { cwd: this.#clone })).stdout.trim()
  }
}
