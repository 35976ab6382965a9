import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { isRecent, neededMajor, packagedNode } from './packaged-node.mjs'

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
  if (!existsSync(new URL(`../dist/${program}/main.js`, import.meta.url))) {
    process.stderr.write(
      `${program}: this is a clone, not the package: npm run -s ${program} -- does the same there.\n`,
    )
    process.exit(1)
  }
  if (isRecent(process.version)) {
    await import(`../dist/${program}/main.js`)
    return
  }
  const node = packagedNode()
  if (node) runAgain(node, program)
  else refuse(program, `none was installed for ${process.platform}-${process.arch}`)
}
