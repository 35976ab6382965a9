#!/usr/bin/env node
import { constants } from 'node:os'
import { createLogger } from '../lib/log.ts'
import { readVersion } from '../lib/version.ts'
import { parseFlags, UsageError, usage } from './flags.ts'

/** Running calls may take this long to end after the first signal. */
const stopPatienceMs = 30_000

/** @returns the exit code, once there is one; agentk runs until it is told to stop */
async function main(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv)
  const version = readVersion()
  if (flags.version) return print(`agentk ${version.version}\n`)
  if (flags.help) return print(usage)
  // loaded here, so that --version and --help answer at once
  const [{ App }, { readConfig }, { loadCluster }] = await Promise.all([
    import('./app.ts'),
    import('./config.ts'),
    import('./cluster/load-cluster.ts'),
  ])
  const config = readConfig(flags, process.env)
  const access = await loadCluster(config.cluster, process.env).catch((cause: Error) => {
    throw new UsageError(cause.message, { cause })
  })
  const log = createLogger({ level: config.logLevel })
  const app = new App({ log, access }, { config, version })
  const stopping = stopSignal((signal) => log.info({ signal }, 'Stopping, a second signal ends at once'))
  await app.start()
  await stopping
  await app.stop(AbortSignal.timeout(stopPatienceMs))
  log.info('Stopped')
  return 0
}

/** Resolves at the first SIGTERM or SIGINT; the second ends the process at once. */
function stopSignal(onFirst: (signal: string) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let first = true
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (!first) process.exit(128 + constants.signals[signal])
      first = false
      onFirst(signal)
      resolve()
    })
  }
  return promise
}

function print(text: string): number {
  process.stdout.write(text)
  return 0
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  const known = error instanceof UsageError
  process.stderr.write(`agentk: ${known ? error.message : error instanceof Error ? error.stack : String(error)}\n`)
  if (known) process.stderr.write('agentk --help shows all flags\n')
  process.exit(known ? 2 : 1)
}
