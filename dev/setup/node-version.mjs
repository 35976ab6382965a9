import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'

export const neededMajor = 24

export const isRecent = (version) => Number(version.replace('v', '').split('.')[0]) >= neededMajor

/**
 * The Node that npm scripts find as `node` after set-up: the one that npm installed for this platform, else the one
 * that runs this. An installed one that cannot start here (no glibc) is taken off the PATH.
 * @returns its path, or undefined if it is too old
 */
export function findNode(root) {
  const packaged = join(root, 'node_modules', '.bin', 'node')
  if (existsSync(packaged)) {
    const { stdout } = spawnSync(packaged, ['--version'], { encoding: 'utf8' })
    if (stdout && isRecent(stdout)) return packaged
    rmSync(packaged)
  }
  return isRecent(process.version) ? process.execPath : undefined
}
