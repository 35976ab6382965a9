import { execFile, spawnSync } from 'node:child_process'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ProgramName } from '../../dev/package/bundle.ts'

const root = join(import.meta.dirname, '../..')
/** The oldest version that this one works with (doc/upgrade.md). */
const oldest = '39dabcee1bd965a03b0c7bc68906b6903b428d2a'

const git = (...args: string[]) => ['-C', root, ...args]

/** For `skip`: why there is no such version here; false if there is. */
export function withoutOlder(commit: string): string | false {
  const { status } = spawnSync('git', git('cat-file', '-e', `${commit}^{commit}`))
  return status === 0 ? false : 'needs the history of the project'
}

export const withoutOlderVersion = withoutOlder(oldest)

/**
 * Puts the programs of an older version into `folder`: they run with the packages of this one.
 *
 * @returns what `node` runs
 */
export async function extractOlderVersion(folder: string, commit = oldest): Promise<(program: ProgramName) => string> {
  const archive = join(folder, 'older.tar')
  const run = promisify(execFile)
  await mkdir(folder, { recursive: true })
  await run('git', git('archive', '--output', archive, commit, 'src', 'package.json'))
  await run('tar', ['-xf', archive, '-C', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return (program) => join(folder, 'src', program, 'main.ts')
}
