import { execFile, spawnSync } from 'node:child_process'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')
/** The last whose replicas end their calls with HTTP/2's trailers alone, and know of no BranchMoved. */
const older = '6e88a0d34e8d70e7d9b5784f5f0f7972483bb143'

const git = (...args: string[]) => ['-C', root, ...args]

/** For `skip`: why there is no older version here; false if there is. */
export const withoutOlderVersion =
  spawnSync('git', git('cat-file', '-e', `${older}^{commit}`)).status === 0 ? false : 'needs the history of the project'

/** Puts the programs of an older version into `folder`: they run with the packages of this one. */
export async function extractOlderVersion(folder: string): Promise<void> {
  const archive = join(folder, 'older.tar')
  const run = promisify(execFile)
  await mkdir(folder, { recursive: true })
  await run('git', git('archive', '--output', archive, older, 'src', 'package.json'))
  await run('tar', ['-xf', archive, '-C', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
}
