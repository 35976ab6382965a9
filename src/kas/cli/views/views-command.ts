import type { ParseArgsConfig } from 'node:util'
import { parseArgs } from 'node:util'
import type { Clock } from '../../../lib/clock.ts'
import type { Query, Scope } from '../../../proto/views-json.ts'
import { type CliIo, type CliValues, textOption, UsageError } from '../command.ts'

/** A subcommand that shows what is in an agent's cluster, as the user of a kubeconfig. */
export interface ViewsCommand {
  /** after `kas`, with what it takes */
  readonly usage: string
  readonly summary: string
  readonly options: NonNullable<ParseArgsConfig['options']>
  /** how many positionals it takes */
  readonly positionals: number
  /** @returns the exit code. @throws UsageError, ViewRefused */
  run(context: ViewsContext): Promise<number>
}

export interface ViewsContext {
  readonly values: CliValues
  readonly positionals: readonly string[]
  readonly io: CliIo
  readonly clock: Clock
  readonly random: () => number
}

const commonOptions = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  namespace: { type: 'string', short: 'n', multiple: true },
  environment: { type: 'string' },
  application: { type: 'string' },
  watch: { type: 'boolean', short: 'w' },
  output: { type: 'string', short: 'o' },
  help: { type: 'boolean', short: 'h' },
} as const

export const viewsUsage = `  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  -n, --namespace NAME                that namespace alone, may be repeated
  --environment PROJECT/SLUG          that environment alone, by its labels
  --application NAME                  that application alone
  -w, --watch                         go on, and show each change
  -o json                             print what is shown as JSON
`

/** @returns the exit code. @throws UsageError, ViewRefused */
export async function runViewsCommand(
  command: ViewsCommand,
  args: readonly string[],
  context: Omit<ViewsContext, 'values' | 'positionals'>,
): Promise<number> {
  const { values, positionals } = parse(command, args)
  if (values.help) {
    context.io.stdout.write(`usage: kas ${command.usage}\n  ${command.summary}\n${viewsUsage}`)
    return 0
  }
  if (positionals.length > command.positionals) {
    throw new UsageError(`too much: ${positionals.slice(command.positionals).join(' ')}`)
  }
  if (values.output !== undefined && values.output !== 'json') {
    throw new UsageError(`-o ${String(values.output)}: allowed is json`)
  }
  return command.run({ ...context, values, positionals })
}

function parse(command: ViewsCommand, args: readonly string[]): { values: CliValues; positionals: readonly string[] } {
  try {
    return parseArgs({ args: [...args], options: { ...commonOptions, ...command.options }, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message) // node:util says which option
  }
}

/** `-n`, `--environment`, `--application` */
export function scopeOf(values: CliValues): Pick<Query, 'scope'> {
  const namespaces = (values.namespace ?? []) as readonly string[]
  const environment = textOption(values, 'environment')
  const application = textOption(values, 'application')
  if (environment !== undefined && !/^\d+\/.+$/.test(environment)) {
    throw new UsageError(`--environment ${environment}: allowed is <project id>/<slug>, such as 7/production`)
  }
  const scope: Scope = {
    ...(namespaces.length > 0 ? { namespaces } : {}),
    ...(environment === undefined ? {} : { environment }),
    ...(application === undefined ? {} : { application }),
  }
  return Object.keys(scope).length > 0 ? { scope } : {}
}

/** Whether what is written there is coloured. */
export function isColoured({ stdout, env }: CliIo): boolean {
  return stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}
