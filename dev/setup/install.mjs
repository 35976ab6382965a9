import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './run.mjs'

const readLock = (file) => JSON.parse(readFileSync(file, 'utf8')).packages

/**
 * True if npm's own record in node_modules holds every package of package-lock.json, at that version and integrity.
 * npm writes the record last, so an installation that was cut off counts as none. Optional packages may be missing:
 * most are of another platform.
 */
export function isInstalled(root) {
  let installed
  try {
    installed = readLock(join(root, 'node_modules', '.package-lock.json'))
  } catch {
    return false
  }
  return Object.entries(readLock(join(root, 'package-lock.json'))).every(([path, wanted]) => {
    if (path === '') return true
    const found = installed[path]
    if (!found) return wanted.optional === true || wanted.devOptional === true
    return found.version === wanted.version && found.integrity === wanted.integrity
  })
}

/**
 * `npm ci` without scripts: no dependency needs one, and none may download. Silent unless it fails.
 * @throws Error with npm's output
 */
export async function install(root) {
  const npm = process.env.npm_execpath?.endsWith('npm-cli.js') ? process.env.npm_execpath : undefined
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  const flags = [
    '--ignore-scripts',
    '--include=dev',
    '--include=optional',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ]
  await run(command, [...first, 'ci', ...flags], root)
}
