import { printable } from '../../../../lib/printable.ts'
import { type AgentsOfUser, askAgentsOfUser, endpointAt, tokenFrom } from '../../../command/agents-of-user.ts'
import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  textOption,
  UsageError,
} from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import {
  type Data,
  dataText,
  outputHelp,
  outputHints,
  outputOptions,
  outputs,
  readPrinting,
} from '../../../command/output.ts'
import { textTable } from '../../../command/text-table.ts'
import type { ReachableAgentList } from './output-kinds.ts'

const usage = 'agents [--server URL --token-file FILE [--ca FILE]] [-o FORMAT]'

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  server: { type: 'string' },
  'token-file': { type: 'string' },
  ca: { type: 'string' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

const help = `usage: kas ${usage}
  asks a running kas for the agents that let you in, and where they are connected
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --server URL                        where kas is, in place of a kubeconfig
  --token-file FILE                   your token, for --server
  --ca FILE                           the authority that signed the certificate of --server, in PEM
${outputHelp(outputs, 36)}  exit code: 0 done, 1 it failed, 2 the command line is wrong
`

/** `kas agents` */
export const agents: Command = { usage, options, outputs, run }

/** @throws UsageError, BadAnswer, Error with the answer of kas */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io } = context
  const { values } = parsedArgs({ args: [...args], options }, outputHints)
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const { output, hasHeaders } = readPrinting(values, outputs, io)
  const answer = await askAgentsOfUser(await endpoint(values, context))
  io.stdout.write(await dataText(dataOf(answer), output, hasHeaders))
  if (answer.unread > 0) {
    io.stderr.write(`note: the configuration of ${answer.unread} more could not be read: kas' log says why\n`)
  }
  return 0
}

async function endpoint(values: CliValues, context: CommandContext) {
  const server = textOption(values, 'server')
  const file = textOption(values, 'token-file')
  if ((server === undefined) !== (file === undefined)) throw new UsageError('--server and --token-file go together')
  if (server === undefined || file === undefined) return await endpointOf(values, context)
  if (!URL.canParse(server)) throw new UsageError(`--server ${server}: allowed is a URL with https`)
  return await endpointAt(server, await tokenFrom(file), { ...context, values })
}

function dataOf(answer: AgentsOfUser): Data<ReachableAgentList> {
  const { user, unread, agents: all } = answer
  const items = all.map(({ id, name, project, pods, connected }) => ({
    id: Number(id),
    name,
    project,
    pods,
    connected,
  }))
  const names = items.map(({ name }) => printable(`agent/${name}`))
  return {
    kind: 'ReachableAgentList',
    fields: { user, items, unread },
    names,
    table: (_, hasHeaders) => table(answer, hasHeaders),
  }
}

function table({ user, agents: shown }: AgentsOfUser, hasHeaders?: boolean): string {
  if (shown.length === 0) return `no agent lets ${user} in\n`
  const rows = shown.flatMap(({ id, name, project, connected }) => {
    const places = connected.length > 0 ? connected : [{ replica: '-' }]
    return places.map(({ replica, since = '-' }: { replica: string; since?: string | undefined }) => [
      id,
      name,
      project,
      replica,
      since,
    ])
  })
  return textTable([['ID', 'AGENT', 'PROJECT', 'REPLICA', 'SINCE'], ...rows], hasHeaders)
}
