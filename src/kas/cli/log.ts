import type { IncomingMessage } from 'node:http'
import * as z from 'zod'
import { Deadline } from '../../lib/deadline.ts'
import { asWord, escapedJson, printableJson } from '../../lib/printable.ts'
import type { AccessLine } from '../access-log/access-line.ts'
import { maxOwnLines } from '../access-log/recent-lines.ts'
import { askKas } from '../command/ask-kas.ts'
import { readAnswer } from '../command/bad-answer.ts'
import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../command/command.ts'
import { endpointOf } from '../command/endpoint.ts'
import { outputHints, readPrinting } from '../command/output.ts'
import { logHeaders } from '../servers/ops-socket/ops-answers.ts'
import { agentOption, askReplica, explained, reportOf, socketOf, socketOptions, statusUsage } from './status-command.ts'

/**
 * Formats. JSON is the line of the access log, unchanged, one a line, so that programs for the access log read it too.
 */
const logOutputs = ['table', 'json'] as const

const usage =
  'log [--agent ID] [--user NAME] [--verb VERB] [--since 10m] [--follow] [-o json] | log --kubeconfig FILE [--context NAME] [--agent ID] [--verb VERB] [--since 10m]'

const options = {
  ...socketOptions,
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  user: { type: 'string' },
  verb: { type: 'string' },
  since: { type: 'string' },
  follow: { type: 'boolean', short: 'f' },
} as const

const help = `usage: kas ${usage}
  prints who did what, the oldest first: of the last 10,000 lines of each replica's access log those that fit
  with --kubeconfig: your own lines alone, the last 1,000, as a user without rights on the machine of kas
  Reads (get, list, logs without -f) are not logged by default: observability.access_log.rules logs them, too
  --agent ID                   of calls for this agent
  --user NAME                  of this user; a number is an id, and @5 who has the name 5
  --verb VERB                  get, list, watch, create, update, patch, delete, deletecollection; of what is no resource, the method
  --since 10m                  not older; or since a time, as 2026-11-26T18:00:00Z
  -f, --follow                 goes on with those that come
  --kubeconfig FILE            as whom, and which kas: as kubectl takes it
  --context NAME               of the kubeconfig (default: the current one)
${statusUsage(logOutputs)}`

/**
 * Bound of the wait for an answer, and for its next part: a replica begins at once, even without lines, and sends
 * without pauses. ms
 */
const openMs = 10_000
/** bound of one line */
const maxLineCharacters = 1024 * 1024

/** `kas log` */
export const log: Command = { usage, options, outputs: logOutputs, run }

/** @throws UsageError, Error with the replica's answer */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io } = context
  const { values } = parsedArgs({ args: [...args], options }, outputHints)
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const isJson = readPrinting(values, logOutputs, io).output === 'json'
  refuseEmpty(values, ['agent', 'user', 'verb', 'since'])
  const agent = agentOption(values)
  if (values.kubeconfig !== undefined || values.context !== undefined) return await ownLines(values, isJson, context)
  const query = new URLSearchParams()
  if (agent !== undefined) query.set('agent', agent)
  for (const name of ['user', 'verb', 'since'] as const) {
    const value = textOption(values, name)
    if (value !== undefined) query.set(name, value)
  }
  if (values.follow) query.set('follow', 'true')
  const socket = await socketOf(values, io.env)
  const show = isJson
    ? (line: string) => `${escapedJson(line)}\n`
    : (line: string) => `${lineText(reportOf(socket, line) as AccessLine)}\n`
  const response = await openLog(socket, `/log?${query}`, context)
  const isWhole = sayMissing(io, {
    unreached: namesOf(response, logHeaders.unreached),
    incomplete: namesOf(response, logHeaders.incomplete),
  })
  const limits = values.follow ? undefined : context
  await explained(socket, () => read(response, (line) => void io.stdout.write(show(line)), limits))
  return isWhole ? 0 : 1
}

const names = z.array(z.string().max(253)).max(1000)
const ownLinesSchema = z.object({
  lines: z.array(z.record(z.string(), z.unknown())).max(maxOwnLines),
  cut: z.boolean(),
  unreached: names,
  incomplete: names,
})

/**
 * Prints the lines of a kubeconfig's user.
 *
 * @throws UsageError, BadAnswer, KasRefused, Unreached
 */
async function ownLines(values: CliValues, isJson: boolean, context: CommandContext): Promise<number> {
  const { io } = context
  for (const name of ['user', 'follow', 'socket', 'configuration-file']) {
    if (values[name] !== undefined)
      throw new UsageError(`--${name} does not go with --kubeconfig: it shows your own lines`)
  }
  const { agent: _, ...others } = values
  const endpoint = await endpointOf(others, context)
  if (endpoint.authorization.startsWith('Bearer ci:')) {
    throw new UsageError('the kubeconfig is of a CI job: kas shows lines to users, by a token of their own')
  }
  const query = new URLSearchParams()
  for (const name of ['agent', 'verb', 'since']) {
    const value = textOption(values, name)
    if (value !== undefined) query.set(name, value)
  }
  const path = query.size === 0 ? '/log' : `/log?${query}`
  const { lines, cut, ...missing } = readAnswer(ownLinesSchema, await askKas(endpoint, { method: 'GET', path }))
  for (const line of lines) {
    io.stdout.write(isJson ? `${printableJson(line)}\n` : `${lineText(line as unknown as AccessLine)}\n`)
  }
  if (cut) io.stderr.write(`note: these are the last ${lines.length} lines: --since and --verb show fewer\n`)
  return sayMissing(io, missing) ? 0 : 1
}

function namesOf(response: IncomingMessage, header: string): readonly string[] {
  const value = response.headers[header]
  return typeof value === 'string' ? value.split(',').map(decodeURIComponent) : []
}

/**
 * Prints notes about missing lines.
 *
 * @returns true: none are missing
 */
function sayMissing(
  { stderr }: CommandContext['io'],
  { unreached, incomplete }: { readonly unreached: readonly string[]; readonly incomplete: readonly string[] },
): boolean {
  if (unreached.length > 0)
    stderr.write(`note: ${unreached.join(', ')} did not answer: what was done by way of it is not shown\n`)
  if (incomplete.length > 0)
    stderr.write(`note: of ${incomplete.join(', ')} not all lines are shown: --since shows fewer\n`)
  return unreached.length === 0 && incomplete.length === 0
}

/** @throws Error with the reason, if no answer has begun within 10 s */
function openLog(socket: string, path: string, waiting: CommandContext): Promise<IncomingMessage> {
  const opening = new AbortController()
  const cancel = waiting.clock.after(openMs, () => opening.abort(new DOMException('', 'TimeoutError')))
  const asked = () => askReplica(socket, path, { signal: opening.signal })
  return explained(socket, asked, waiting).finally(cancel)
}

/**
 * Reads lines; resolves at their end.
 *
 * @param limits - undefined: no bound of time, because lines come as they are written
 * @throws TimeoutError: nothing has come for 10 s
 */
async function read(
  response: IncomingMessage,
  onLine: (line: string) => void,
  limits: Pick<CommandContext, 'clock'> | undefined,
): Promise<void> {
  const silence = limits && new Deadline({ ms: openMs, clock: limits.clock })
  silence?.signal.addEventListener('abort', () => response.destroy(silence.signal.reason))
  response.setEncoding('utf8')
  let rest = ''
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      silence?.restart()
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > maxLineCharacters) throw new Error('a line is too long')
      lines.forEach(onLine)
    }
  } finally {
    silence?.end()
  }
}

/**
 * Returns a line for people: time, caller, identity, request and result. Each name is one word, so that a line is never
 * read as two.
 */
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

/** Returns the request: verb, resource, object, program; each is a word. */
export function whatText(line: Partial<AccessLine>): string {
  const { verb = '', group, resource, subresource, namespace, name, path, view, program, arguments: count } = line
  const method = verb === '' ? '' : `${asWord(verb)} `
  if (resource === undefined) {
    return path === undefined ? '' : `${method}${asWord(path)}${view === undefined ? '' : ` ${asWord(view)}`}`
  }
  const kind = asWord(`${resource}${group ? `.${group}` : ''}${subresource ? `/${subresource}` : ''}`)
  const object = [namespace, name].flatMap((part) => (part === undefined ? [] : asWord(part))).join('/')
  const command =
    program === undefined ? '' : ` -- ${asWord(program)}${count ? ` and ${asWord(String(count))} arguments` : ''}`
  return `${method}${kind}${object === '' ? '' : ` ${object}`}${command}`
}
