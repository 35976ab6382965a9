#!/usr/bin/env node
import { printableLines } from '../lib/printable.ts'
import { stopSignal } from '../lib/stop-signal.ts'
import { readVersion, versionLine } from '../lib/version.ts'
import { parseFlags, UsageError, usage } from './config/flags.ts'

/** Running calls may take this long to end after the first signal: Kubernetes kills a pod after 30 s. */
const stopPatienceMs = 25_000
/** Flags that are answered at once, also after `doctor`, which then checks nothing. */
const answeredAtOnce: readonly string[] = ['--help', '-h', '--version']

/** @returns the exit code; without a command agentk runs until a signal stops it */
async function main(argv: readonly string[]): Promise<number> {
  const version = readVersion()
  const [word, ...rest] = argv
  if (word === 'doctor' && !rest.some((one) => answeredAtOnce.includes(one))) {
    const [{ doctor }, { runningAgentk }] = await Promise.all([
      import('./doctor/doctor.ts'),
      import('./doctor/running-agentk.ts'),
    ])
    return doctor(rest, { env: process.env, version, stdout: process.stdout, running: await runningAgentk() })
  }
  const flags = parseFlags(word === 'doctor' ? rest : argv)
  if (flags.version) return print(`${versionLine('agentk', version)}\n`)
  if (flags.help) return print(usage)
  // loaded here, so that --version and --help answer at once
  const [{ App }, { readConfig }, { loadCluster }, { createTracing }, { createLogger }, v8] = await Promise.all([
    import('./app.ts'),
    import('./config/config.ts'),
    import('./cluster/load-cluster.ts'),
    import('./config/tracing.ts'),
    import('../lib/log.ts'),
    import('../lib/v8.ts'),
  ])
  v8.setFlags(...v8.flags.heapGrowth, ...v8.flags.simpleWasm)
  const config = readConfig(flags, process.env)
  const access = await loadCluster(config.cluster, process.env).catch((cause: Error) => {
    throw new UsageError(cause.message, { cause })
  })
  const log = createLogger(config.log)
  const tracing = await createTracing(log, { config, version })
  const app = new App({ log, access, tracing }, { config, version })
  const stopping = stopSignal((signal) => log.info({ signal }, 'Stopping, a second signal ends at once'))
  await app.start()
  v8.collectAll()
  await stopping
  await app.stop(AbortSignal.timeout(stopPatienceMs))
  log.info('Stopped')
  return 0
}

function print(text: string): number {
  process.stdout.write(text)
  return 0
}

/** Omits the stack of errors that the operator can fix. */
function explain(error: unknown): string {
  if (error instanceof UsageError) return `${error.message}\nagentk --help shows all flags`
  if (!(error instanceof Error)) return String(error)
  const { code } = error as NodeJS.ErrnoException
  const known = code === 'SETTINGS_INVALID' || /^(EADDR|EACCES)/.test(code ?? '')
  return known ? error.message : (error.stack ?? error.message)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`agentk: ${printableLines(explain(error))}\n`)
  process.exit(error instanceof UsageError ? 2 : 1)
}
