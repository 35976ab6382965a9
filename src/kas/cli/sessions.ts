import { ageText } from '../command/age-text.ts'
import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../command/command.ts'
import { type Data, dataText, outputHints, type Printing, readPrinting } from '../command/output.ts'
import { textTable } from '../command/text-table.ts'
import type { EndedReport, SessionsReport } from '../sessions/replica-sessions.ts'
import type { SessionReport } from '../sessions/session-table.ts'
import { callerText, whatText } from './log.ts'
import type { EndedSessions, SessionDescription, SessionList } from './replica-output-kinds.ts'
import { agentOption, ask, reportOf, socketOf, socketOptions, statusOutputs, statusUsage } from './status-command.ts'

const usage =
  'sessions [end] [ID] [--user NAME] [--agent ID] [--reason TEXT] [--socket FILE | --configuration-file FILE] [-o FORMAT]'

const options = {
  ...socketOptions,
  user: { type: 'string' },
  agent: { type: 'string' },
  reason: { type: 'string' },
} as const

const help = `usage: kas sessions [--user NAME] [--agent ID]
  prints what lasts on 8154 at all replicas: watches, logs that are followed, execs, port-forwards, views
usage: kas sessions end ID
usage: kas sessions end [--user NAME] [--agent ID]
  ends it, or all of this user at this agent; who still may can begin again
  ID                           as kas sessions prints it, or the id of a line of the access log
  --user NAME                  of this user; a number is an id, and @5 who has the name 5
  --agent ID                   of calls for this agent
  --reason TEXT                sent to those whose sessions they are, where their protocol has a place for it
${statusUsage(statusOutputs)}`

/** Characters of an id in the table: as many as can replace it. */
const idCharacters = 8

/** `kas sessions` */
export const sessions: Command = { usage, name: 'sessions', options, outputs: statusOutputs, run }

/**
 * @returns the exit code: 1 if a replica was not reached
 * @throws UsageError, Error with the replica's answer
 */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io, clock } = context
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true }, outputHints)
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const [word, id, ...more] = positionals
  if ((word !== undefined && word !== 'end') || more.length > 0)
    throw new UsageError(`${positionals.join(' ')}: too much`)
  const query = queryOf(values, id)
  const printing = readPrinting(values, statusOutputs, io) // before sessions are ended
  const socket = await socketOf(values, io.env)
  if (word === 'end') {
    if (query.size === 0 || (query.size === 1 && query.has('reason')))
      throw new UsageError('which? Say an ID, --user or --agent')
    const text = await ask(socket, `/sessions/end?${query}`, { method: 'POST', waiting: context })
    const missing = 'what goes on there may not have ended'
    return await print(printing, reportOf(socket, text) as EndedReport, { data: endedData, missing })
  }
  const text = await ask(socket, `/sessions?${query}`, { waiting: context })
  const data = (report: SessionsReport) => sessionsData(report, clock.now())
  const missing = 'what goes on there is not known'
  return await print(printing, reportOf(socket, text) as SessionsReport, { data, missing })
}

function queryOf(values: CliValues, id: string | undefined): URLSearchParams {
  refuseEmpty(values, ['user', 'agent'])
  const all = { id, user: textOption(values, 'user'), agent: agentOption(values), reason: textOption(values, 'reason') }
  if (id !== undefined && id.length < idCharacters)
    throw new UsageError(`${id}: of an ID ${idCharacters} characters or more are needed`)
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(all)) if (value !== undefined) query.set(name, value)
  return query
}

async function print<R extends SessionsReport | EndedReport>(
  { io, output, hasHeaders }: Printing,
  report: R,
  { data, missing }: { data: (report: R) => Data; missing: string },
): Promise<number> {
  io.stdout.write(await dataText(data(report), output, hasHeaders))
  const { unreached } = report
  if (unreached.length === 0) return 0
  io.stderr.write(`note: ${unreached.join(', ')} did not answer: ${missing}\n`)
  return 1
}

function endedData(report: EndedReport): Data<EndedSessions> {
  const { replicas, unreached } = report
  return {
    kind: 'EndedSessions',
    fields: { replicas, unreached },
    table: (_, hasHeaders) => endedText(report, hasHeaders),
  }
}

function sessionsData(report: SessionsReport, now: number): Data<SessionList> {
  const { replicas, unreached } = report
  const items = replicas.flatMap(({ name: replica, sessions: all }) =>
    all.map((each): SessionDescription => ({ replica, ...descriptionOf(each) })),
  )
  const total = replicas.reduce((sum, each) => sum + each.total, 0)
  const table: Data['table'] = (_, hasHeaders) => sessionsText(report, now, hasHeaders)
  return { kind: 'SessionList', fields: { items, total, unreached }, table }
}

function descriptionOf({ agent_id, caller, ...fields }: SessionReport): Omit<SessionDescription, 'replica'> {
  const named = camelCased(fields) as Omit<SessionDescription, 'replica' | 'caller' | 'agent'>
  if (!caller) return { ...named, ...numbersOf({ agent: agent_id }) }
  const { kind, name, id, project, job, pipeline } = caller
  return {
    ...named,
    caller: { kind, name, id: Number(id), ...numbersOf({ project, job, pipeline }) },
    ...numbersOf({ agent: agent_id }),
  }
}

/** Converts numbers that the access log writes as text. */
function numbersOf<Key extends string>(texts: Readonly<Record<Key, string | undefined>>): { [K in Key]?: number } {
  const known = Object.entries<string | undefined>(texts).filter(([, text]) => text !== undefined)
  return Object.fromEntries(known.map(([key, text]) => [key, Number(text)])) as { [K in Key]?: number }
}

/** Renames fields of the access log to camelCase. */
function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased)
  if (typeof value !== 'object' || value === null) return value
  const named = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [named(key), camelCased(one)]))
}

function endedText({ replicas }: EndedReport, hasHeaders?: boolean): string {
  return textTable([['REPLICA', 'ENDED'], ...replicas.map(({ name, ended }) => [name, ended])], hasHeaders)
}

function sessionsText({ replicas, unreached }: SessionsReport, now: number, hasHeaders?: boolean): string {
  const rows = replicas.flatMap(({ name, sessions: all }) => all.map((each) => rowOf(name, each, now)))
  if (rows.length === 0) return unreached.length > 0 ? 'nothing lasts at those that answered\n' : 'nothing lasts\n'
  const notShown = replicas.flatMap(({ name, sessions: all, total }) =>
    total > all.length ? [`and ${total - all.length} more at ${name}: --user or --agent names fewer\n`] : [],
  )
  const heads = ['ID', 'FOR', 'USER', 'AGENT', 'WHAT', 'FROM', 'REPLICA']
  return [textTable([heads, ...rows], hasHeaders), ...notShown].join('')
}

function rowOf(
  replica: string,
  { id, since, caller, agent_id, address, ...what }: SessionReport,
  now: number,
): string[] {
  return [
    id.slice(0, idCharacters),
    ageText(Date.parse(since), now),
    caller ? callerText(caller) : '-',
    agent_id ?? '-',
    whatText(what),
    address ?? '-',
    replica,
  ]
}
