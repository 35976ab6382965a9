import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { http } from '../../lib/http.ts'
import { printable } from '../../lib/printable.ts'
import {
  type CliIo,
  type CliValues,
  type Command,
  type CommandContext,
  type CommandOptions,
  parsedArgs,
  textOption,
  UsageError,
} from '../command/command.ts'
import {
  type Data,
  dataText,
  type Output,
  outputHelp,
  outputHints,
  outputOptions,
  readPrinting,
} from '../command/output.ts'
import { noticeMs } from '../command/reach/unreached.ts'

export interface StatusCommand {
  /** words after `kas`, with arguments */
  readonly usage: string
  readonly summary: string
  /** lines of the help about its own options and columns, each with its end */
  readonly help: string
  readonly options: CommandOptions
  /** returns the path to ask. @throws UsageError */
  path(values: CliValues): string
  /** returns the answer, for programs and for people */
  data(answer: unknown): Data
}

export const socketOptions = {
  socket: { type: 'string' },
  'configuration-file': { type: 'string' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

/** Formats of a command whose data has no names, and only one table. */
export const statusOutputs = ['table', 'json', 'yaml'] as const

/** Returns lines of the help, each with its end. */
export const statusUsage = (
  outputs: readonly Output[],
) => `  --socket FILE                the replica's Unix socket (default: KAS_OPS_SOCKET of the environment)
  --configuration-file FILE    whose ops.socket is it
${outputHelp(outputs)}  exit code: 0 done, 1 it failed or a replica was not reached, 2 the command line is wrong
`
/** bound of a question. ms */
const timeoutMs = 10_000
/** Bound above any answer: 200 agents, or one with its 1,000 connections of 256 methods. */
const maxAnswerBytes = 256 * 1024 * 1024

/** Makes a command that asks a running replica on its Unix socket. */
export function statusCommand(command: StatusCommand): StatusCommand & Command {
  const { usage, summary, help } = command
  const options = { ...command.options, ...socketOptions }
  return {
    ...command,
    options,
    outputs: statusOutputs,
    async run(args, context) {
      const { io } = context
      const { values } = parsedArgs({ args: [...args], options }, outputHints)
      if (values.help) {
        io.stdout.write(`usage: kas ${usage}\n  ${summary}\n${help}${statusUsage(statusOutputs)}`)
        return 0
      }
      const { output, hasHeaders } = readPrinting(values, statusOutputs, io)
      const path = command.path(values)
      const socket = await socketOf(values, io.env)
      const text = await ask(socket, path, { waiting: context })
      const report = reportOf(socket, text)
      io.stdout.write(await dataText(command.data(report), output, hasHeaders))
      return 0
    },
  }
}

/**
 * Returns the socket of the chosen replica.
 *
 * @throws UsageError
 */
export async function socketOf(values: CliValues, env: CliIo['env']): Promise<string> {
  const socket = textOption(values, 'socket')
  if (socket !== undefined) return socket
  const file = textOption(values, 'configuration-file')
  if (file !== undefined) {
    const { loadKasConfig } = await import('../config/kas-config.ts')
    const { config } = await loadKasConfig(file, env)
    if (config.ops.socket === undefined) throw new UsageError(`${file} names no ops.socket`)
    return config.ops.socket
  }
  if (env.KAS_OPS_SOCKET) return env.KAS_OPS_SOCKET
  throw new UsageError('which replica? Say --socket FILE or --configuration-file FILE, or set KAS_OPS_SOCKET')
}

export interface AskOptions {
  /** default: GET */
  readonly method?: 'POST'
  /** output for a notice during the wait; absent: none */
  readonly waiting?: Pick<CommandContext, 'io' | 'clock'>
}

/** @throws Error of `explained` */
export async function ask(socketPath: string, path: string, { method, waiting }: AskOptions = {}): Promise<string> {
  const clock = waiting?.clock
  return await explained(
    socketPath,
    () =>
      withDeadline({ ms: timeoutMs, ...(clock && { clock }) }, async (signal) => {
        try {
          return await textOf(await askReplica(socketPath, path, { method, signal }))
        } catch (error) {
          throw signal.aborted ? signal.reason : error // a cut answer counts as a lost connection
        }
      }),
    waiting,
  )
}

/**
 * Parses a replica's answer.
 *
 * @throws Error: it is not from a replica
 */
export function reportOf(socketPath: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Refused(foreignText(socketPath, 'its answer is no JSON'), { cause })
  }
}

function foreignText(socketPath: string, reason: string): string {
  return printable(`what listens on ${socketPath} is not kas: ${reason}. Name the file of ops.socket`)
}

/**
 * Returns a replica's answer of status 200, to be read.
 *
 * @throws Error with the text of another status, or of the connection
 */
export async function askReplica(
  socketPath: string,
  path: string,
  { method = 'GET', signal }: { readonly method?: string | undefined; readonly signal?: AbortSignal } = {},
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  http
    .request({ socketPath, path, method, ...(signal && { signal }) }, resolve)
    .once('error', reject)
    .end()
  const response = await promise
  if (response.statusCode === 200) return response
  throw new Refused(refusalText(socketPath, response.statusCode, await textOf(response)))
}

function refusalText(socketPath: string, status: number | undefined, text: string): string {
  let error: unknown
  try {
    error = (Object(JSON.parse(text)) as { error?: unknown }).error
  } catch {
    // not from kas
  }
  if (typeof error !== 'string') return foreignText(socketPath, `it answered ${status}`)
  return `the replica answered ${status}: ${error}`
}

class Refused extends Error {}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxAnswerBytes) throw new Error('the answer is too large')
  }
  return Buffer.concat(chunks).toString('utf8')
}

/**
 * Asks a replica, and prints a notice on stderr after a second without an answer.
 *
 * @throws Error with the reason for a missing answer, or with the replica's refusal
 */
export async function explained<T>(
  socketPath: string,
  work: () => Promise<T>,
  waiting?: { readonly io: Pick<CliIo, 'stderr'>; readonly clock: Clock },
): Promise<T> {
  const cancel = waiting?.clock.after(noticeMs, () =>
    waiting.io.stderr.write(
      `kas: no answer from the kas on ${printable(socketPath)} yet: it may be starting or overloaded\n`,
    ),
  )
  try {
    return await work()
  } catch (cause) {
    if (cause instanceof Refused) throw cause
    throw new Error(explain(socketPath, cause), { cause })
  } finally {
    cancel?.()
  }
}

/** Reason for a missing answer. */
function explain(socketPath: string, cause: unknown): string {
  const { code, name, message } = cause as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ECONNREFUSED')
    return `no kas listens on ${socketPath}: does it run with ops.socket?`
  if (code === 'EACCES') return `${socketPath} is for the user that kas runs as`
  if (name === 'TimeoutError' || name === 'AbortError')
    return `the kas on ${socketPath} did not answer within ${timeoutMs} ms`
  if (code?.startsWith('HPE_')) return foreignText(socketPath, message)
  if (code === 'ECONNRESET' || code === 'EPIPE')
    return `the connection to the kas on ${socketPath} was lost (${code}): is it stopping, or another program?`
  return `${socketPath}: ${message}`
}

/**
 * Returns the id in `--agent`, or undefined.
 *
 * @throws UsageError
 */
export function agentOption(values: CliValues): string | undefined {
  const agent = textOption(values, 'agent')
  if (agent === undefined || /^[1-9]\d{0,18}$/.test(agent)) return agent
  throw new UsageError(`--agent ${agent}: allowed is an agent's id, a whole number above zero`)
}
