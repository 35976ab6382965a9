import { cpSync, lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './run.mjs'

/** data that agentk reads */
const healthRules = 'src/agentk/health/vendors'
const made = ['dist', 'npm-shrinkwrap.json']

/**
 * Makes what the package holds beside the files of the tree: dist, since Node strips no types below node_modules, and
 * the shrinkwrap. npm itself adds the dependencies, as they lie in node_modules (doc/decisions/0014).
 */
export async function make(root) {
  clean(root)
  if (lstatSync(join(root, 'node_modules')).isSymbolicLink()) {
    throw new Error('node_modules is a link: npm packs the dependencies from a folder only')
  }
  await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], root)
  cpSync(join(root, healthRules), join(root, healthRules.replace('src', 'dist')), { recursive: true })
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  writeFileSync(join(root, 'npm-shrinkwrap.json'), `${JSON.stringify(shrinkwrapOf(lock), null, 2)}\n`)
}

export function clean(root) {
  for (const name of made) rmSync(join(root, name), { recursive: true, force: true })
}

/** What an installation holds: the lock without what only work on the project needs. */
function shrinkwrapOf({ packages, ...rest }) {
  const { devDependencies: _, ...own } = packages['']
  const kept = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)
  return { ...rest, packages: { '': own, ...Object.fromEntries(kept) } }
}
