import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Returns the checked-out commit, with `-dirty` if files differ from it; `unknown` outside of a repository. */
export async function commitOf(root: string): Promise<string> {
  const git = async (...args: string[]) => (await run('git', args, { cwd: root })).stdout.trim()
  try {
    const changes = await git('status', '--porcelain', '--', '.', ':!node_modules')
    return `${await git('rev-parse', 'HEAD')}${changes === '' ? '' : '-dirty'}`
  } catch {
    return 'unknown' // an archive of the sources, or no git
  }
}
