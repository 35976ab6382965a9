import { printable } from '../../lib/printable.ts'
import type { Data } from '../command/output.ts'
import { textTable } from '../command/text-table.ts'
import type {
  AgentReport,
  MemberReport,
  RefusedCallerReport,
  StatusReport,
} from '../servers/ops-socket/status-report.ts'
import type { Status } from './replica-output-kinds.ts'
import { agentOption, statusCommand } from './status-command.ts'

const columns = `columns of replicas:
  REPLICA       its name; (2 instances): two replicas have the same name
  STATE         serving, or leaving while it stops
  VERSION       of kas there
  ADDRESS       where other replicas call it
  REACH         whether calls of this replica reach it: self, reachable, suspect or down
  GOSSIP        whether a connection for gossip to it is open here
  CALLS         calls that this replica has handed over to it and that run
  ROW           version of what it says about itself, which grows with each change
  AGENTS        agents that are connected to it
  CONNECTIONS   connections of agentk to it
  PODS          pods of agentk that have registered there; a pod that connects to two replicas registers at one
columns of agents:
  AGENT         its id
  HOLDER        replicas that have connections of the agent, with their number
  PODS          pods of agentk that have registered, at any replica
  RANK          replicas in the order in which the agent's connections are placed
`

/** `kas status` */
export const status = statusCommand({
  usage: 'status [--agent ID] [--socket FILE | --configuration-file FILE] [-o FORMAT]',
  summary: 'prints the replicas, and who holds which agent, as one replica knows it',
  help: `  --agent ID                   of this agent alone, with each connection and pod
${columns}`,
  options: { agent: { type: 'string' } },
  path: (values) => {
    const agent = agentOption(values)
    return agent === undefined ? '/status' : `/status?agent=${agent}`
  },
  data: (answer): Data<Status> => ({
    kind: 'Status',
    fields: fieldsOf(answer as StatusReport),
    table: (_, hasHeaders) => textOf(answer as StatusReport, hasHeaders),
  }),
})

function fieldsOf(report: StatusReport): Data<Status>['fields'] {
  const { replica, members, agents, agentCount, refusedCallers = [], modules } = report
  return {
    replica,
    members,
    agents: agents.map(({ agentId, entries, ...agent }) => ({
      agent: Number(agentId),
      ...agent,
      entries: entries?.map((entry) => ({ ...entry, since: timeText(entry.since) })),
    })),
    agentCount,
    refusedCallers: refusedCallers.map(({ agentId, held: tunnels, living: allTunnels, lastAt, ...caller }) => ({
      ...caller,
      agent: Number(agentId),
      tunnels,
      allTunnels,
      lastAt: timeText(lastAt),
    })),
    modules,
  }
}

function textOf(
  { replica, members, agents, agentCount, refusedCallers = [], modules = {} }: StatusReport,
  hasHeaders?: boolean,
): string {
  const ready = replica.problem === undefined ? 'ready' : `not ready: ${printable(replica.problem)}`
  const [first] = agents
  return [
    `${printable(replica.name)}, kas ${printable(replica.version)}, ${ready}\n\n`,
    members ? memberTable(members, hasHeaders) : 'alone: private_api.listen.authentication_secret_file is not set\n',
    first?.entries ? entryTables(first, hasHeaders) : agentTable(agents, agentCount, hasHeaders),
    refusedTable(refusedCallers, hasHeaders),
    ...Object.entries(modules).map(([name, lines]) => `\n${printable(name)}\n${textTable(lines)}`),
  ].join('')
}

function memberTable(members: readonly MemberReport[], hasHeaders?: boolean): string {
  const heads = [
    'REPLICA',
    'STATE',
    'VERSION',
    'ADDRESS',
    'REACH',
    'GOSSIP',
    'CALLS',
    'ROW',
    'AGENTS',
    'CONNECTIONS',
    'PODS',
  ]
  const rows = members.map(({ name, state, version, address, reach, gossip, calls, row, instances }) => [
    instances > 1 ? `${name} (${instances} instances)` : name,
    state,
    version,
    address ?? '-',
    reach,
    gossip ? 'yes' : 'no',
    calls,
    row.version,
    row.agents,
    row.connections,
    row.pods,
  ])
  return textTable([heads, ...rows], hasHeaders)
}

function agentTable(agents: readonly AgentReport[], count: number, hasHeaders?: boolean): string {
  if (count === 0) return '\nno agent is connected\n'
  const rows = agents.map(({ agentId, holders, pods, rank }) => [agentId, holdersText(holders), pods, rank.join(' ')])
  const more = count > agents.length ? `and ${count - agents.length} more: kas status --agent ID\n` : ''
  return `\n${textTable([['AGENT', 'HOLDER (CONNECTIONS)', 'PODS', 'RANK'], ...rows], hasHeaders)}${more}`
}

/** Table of refused callers: the cause of a slow agent may be among them. */
function refusedTable(callers: readonly RefusedCallerReport[], hasHeaders?: boolean): string {
  if (callers.length === 0) return ''
  const rows = callers.map(({ caller, agentId, held, living, watches, refused, lastAt }) => [
    caller,
    agentId,
    `${held} of ${living}`,
    watches,
    refused,
    timeText(lastAt),
  ])
  const heads = ['CALLER OVER SHARE', 'AGENT', 'TUNNELS', 'WATCHES', 'REFUSED', 'LAST']
  return `\n${textTable([heads, ...rows], hasHeaders)}`
}

function entryTables({ agentId, holders, rank, entries = [] }: AgentReport, hasHeaders?: boolean): string {
  const summary = `\nagent ${agentId}: holder ${holdersText(holders)}; rank ${printable(rank.join(' '))}\n`
  if (entries.length === 0) return summary
  const rows = entries.map(({ replica, kind, pod, role, version, methods, since }) => [
    replica,
    kind,
    pod || '-',
    kind === 'connection' ? role : '-',
    version || '-',
    kind === 'connection' ? methods.length : '-',
    timeText(since),
  ])
  const heads = ['REPLICA', 'KIND', 'POD', 'ROLE', 'VERSION', 'METHODS', 'SINCE']
  return `${summary}\n${textTable([heads, ...rows], hasHeaders)}`
}

function holdersText(holders: AgentReport['holders']): string {
  if (holders.length === 0) return 'nobody'
  return printable(holders.map(({ name, connections }) => `${name} (${connections})`).join(', '))
}

/** Text of a time, which may be invalid: it is by another replica's clock. */
function timeText(ms: number): string {
  const time = new Date(ms)
  return Number.isNaN(time.getTime()) ? String(ms) : time.toISOString()
}
