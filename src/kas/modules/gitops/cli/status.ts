import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { dataText, outputHelp, outputHints, outputOptions, outputs, readPrinting } from '../../../command/output.ts'
import { readWaitTime } from '../../../command/wait-time.ts'
import { directivesHelp } from './directives.ts'
import { driftHelp } from './drift.ts'
import { forgetHelp } from './forget.ts'
import { holdHelp } from './hold.ts'
import { checkCommit, judged, noStatusCode, type StatusGate } from './judge-sources.ts'
import { SourceWatch, sourceListData } from './print-sources.ts'
import { askState, type ShownSource, type ShownState } from './state.ts'
import { namesNone } from './status-text.ts'
import { waitHelp } from './wait.ts'

const usage =
  'gitops status [--agent ID] [--source SOURCE] [--commit SHA] [--wait TIME] [--fresh] [--watch] [-o FORMAT]'

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  source: { type: 'string' },
  commit: { type: 'string' },
  wait: { type: 'string' },
  fresh: { type: 'boolean' },
  watch: { type: 'boolean', short: 'w' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

const statusHelp = `  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  --source SOURCE                     judge this source alone, by its name or id
  --fresh                             poll the repositories now
  --commit SHA                        poll them now, and judge the sources with this commit at their head
  --wait TIME                         wait until the sources are synced, such as 5m; it ends at most 2 s later
  -w, --watch                         go on, and show each change; for programs one object a line
${outputHelp(outputs, 36)}  exit code: 0 each source is in the cluster as far as agentk knows; 1 one is not, or it failed;
             2 the command line is wrong; 3 the agent reports no status
  exit code with --commit or --wait: 0 synced; 1 refused; 2 the command line is wrong; 3 the time is over;
             4 failing for 5 s; 5 not known; 6 waits for approval
`

/** From one question of `--watch` to the next, in ms. */
const watchMs = 1000

/** `kas gitops status`: the status of an agent's sources. */
export const status: Command = { usage, name: 'gitops', options, outputs, run: gitopsStatus }

/**
 * Runs the command.
 *
 * @param args - after `gitops`
 * @returns the exit code, that of `statusCode` or of a gate
 * @throws UsageError, BadAnswer, Error with the answer of kas
 */
export async function gitopsStatus(
  args: readonly string[],
  context: Pick<CommandContext, 'io' | 'clock'> & {
    /** ends `--watch` */
    readonly signal?: AbortSignal
  },
): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true }, outputHints)
  const { io, clock, signal } = context
  if (values.help) {
    const own = `usage: kas ${usage}\n  shows the status of the sources of an agent\n${statusHelp}`
    io.stdout.write(
      positionals.length === 0 ? `${own}${waitHelp}${driftHelp}${holdHelp}${directivesHelp}${forgetHelp}` : own,
    )
    return 0
  }
  if (positionals.join(' ') !== 'status')
    throw new UsageError('allowed is kas gitops status, wait, drift, hold, approve, pause, resume, resync or forget')
  const printing = readPrinting(values, outputs, io)
  const { output, hasHeaders } = printing
  const gate = gateOf(values)
  const endpoint = await endpointOf(values, context)
  if (gate) return await judged(endpoint, gate, context, printing)
  const { agentId } = endpoint
  const watch = new SourceWatch(io.stdout, printing)
  for (;;) {
    const state = await askState(endpoint)
    const exitCode = statusCode(state)
    const shown = { agentId, at: clock.now(), exitCode }
    if (values.watch) await watch.print(state, shown)
    else io.stdout.write(await dataText(sourceListData(state, shown), output, hasHeaders))
    if (!values.watch || signal?.aborted) return exitCode
    await new Promise<void>((resolve) => void clock.after(watchMs, resolve))
  }
}

/** @returns undefined: the status is printed without a gate. @throws UsageError */
function gateOf(values: CliValues): StatusGate | undefined {
  refuseEmpty(values, ['source', 'commit', 'wait'])
  const [commit, wait, source] = ['commit', 'wait', 'source'].map((name) => textOption(values, name))
  if (commit === undefined && wait === undefined && !values.fresh) {
    if (source !== undefined) throw new UsageError('--source goes with --commit, --wait or --fresh')
    return undefined
  }
  if (values.watch) throw new UsageError('--watch goes without --commit, --wait and --fresh')
  checkCommit(commit)
  const waitMs = wait === undefined ? undefined : readWaitTime('wait', wait)
  return { commit, source, waitMs, hasCodes: commit !== undefined || wait !== undefined }
}

/** Returns 0 if each source is in the cluster as far as is known, 1 if not, 3 if the agent reports no status. */
export function statusCode({ sources, agent, configuration, cut }: ShownState): number {
  if (agent === 'stock') return noStatusCode
  const isKnown = sources.length > 0 || namesNone({ agent, configuration })
  return isKnown && !cut && !configuration?.problem && sources.every(isInCluster) ? 0 : 1
}

/** True unless something is known to differ from the commit. */
function isInCluster({ phase, commit, wanted, stale, counts, plan }: ShownSource): boolean {
  if (stale || commit !== wanted || plan) return false
  if (counts?.drifted || counts?.not_compared) return false
  if (phase === 'PAUSED') return !counts?.failed && !counts?.waiting
  return phase === 'SYNCED' || phase === 'KEPT'
}
