import {
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { outputHelp, outputHints, outputOptions, outputs, readPrinting } from '../../../command/output.ts'
import { readWaitTime } from '../../../command/wait-time.ts'
import { checkCommit, judged } from './judge-sources.ts'

const usage = 'gitops wait [--commit SHA] [--source SOURCE] [--timeout TIME] [--agent ID] [-o FORMAT]'
const defaultTimeout = '10m'

/** Lines of `kas gitops --help` about this command. */
export const waitHelp = `usage: kas ${usage}\n  waits until a commit is in the cluster and its objects are healthy\n`

const wholeHelp = `${waitHelp}  --commit SHA                        wait for this commit, or a later one of its ref (default: the heads)
  --source SOURCE                     wait for this source alone, by its name or id
  --timeout TIME                      give up after this (default: ${defaultTimeout}); it ends at most 2 s later
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
${outputHelp(outputs, 36)}  exit code: 0 healthy; 1 the commit is refused; 2 the command line is wrong; 3 the time is over;
             4 an object is degraded or missing for 5 s, or two rounds have failed; 5 not known; 6 waits for approval
`

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  source: { type: 'string' },
  commit: { type: 'string' },
  timeout: { type: 'string' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

/** `kas gitops wait`: waits until a commit is in the cluster and healthy. */
export const wait: Command = { usage, name: 'gitops', options, outputs, run }

/** @throws UsageError, Unreached, BadAnswer, KasRefused */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true }, outputHints)
  if (values.help) {
    context.io.stdout.write(wholeHelp)
    return 0
  }
  if (positionals.length > 1) throw new UsageError('allowed are options alone: --commit names the commit')
  refuseEmpty(values, ['source', 'commit', 'timeout'])
  const [commit, source, timeout] = ['commit', 'source', 'timeout'].map((name) => textOption(values, name))
  checkCommit(commit)
  const waitMs = readWaitTime('timeout', timeout ?? defaultTimeout)
  const printing = readPrinting(values, outputs, context.io)
  const gate = { commit, source, waitMs, hasCodes: true, health: true }
  return await judged(await endpointOf(values, context), gate, context, printing)
}
