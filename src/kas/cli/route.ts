import { printable } from '../../lib/printable.ts'
import { required, textOption } from '../command/command.ts'
import type { Data } from '../command/output.ts'
import { textTable } from '../command/text-table.ts'
import type { RouteReport } from '../servers/ops-socket/route-report.ts'
import type { Route } from './replica-output-kinds.ts'
import { agentOption, statusCommand } from './status-command.ts'

/** `kas route` */
export const route = statusCommand({
  usage: 'route --agent ID [--method /package.Service/Method] [--socket FILE | --configuration-file FILE] [-o FORMAT]',
  summary: 'says which way a call for the agent would go if it came in at the replica now, and why',
  help: `  --agent ID                   of the call
  --method METHOD              of the call, as /package.Service/Method (default: that of the Kubernetes API)
`,
  options: { agent: { type: 'string' }, method: { type: 'string' } },
  path: (values) => {
    const query = new URLSearchParams({ agent: required(agentOption(values), '--agent') })
    const method = textOption(values, 'method')
    if (method !== undefined) query.set('method', method)
    return `/route?${query}`
  },
  data(answer): Data<Route> {
    const { agentId, method, entry, rank, own, ways, verdict, by, why: reason } = answer as RouteReport
    const fields = { agent: Number(agentId), method, entry, verdict, by, reason, own, ways, rank }
    return { kind: 'Route', fields, table: (_, hasHeaders) => tableOf(answer as RouteReport, hasHeaders) }
  },
})

function tableOf(
  { agentId, method, entry, rank, own, ways, verdict, by, why }: RouteReport,
  hasHeaders?: boolean,
): string {
  const lines = [
    `agent ${agentId}, ${method}, entering at ${entry}`,
    `${verdicts[verdict]}${by === undefined ? '' : ` ${by}`}: ${why}`,
    '',
    `here: ${own.tunnels} tunnels, ${own.idle} idle that serve the method, ${own.waiting} calls waiting`,
    `rank: ${rank.join(' ')}`,
  ]
  const rows = ways.map(({ name, state, reach, calls, serves }) => [name, state, reach, calls, serves ? 'yes' : 'no'])
  const heads = ['OTHER HOLDER', 'STATE', 'REACH', 'CALLS', 'SERVES']
  const table = rows.length === 0 ? '' : `\n${textTable([heads, ...rows], hasHeaders)}`
  return `${lines.map((line) => `${printable(line)}\n`).join('')}${table}`
}

const verdicts: Readonly<Record<RouteReport['verdict'], string>> = {
  own: 'a tunnel of',
  'hand-over': 'handed over to',
  wait: 'waits at',
  unreachable: 'no way',
  'not-served': 'no way',
  'not-connected': 'no way',
}
