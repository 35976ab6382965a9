import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

// the larger this process is, the longer it takes to start another one, but a shell starts others fast
const create = `set -e
git init --quiet --bare --initial-branch=main "$1"
git init --quiet --initial-branch=main "$2"`

const push = `set -e
git add -- "$2"
git -c user.name=Ada -c user.email=ada@example.com -c commit.gpgsign=false commit --quiet --message "change $2"
git push --quiet "$3" "$1" main
git rev-parse HEAD`

/** A bare repository on this machine, and a clone to push to it from. */
export class GitRepository {
  /** path of the bare repository */
  readonly path: string
  readonly #clone: string

  private constructor(path: string, clone: string) {
    this.path = path
    this.#clone = clone
  }

  /** @param folder - folder for both */
  static async create(folder: string, name: string): Promise<GitRepository> {
    const repository = new GitRepository(join(folder, `${name}.git`), join(folder, name))
    await run('sh', ['-c', create, 'sh', repository.path, repository.#clone])
    return repository
  }

  /** Commits one file and pushes. @returns the id of the commit */
  async push(file: string, content: string | Uint8Array, { force = false } = {}): Promise<string> {
    const path = join(this.#clone, file)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, content)
    const { stdout } = await run('sh', ['-c', push, 'sh', this.path, file, force ? '--force' : '--no-force'], {
      cwd: this.#clone,
    })
    return stdout.trim()
  }
}
