import { spawnSync } from 'node:child_process'
import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { isRecent, packagedNode } from '../../bin/packaged-node.mjs'

/**
 * Finds the Node that npm scripts get as `node` after set-up: npm's package for this platform, else the Node that runs
 * this. It links the packaged one into npm's PATH folder, where npm 10 leaves a command named `node` out. A packaged
 * Node that cannot start on this machine (no glibc) is removed.
 * @returns its path, or undefined if it is too old
 */
export function findNode(root) {
  const packaged = packagedNode()
  const command = join(root, 'node_modules', '.bin', 'node')
  if (packaged && !existsSync(command)) link(packaged, command)
  if (existsSync(command)) {
    const { stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
    if (stdout && isRecent(stdout)) return command
    rmSync(command)
  }
  return isRecent(process.version) ? process.execPath : undefined
}

function link(target, path) {
  try {
    symlinkSync(relative(dirname(path), target), path)
  } catch (error) {
    if (error.code !== 'EEXIST') throw error // another set-up was first
  }
}
