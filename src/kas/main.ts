#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { KasError } from '../lib/errors.ts'
import { createLogger } from '../lib/log.ts'
import { readVersion } from '../lib/version.ts'

const usage = `Usage: kas --configuration-file=<file>
       kas agent|token|user|kubeconfig ...   edit or print what a directory file needs: kas agent --help

Options:
  --configuration-file <file>   YAML, deploy/config.example.yaml shows every key
  --version                     print the version and exit
  --help                        print this and exit
`
const subcommands = new Set(['agent', 'token', 'user', 'kubeconfig'])

/** @returns the exit code, once there is one; a server runs until it is told to stop */
async function main(argv: readonly string[]): Promise<number> {
  const [subcommand = ''] = argv
  if (subcommands.has(subcommand)) {
    const { runCli } = await import('./cli/cli.ts')
    return runCli([...argv], process)
  }
  const { values } = parseArgs({
    args: [...argv],
    options: {
      'configuration-file': { type: 'string' },
      version: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.version) return print(`kas ${readVersion().version}\n`)
  if (values.help) return print(usage)
  const file = values['configuration-file']
  if (file === undefined) return fail(`kas: --configuration-file is missing\n\n${usage}`)
  return serve(file)
}

async function serve(file: string): Promise<number> {
  // loaded here, so that --version and the subcommands answer at once
  const [{ App }, { loadKasConfig }] = await Promise.all([import('./app.ts'), import('./config.ts')])
  const { config, warnings } = await loadKasConfig(file, process.env)
  const log = createLogger({ level: config.observability.logging.level })
  for (const { kind, key, hint } of warnings) {
    if (kind === 'unknown') log.warn({ key, ...(hint ? { did_you_mean: hint } : {}) }, 'Configuration key is not known')
    else log.warn({ key, reason: hint }, 'Configuration key is not needed here')
  }
  process.on('uncaughtExceptionMonitor', (error) => log.error({ error }, 'kas ends because of a fault of its own'))
  const app = new App({ log }, { config, version: readVersion(), env: process.env })
  const stopping = stopSignal((signal) => log.info({ signal }, 'Stopping, a second signal ends at once'))
  await app.start()
  await stopping
  await app.stop()
  log.info('Stopped')
  return 0
}

/** Resolves at the first SIGTERM or SIGINT; the second ends the process at once. */
function stopSignal(onFirst: (signal: string) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let first = true
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (!first) process.exit(1)
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

function fail(text: string): number {
  process.stderr.write(text)
  return 1
}

/** What the operator can put right is told without a stack. */
function explain(error: unknown): string {
  if (error instanceof KasError && error.code === 'SETTINGS_INVALID') return error.message.replaceAll(/^/gm, 'kas: ')
  const known =
    error instanceof Error && 'code' in error && /^(EADDR|EACCES|ENOENT|EPERM|ERR_PARSE_ARGS)/.test(String(error.code))
  if (known) return `kas: ${error.message}`
  return `kas: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  process.exitCode = fail(`${explain(error)}\n`)
}
