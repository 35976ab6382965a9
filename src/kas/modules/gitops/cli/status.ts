import { printableJson } from '../../../../lib/printable.ts'
import { type Command, type CommandContext, parsedArgs, UsageError } from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { forgetHelp } from './forget.ts'
import { askState, type ShownSource, type ShownState } from './state.ts'
import { nameOf, namesNone, statusText } from './status-text.ts'

const usage = 'gitops status [--agent ID] [--watch] [-o json]'

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  watch: { type: 'boolean', short: 'w' },
  output: { type: 'string', short: 'o' },
  help: { type: 'boolean', short: 'h' },
} as const

const statusHelp = `  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  -w, --watch                         go on, and show each change
  -o, --output json                   in place of text
  exit code: 0 each source is in the cluster as far as agentk knows; 1 one is not, or it failed;
             2 the command line is wrong; 3 the agent reports no status
`

/** From one question of `--watch` to the next. ms */
const watchMs = 1000

/** Of an agent that reports no status, whatever its sources do. */
const noStatusCode = 3

/** `kas gitops status`: how the sources of an agent fare. */
export const status: Command = { usage, name: 'gitops', options, outputs: ['json'], run: gitopsStatus }

/**
 * @param args - after `gitops`
 * @returns the exit code: 0 if all that is known of each source is in the cluster, 1 if not, 3 if the agent reports none
 * @throws UsageError, BadAnswer, Error with what kas answered
 */
export async function gitopsStatus(
  args: readonly string[],
  context: Pick<CommandContext, 'io' | 'clock'> & {
    /** ends `--watch` */
    readonly signal?: AbortSignal
  },
): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  const { io, clock, signal } = context
  if (values.help) {
    const own = `usage: kas ${usage}\n  shows the status of the sources of an agent\n${statusHelp}`
    io.stdout.write(positionals.length === 0 ? `${own}${forgetHelp}` : own)
    return 0
  }
  if (positionals.join(' ') !== 'status') throw new UsageError('allowed is kas gitops status, or forget')
  if (values.output !== undefined && values.output !== 'json') {
    throw new UsageError(`-o ${values.output}: allowed is json`)
  }
  const endpoint = await endpointOf(values, context)
  let last = ''
  for (;;) {
    const { sources, ...rest } = await askState(endpoint)
    const state = { sources: sources.toSorted(byName), ...rest }
    const shown = values.output === 'json' ? `${printableJson(state)}\n` : statusText(state, endpoint.agentId)
    if (shown !== last) io.stdout.write(shown)
    last = shown
    if (!values.watch || signal?.aborted) return statusCode(state)
    await new Promise<void>((resolve) => void clock.after(watchMs, resolve))
  }
}

/** 0: all that is known of each source is in the cluster; 1: not; 3: the agent reports none. */
export function statusCode({ sources, agent, configuration, cut }: ShownState): number {
  if (agent === 'stock') return noStatusCode
  const isKnown = sources.length > 0 || namesNone({ agent, configuration })
  return isKnown && !cut && !configuration?.problem && sources.every(isInCluster) ? 0 : 1
}

/** Nothing of it is known to be otherwise. */
function isInCluster({ phase, commit, wanted, stale, counts, plan }: ShownSource): boolean {
  if (stale || commit !== wanted || plan) return false
  if (phase === 'PAUSED') return !counts?.failed && !counts?.waiting
  return phase === 'SYNCED' || phase === 'KEPT'
}

function byName(one: ShownSource, other: ShownSource): number {
  return nameOf(one).localeCompare(nameOf(other), 'en') || one.source.localeCompare(other.source, 'en')
}
