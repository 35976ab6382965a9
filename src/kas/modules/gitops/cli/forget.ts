import { printable } from '../../../../lib/printable.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { type Command, type CommandContext, parsedArgs, UsageError } from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { objectOf, requireSource, sourceCalled } from './named-source.ts'
import { askState } from './state.ts'

const usage = 'gitops forget SOURCE [--agent ID]'
export const forgetHelp = `usage: kas ${usage}\n  lets go of what a source that has left the configuration has made
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  exit code: 0 done, 1 it failed, 2 the command line is wrong
`

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

/** From one question to the next, in ms. */
const pollMs = 500
/** The longest time until agentk has forgotten the source, in ms. */
const maxWaitMs = 60_000

const forgetAnnotation = 'agent.gitlab.com/forget'

/**
 * `kas gitops forget`: drops the inventory of a source that has left the configuration. Its objects stay in the
 * cluster.
 */
export const forget: Command = { usage, name: 'gitops', options, run }

/** @throws UsageError, BadAnswer, Error with the answer of kas or the API server */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io, clock } = context
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(forgetHelp)
    return 0
  }
  const [, wanted, ...more] = positionals
  if (wanted === undefined || more.length > 0) throw new UsageError('allowed is one source')
  const endpoint = await endpointOf(values, context)
  const find = async () => sourceCalled((await askState(endpoint)).sources, wanted)
  const { sources } = await askState(endpoint)
  const source = requireSource(sources, wanted)
  const { phase } = source
  if (phase !== 'KEPT' && phase !== 'REMOVING') {
    throw new Error(`${wanted} is ${phase}: the configuration has it. Take it out there first`)
  }
  const object = objectOf(source, wanted)
  await askKas(endpoint, {
    method: 'PATCH',
    path: object,
    patch: { metadata: { annotations: { [forgetAnnotation]: 'true' } } },
  })
  const until = clock.now() + maxWaitMs
  while (await find()) {
    if (clock.now() >= until) throw new Error(`agentk was asked to forget ${wanted}, and has not done so yet`)
    await new Promise<void>((resolve) => void clock.after(pollMs, resolve))
  }
  io.stdout.write(printable(`${wanted} is forgotten: what it has made stays in the cluster`).concat('\n'))
  return 0
}
