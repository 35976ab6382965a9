import { execFile, spawnSync } from 'node:child_process'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ProgramName } from '../../dev/package/bundle.ts'

const root = join(import.meta.dirname, '../..')
/** The oldest version that this one works with (doc/guide/upgrade.md). */
const oldest = 'daaad7c99f1b239bf2bd5b2a750fb07bc34eb61f'

const git = (...args: string[]) => ['-C', root, ...args]

function whyMissing(): string | false {
  const { status } = spawnSync('git', git('cat-file', '-e', `${oldest}^{commit}`))
  return status === 0 ? false : 'needs the history of the project'
}

/** For `skip`: the reason why there is no such version here; false if there is. */
export const withoutOlderVersion = whyMissing()

/**
 * Extracts the programs of an older version into `folder`; they run with the packages of this one.
 *
 * @returns the script for `node`
 */
export async function extractOlderVersion(folder: string): Promise<(program: ProgramName) => string> {
  const archive = join(folder, 'older.tar')
  const run = promisify(execFile)
  await mkdir(folder, { recursive: true })
  await run('git', git('archive', '--output', archive, oldest, 'src', 'package.json'))
  await run('tar', ['-xf', archive, '-C', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return (program) => join(folder, 'src', program, 'main.ts')
}
