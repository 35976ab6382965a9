#!/usr/bin/env node
import type { ConfigWarning } from '../lib/config.ts'
import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import { nearestName } from '../lib/nearest-name.ts'
import { printableLines } from '../lib/printable.ts'
import { stopSignal } from '../lib/stop-signal.ts'
import { readVersion, versionLine } from '../lib/version.ts'
import { commandGroups } from './cli/commands.ts'
import { programOptions, subcommands, usage } from './cli/program.ts'
import { parsedArgs, UsageError } from './command/command.ts'

/** @returns the exit code, once there is one; a server runs until a signal stops it */
async function main(argv: readonly string[]): Promise<number> {
  const [word = ''] = argv
  if (subcommands(commandGroups).includes(word)) {
    process.stdout.on('error', endByPipe)
    const { runCli } = await import('./cli/cli.ts') // loaded only here, so that --version answers at once
    return runCli([...argv], process)
  }
  if (word !== '' && !word.startsWith('-')) throw unknownCommand(word)
  const { values } = parsedArgs({
    args: [...argv],
    options: programOptions,
  })
  if (values.version) return print(`${versionLine('kas', readVersion())}\n`)
  if (values.help) return print(usage(commandGroups))
  const file = values['configuration-file']
  if (file === undefined) throw new UsageError(`--configuration-file is missing\n\n${usage(commandGroups).trimEnd()}`)
  return serve(file, values['log-format'])
}

/** Exit code that a shell reports for a program ended by SIGPIPE. */
const brokenPipe = 141

/** Ends the process once the reader of its output has closed it, as `head` does. */
function endByPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit(brokenPipe)
}

/** Commands of kubectl. A similar name of a kas command would do something else. */
const kubectlWords: ReadonlySet<string> = new Set(
  'apply attach cp create delete describe edit exec logs patch port-forward rollout scale top'.split(' '),
)

function unknownCommand(word: string): UsageError {
  if (kubectlWords.has(word))
    return new UsageError(`there is no command ${word}: use kubectl ${word}, with a kubeconfig of kas`)
  const near = word === 'events' ? 'get events' : nearestName(word, subcommands(commandGroups))
  return new UsageError(`there is no command ${word}${near ? `, did you mean kas ${near}?` : '; kas --help shows all'}`)
}

/** @param format - format of the log; default: that of the configuration */
async function serve(file: string, format: string | undefined): Promise<number> {
  const { isLogFormat, logFormats } = await import('../lib/log-format.ts')
  if (format !== undefined && !isLogFormat(format))
    throw new UsageError(`--log-format ${format}: allowed is ${logFormats.join(' or ')}`)
  const [{ App }, { openAccessSink }, { loadKasConfig }, { logClearAddresses }, { createLogger }, v8] =
    await Promise.all([
      import('./app.ts'),
      import('./access-log/access-sink.ts'),
      import('./config/kas-config.ts'),
      import('./config/clear-addresses.ts'),
      import('../lib/log.ts'),
      import('../lib/v8.ts'),
    ])
  v8.setFlags(...v8.flags.heapGrowth)
  const { config, ownPrivateApi, warnings } = await loadKasConfig(file, process.env)
  const log = createLogger({ ...config.observability.logging, ...(format ? { format } : {}) })
  logWarnings(log, warnings)
  logClearAddresses(log, config)
  process.on('uncaughtExceptionMonitor', (error) => log.error({ error }, 'kas ends because of a fault of its own'))
  const { env } = process
  const accessSink = openAccessSink({ log, process }, { output: config.observability.access_log.output, file })
  const app = new App(
    { log, ...accessSink },
    { config, ownPrivateApi, configurationFile: file, version: readVersion(), env },
  )
  process.once('exit', () => app.flushNow())
  const stopping = stopSignal((signal) => log.info({ signal }, 'Stopping, a second signal ends at once'))
  await app.start()
  v8.collectAll()
  await stopping
  await app.stop()
  log.info('Stopped')
  if (process.stdout.writableLength > 0) process.exit(0) // the reader of stdout has stopped
  return 0
}

/**
 * Logs unknown keys one by one, because each is a mistake. Keys that packages write and that have no effect are one
 * line.
 */
function logWarnings(log: Logger, warnings: readonly ConfigWarning[]): void {
  for (const { kind, key, hint } of warnings) {
    if (kind === 'unknown') log.warn({ key, ...(hint ? { did_you_mean: hint } : {}) }, 'Configuration key is not known')
  }
  const unused = warnings.filter(({ kind }) => kind !== 'unknown').map(({ key, hint }) => `${key}: ${hint}`)
  if (unused.length > 0) log.warn({ unused }, 'Configuration keys that are not needed here')
}

function print(text: string): number {
  process.stdout.write(text)
  return 0
}

/** Text of an error; without a stack if the operator can correct the cause. */
function explain(error: unknown): string {
  if (error instanceof KasError && error.code === 'SETTINGS_INVALID') return error.message.replaceAll(/^/gm, 'kas: ')
  const isKnown = error instanceof Error && 'code' in error && /^(EADDR|EACCES|ENOENT|EPERM)/.test(String(error.code))
  if (isKnown || error instanceof UsageError) return `kas: ${error.message}`
  return `kas: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`${printableLines(explain(error))}\n`)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
