import { type ParseArgsConfig, parseArgs } from 'node:util'
import { http } from '../../lib/http.ts'
import { type CliIo, type CliValues, textOption, UsageError } from './command.ts'

/** A subcommand that asks a running replica on its Unix socket. */
export interface StatusCommand {
  /** after `kas`, with what it takes */
  readonly usage: string
  readonly summary: string
  readonly options: NonNullable<ParseArgsConfig['options']>
  /** what it asks. @throws UsageError */
  path(values: CliValues): string
  /** the answer, for people */
  print(answer: unknown): string
}

export const socketOptions = {
  socket: { type: 'string' },
  'configuration-file': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

export const statusUsage = `  --socket FILE                the replica's Unix socket (default: KAS_OPS_SOCKET of the environment)
  --configuration-file FILE    whose ops.socket is it
  --json                       print the answer as it is
`
/** ms */
const timeoutMs = 10_000
/** More than any answer: 200 agents, or one with its 1,000 connections of 256 methods. */
const maxAnswerBytes = 256 * 1024 * 1024

/** @returns what goes to stdout; @throws UsageError, Error */
export async function runStatusCommand(command: StatusCommand, args: readonly string[], io: CliIo): Promise<string> {
  const values = parse(command, args)
  if (values.help) return `usage: kas ${command.usage}\n  ${command.summary}\n${statusUsage}`
  const path = command.path(values)
  const text = await ask(await socketOf(values, io.env), path)
  return values.json ? text : command.print(JSON.parse(text))
}

function parse(command: StatusCommand, args: readonly string[]): CliValues {
  try {
    return parseArgs({ args: [...args], options: { ...command.options, ...socketOptions } }).values
  } catch (error) {
    throw new UsageError((error as Error).message) // node:util says which option
  }
}

/** Which replica's. @throws UsageError */
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

async function ask(socketPath: string, path: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const question = http.request({ socketPath, path, signal: AbortSignal.timeout(timeoutMs) }, (response) => {
    const chunks: Buffer[] = []
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxAnswerBytes) response.destroy(new Error('the answer is too large'))
    })
    response.once('error', reject)
    const status = response.statusCode ?? 0
    response.once('end', () => resolve({ status, text: Buffer.concat(chunks).toString('utf8') }))
  })
  question.once('error', reject)
  question.end()
  const { status, text } = await promise.catch((cause: unknown) => {
    throw new Error(explain(socketPath, cause), { cause })
  })
  if (status === 200) return text
  throw new Error(`the replica answered ${status}: ${(JSON.parse(text) as { error?: string }).error ?? ''}`)
}

/** Why nobody was reached there. */
export function explain(socketPath: string, cause: unknown): string {
  const { code, name, message } = cause as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ECONNREFUSED')
    return `no kas listens on ${socketPath}: does it run with ops.socket?`
  if (code === 'EACCES') return `${socketPath} is for the user that kas runs as`
  if (name === 'TimeoutError' || name === 'AbortError')
    return `the kas on ${socketPath} did not answer within ${timeoutMs} ms`
  return `${socketPath}: ${message}`
}

/** `--agent`: an id, or undefined. @throws UsageError */
export function agentOption(values: CliValues): string | undefined {
  const agent = textOption(values, 'agent')
  if (agent === undefined || /^[1-9]\d{0,18}$/.test(agent)) return agent
  throw new UsageError(`--agent ${agent}: allowed is an agent's id, a whole number above zero`)
}
