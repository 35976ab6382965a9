// First step of `npm start` and `npm run demo`: reports problems that would end them, before a minute of set-up. Plain
// JavaScript for Node 20, without packages.
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { lastOffset, readStartArguments, usedOffsets } from './start-arguments.mjs'

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

async function check(args) {
  const { portBase } = readStartArguments(args) ?? {}
  if (spawnSync('git', ['--version']).error) throw new Error('There is no git on the PATH')
  if (portBase === undefined) return
  for (const port of usedOffsets.map((offset) => portBase + offset)) {
    if (await isFree(port)) continue
    throw new Error(`Port ${port} is taken. Choose others: npm start -- --port-base N uses N to N + ${lastOffset}`)
  }
}

try {
  await check(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`kas: ${error.message}\n`)
  process.exitCode = 1
}
