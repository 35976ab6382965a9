import { cpSync, lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './run.mjs'

const made = ['dist', 'npm-shrinkwrap.json']

/** What is started by a path: the programs, and the threads, which the code looks for beside itself. */
const entries = {
  'kas/main': 'src/kas/main.ts',
  'agentk/main': 'src/agentk/main.ts',
  'lib/parsing-thread-program': 'src/kas/agent-config/parsing-thread-program.ts',
  'lib/manifests-thread-program': 'src/agentk/modules/gitops/manifests/manifests-thread-program.ts',
  'lib/views-worker': 'src/agentk/modules/views/thread/views-worker.ts',
}

/** A few large files in the place of 1,100 modules, without what is never called (doc/decisions/0020). */
const bundling = [
  '--bundle',
  '--splitting', // what is loaded later stays a file of its own
  '--format=esm',
  '--platform=node',
  '--target=node20',
  '--chunk-names=lib/[name]-[hash]',
  '--external:bufferutil', // has a binary
  "--banner:js=import { createRequire as requireFrom } from 'node:module';const require = requireFrom(import.meta.url);",
  '--minify-whitespace', // and without comments, in ASCII: V8 keeps the text of what runs, a byte a letter then
  '--line-limit=120', // so that a line of a stack says something
  '--legal-comments=none', // licences lie beside the dependencies
  '--log-level=warning',
]

/** data that agentk reads, and where from: of `lib`, the folder next to it */
const healthRules = { from: 'src/agentk/health/vendors', to: 'dist/vendors' }

/**
 * Makes what the package holds beside the files of the tree: dist, and the shrinkwrap. npm itself adds the dependencies,
 * as they lie in node_modules (doc/decisions/0014).
 */
export async function make(root) {
  clean(root)
  if (lstatSync(join(root, 'node_modules')).isSymbolicLink()) {
    throw new Error('node_modules is a link: npm packs the dependencies from a folder only')
  }
  const files = Object.entries(entries).map(([name, file]) => `${name}=${file}`)
  await run(join(root, 'node_modules', '.bin', 'esbuild'), [...files, '--outdir=dist', ...bundling], root)
  cpSync(join(root, healthRules.from), join(root, healthRules.to), { recursive: true })
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
