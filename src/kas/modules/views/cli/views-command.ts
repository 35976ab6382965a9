import {
  type CliIo,
  type CliValues,
  type Command,
  type CommandContext,
  type CommandOptions,
  parsedArgs,
  UsageError,
} from '../../../command/command.ts'
import { namespaceOf } from '../../../command/endpoint.ts'
import {
  type Output,
  outputHelp,
  outputHints,
  outputOptions,
  type Printing,
  readPrinting,
} from '../../../command/output.ts'

export interface ViewsCommand {
  /** text after `kas`, with arguments */
  readonly usage: string
  readonly summary: string
  /** options beside those of every command of views */
  readonly options: CommandOptions
  /** texts for options that the command does not have, by option: what to write instead */
  readonly hints?: Readonly<Record<string, string>>
  /** lines of the help about own options and exit codes, each with its end */
  readonly help: string
  /** values of `-o` */
  readonly outputs: readonly Output[]
  /** @returns the exit code. @throws UsageError, ViewRefused */
  run(context: ViewsContext): Promise<number>
}

export interface ViewsContext extends Pick<CommandContext, 'clock' | 'random'>, Printing {
  readonly values: CliValues
  readonly positionals: readonly string[]
  /** namespace of the kubeconfig's context */
  readonly namespace: string | undefined
}

const viewsOptions = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  namespace: { type: 'string', short: 'n', multiple: true },
  'all-namespaces': { type: 'boolean', short: 'A' },
  selector: { type: 'string', short: 'l' },
  environment: { type: 'string' },
  application: { type: 'string' },
  ...outputOptions,
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

const viewsUsage = `  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  -n, --namespace NAME                that namespace alone, may be repeated (default: that of the kubeconfig's context)
  -A, --all-namespaces                all of them, which is the default where the context names none
  -l, --selector SELECTOR             what bears these labels, as kubectl takes them
  --environment [PROJECT/SLUG]        that environment alone; in a job of GitLab by itself the job's own
  --application NAME                  that application, or GitOps source, alone
OUTPUTS  -v, --verbose                       also show what is hidden by default
`

/** Option of a command that can go on and show changes. */
export const watchOption = { watch: { type: 'boolean', short: 'w' } } as const
export const watchHelp = `  -w, --watch                         go on, and show each change; for programs one object a line
`

/** Option of a command that can show problems only. */
export const problemsOption = { problems: { type: 'boolean' } } as const
export const problemsHelp =
  '  --problems                          only what is progressing, missing, degraded or unknown\n'
/** Text instead of rows if `--problems` finds none. */
export const nothingWrong = 'nothing that you may list is progressing, missing, degraded or unknown'

/** Exit codes of a command that judges nothing, for its help. */
export const doneOrFailed = '  exit code: 0 done, 1 it failed, 2 the command line is wrong\n'

/** Makes a command that shows an agent's cluster, as the user of a kubeconfig. */
export function viewsCommand({ summary, run, help, hints, ...command }: ViewsCommand): Command {
  const { usage, outputs } = command
  const options = { ...viewsOptions, ...command.options }
  return {
    usage,
    options,
    outputs,
    async run(args, context) {
      const { io } = context
      const parsed = { args: withJobsEnvironment(args, io.env), options, allowPositionals: true } as const
      const { values, positionals } = parsedArgs({ ...parsed, args: [...parsed.args] }, { ...outputHints, ...hints })
      if (values.help) {
        const common = viewsUsage.replace('OUTPUTS', outputHelp(outputs, 36))
        io.stdout.write(`usage: kas ${usage}\n  ${summary}\n${common}${help}`)
        return 0
      }
      const printing = readPrinting(values, outputs, io)
      return run({ ...context, ...printing, values, positionals, namespace: await namespaceOf(values, io) })
    },
  }
}

/** Completes a bare `--environment` with that of the CI job. @throws UsageError outside of such a job */
function withJobsEnvironment(args: readonly string[], env: CliIo['env']): readonly string[] {
  return args.map((arg, i) => {
    const value = args[i + 1]
    if (arg !== '--environment' || (value !== undefined && !value.startsWith('-'))) return arg
    const { CI_PROJECT_ID: project, CI_ENVIRONMENT_SLUG: slug } = env
    if (project && slug) return `--environment=${project}/${slug}`
    throw new UsageError('--environment by itself: CI_PROJECT_ID and CI_ENVIRONMENT_SLUG are not set')
  })
}

/** True if stdout gets colours. */
export function isColoured({ stdout, env }: CliIo): boolean {
  return stdout.isTTY && !env.NO_COLOR && env.TERM !== 'dumb'
}
