// First step of every npm script: installs the packages of package-lock.json, and puts a Node that can run the programs
// on npm's PATH as `node`. Plain JavaScript for Node 20. It prints no text when there is nothing to do.
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { neededMajor } from '../../bin/packaged-node.mjs'
import { install, isInstalled } from './install.mjs'
import { findNode } from './node-version.mjs'
import { run } from './run.mjs'
import { withLock } from './setup-lock.mjs'

const root = join(import.meta.dirname, '..', '..')
const forTests = process.argv.includes('--tests')

/** tap builds its plugin set once per installation; unbuilt, its first run by hand fails on the plugin that .taprc drops. */
function isTapBuilt() {
  const record = join(root, '.tap', 'plugins', 'package.json')
  return (
    existsSync(record) && statSync(record).mtimeMs >= statSync(join(root, 'node_modules', '.package-lock.json')).mtimeMs
  )
}

async function setUp() {
  if (!isInstalled(root)) {
    process.stderr.write('kas: installing dependencies (once, a minute or more; needs npm and the network) ...\n')
    await install(root)
    process.stderr.write('kas: dependencies installed\n')
  }
  const node = findNode(root)
  if (!node) {
    throw new Error(
      `the programs need Node ${neededMajor} or later; this is ${process.version}, and npm has no Node for ` +
        `${process.platform}-${process.arch}. Install Node ${neededMajor} and put it first on the PATH.`,
    )
  }
  if (forTests && !isTapBuilt()) {
    process.stderr.write('kas: building the plugin set of tap (once) ...\n')
    await run(node, [join(root, 'node_modules', 'tap', 'dist', 'esm', 'run.mjs'), 'build'], root)
  }
}

try {
  const ready = isInstalled(root) && findNode(root) && !(forTests && !isTapBuilt())
  if (!ready) await withLock(join(root, '.setup-lock'), setUp)
} catch (error) {
  process.stderr.write(`kas: set-up failed: ${error.message}\n`)
  process.exit(1)
}
