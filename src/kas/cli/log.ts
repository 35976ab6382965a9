import type { IncomingMessage } from 'node:http'
import { asWord, escapedJson } from '../../lib/printable.ts'
import type { AccessLine } from '../access-log/access-line.ts'
import { type Command, type CommandContext, parsedArgs, refuseEmpty, textOption } from '../command/command.ts'
import { agentOption, askReplica, explained, reportOf, socketOf, socketOptions, statusUsage } from './status-command.ts'

const usage = 'log [--agent ID] [--user NAME] [--verb VERB] [--since 10m] [--follow]'

const options = {
  ...socketOptions,
  agent: { type: 'string' },
  user: { type: 'string' },
  verb: { type: 'string' },
  since: { type: 'string' },
  follow: { type: 'boolean', short: 'f' },
} as const

const help = `usage: kas ${usage}
  prints who did what by way of one replica: of its last 10,000 lines of the access log those that fit, the oldest first
  --agent ID                   of calls for this agent
  --user NAME                  of this user; a number is an id, and @5 who has the name 5
  --verb VERB                  get, list, watch, create, update, patch, delete, deletecollection; of what is no resource, the method
  --since 10m                  not older; or since a time, as 2026-11-26T18:00:00Z
  --follow                     goes on with those that come
${statusUsage}`

/** A replica begins to answer at once, also where nothing is written yet. ms */
const openMs = 10_000
/** of one line */
const maxLineCharacters = 1024 * 1024

/** `kas log` */
export const log: Command = { usage, options, run }

/** @throws UsageError, Error with what the replica answered */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io } = context
  const { values } = parsedArgs({ args: [...args], options })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  refuseEmpty(values, ['agent', 'user', 'verb', 'since'])
  const query = new URLSearchParams()
  const agent = agentOption(values)
  if (agent !== undefined) query.set('agent', agent)
  for (const name of ['user', 'verb', 'since'] as const) {
    const value = textOption(values, name)
    if (value !== undefined) query.set(name, value)
  }
  if (values.follow) query.set('follow', 'true')
  const socket = await socketOf(values, io.env)
  const show = values.json
    ? (line: string) => `${escapedJson(line)}\n`
    : (line: string) => `${lineText(reportOf(socket, line) as AccessLine)}\n`
  const response = await openLog(socket, `/log?${query}`, context)
  await explained(socket, () => read(response, (line) => void io.stdout.write(show(line))))
  return 0
}

/** @throws Error: no answer has begun within 10 s, and why */
function openLog(socket: string, path: string, waiting: CommandContext): Promise<IncomingMessage> {
  const opening = new AbortController()
  const cancel = waiting.clock.after(openMs, () => opening.abort(new DOMException('', 'TimeoutError')))
  const asked = () => askReplica(socket, path, { signal: opening.signal })
  return explained(socket, asked, waiting).finally(cancel)
}

/** Resolves once there is no more. */
async function read(response: IncomingMessage, onLine: (line: string) => void): Promise<void> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const chunk of response as AsyncIterable<string>) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > maxLineCharacters) throw new Error('a line is too long')
    lines.forEach(onLine)
  }
}

/** For people: when, who, as whom, what, and what came of it. Each name is one word, so that a line is never read as two. */
function lineText(line: AccessLine): string {
  const { time, event, caller, address, agent_id: agent, as, asked_as: asked, status, outcome, reason, count } = line
  const parts = [
    asWord(time),
    caller ? callerText(caller) : asWord(address ?? '-'),
    ...(as === undefined ? [] : [`as ${asWord(as)}`]),
    ...(asked === undefined ? [] : [`asked as ${asked.map(asWord).join(', ')}`]),
    ...(agent === undefined ? [] : [`agent ${asWord(agent)}`]),
    ...(event === 'end' ? [] : [asWord(event)]),
    whatText(line),
    ...(status === undefined ? [] : [asWord(String(status))]),
    ...(outcome === undefined || outcome === 'answered' ? [] : [asWord(outcome)]),
    ...(reason === undefined ? [] : [asWord(reason)]),
    ...(count === undefined ? [] : [`${asWord(String(count))} times`]),
  ]
  return parts.filter((part) => part !== '').join('  ')
}

export function callerText({ name, job }: NonNullable<AccessLine['caller']>): string {
  return `${asWord(name)}${job ? ` (job ${asWord(job)})` : ''}`
}

/** The request: verb, resource, object, program; each is a word. */
export function whatText(line: Partial<AccessLine>): string {
  const { verb = '', group, resource, subresource, namespace, name, path, program, arguments: count } = line
  const method = verb === '' ? '' : `${asWord(verb)} `
  if (resource === undefined) return path === undefined ? '' : `${method}${asWord(path)}`
  const kind = asWord(`${resource}${group ? `.${group}` : ''}${subresource ? `/${subresource}` : ''}`)
  const object = [namespace, name].flatMap((part) => (part === undefined ? [] : asWord(part))).join('/')
  const command =
    program === undefined ? '' : ` -- ${asWord(program)}${count ? ` and ${asWord(String(count))} arguments` : ''}`
  return `${method}${kind}${object === '' ? '' : ` ${object}`}${command}`
}
