import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface BareEntry {
  /** mode as git writes it: `100644`, `120000`, `040000`, `160000` */
  readonly mode: string
  readonly type: string
  readonly oid: string
  readonly path: string
}

/** Answers of git itself about a bare repository, by processes of its own. */
export class BareGit {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async exists(): Promise<boolean> {
    return await stat(join(this.#folder, 'HEAD')).then(
      () => true,
      () => false,
    )
  }

  /** Refs as `git upload-pack` announces them, without the line of the service. */
  async advertisement(): Promise<Buffer> {
    return await this.#git('upload-pack', '--stateless-rpc', '--advertise-refs', this.#folder)
  }

  async hasCommit(revision: string): Promise<boolean> {
    return await this.#git('cat-file', '-e', `${revision}^{commit}`).then(
      () => true,
      () => false,
    )
  }

  /** Returns what Gitaly does: also false where one of them does not exist. */
  async isAncestor(ancestor: string, child: string): Promise<boolean> {
    return await this.#git('merge-base', '--is-ancestor', ancestor, child).then(
      () => true,
      () => false,
    )
  }

  /** @param path - `.`: the entries of the root; with a slash at its end: those of the folder; else the entry itself */
  async entries(revision: string, path: string, options: { recursive?: boolean } = {}): Promise<BareEntry[]> {
    const recursive = options.recursive ? ['-r', '-t'] : []
    const paths = path === '.' ? [] : ['--', path]
    const listed = await this.#git('ls-tree', '-z', '--full-tree', ...recursive, revision, ...paths)
    return listed
      .toString('utf8')
      .split('\0')
      .filter((line) => line !== '')
      .map((line) => {
        const [, mode = '', type = '', oid = '', at = ''] = /^(\d+) (\w+) (\w+)\t(.*)$/s.exec(line) ?? []
        return { mode, type, oid, path: at }
      })
  }

  async blob(oid: string): Promise<Buffer> {
    return await this.#git('cat-file', 'blob', oid)
  }

  async #git(...args: string[]): Promise<Buffer> {
    const options = { encoding: 'buffer', maxBuffer: 256 << 20 } as const
    return (await run('git', ['-C', this.#folder, '--literal-pathspecs', ...args], options)).stdout
  }
}
