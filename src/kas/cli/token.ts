import { randomBytes } from 'node:crypto'
import { tokenHash } from '../../lib/token-hash.ts'
import { type CliIo, required, textOption, UsageError } from './command.ts'
import type { CliContext, Command } from './directory-command.ts'
import { agentNamed, projectNamed, userNamed } from './look-up.ts'

/** How tokens begin, so that a reader and a secret scanner know them. */
const tokenPrefixes = { agent: 'glagent-', user: 'kaspat-', job: 'kasci-' } as const

const tokenBytes = 36

/** A new token and what the directory keeps of it. */
export function newToken(
  kind: keyof typeof tokenPrefixes,
  expires?: string,
): { token: string; entry: { sha256: string; expires?: string } } {
  const token = tokenPrefixes[kind] + randomBytes(tokenBytes).toString('base64url')
  return { token, entry: { sha256: tokenHash(token), ...(expires === undefined ? {} : { expires }) } }
}

/** `kas token create` */
export const tokenCreate: Command = {
  usage:
    'token create --agent NAME [--project PATH] | --user NAME | --job ID --pipeline ID --user NAME --project PATH [--environment SLUG --tier TIER [--environment-name NAME]] [--expires DATE]',
  summary: 'adds a token of an agent, a user or a CI job and prints it',
  options: {
    agent: { type: 'string' },
    project: { type: 'string' },
    user: { type: 'string' },
    job: { type: 'string' },
    pipeline: { type: 'string' },
    environment: { type: 'string' },
    tier: { type: 'string' },
    'environment-name': { type: 'string' },
    expires: { type: 'string' },
  },
  positionals: 0,
  async run(context) {
    const { values, io } = context
    const isJob = textOption(values, 'job') !== undefined
    if (textOption(values, 'agent') !== undefined && (isJob || textOption(values, 'user') !== undefined)) {
      throw new UsageError('--agent stands alone: a token is of an agent, a user or a CI job')
    }
    const token = isJob ? addJobToken(context) : addOwnerToken(context)
    io.stderr.write('the token, shown this once:\n')
    return `${token}\n`
  },
}

function addOwnerToken({ values, directory }: CliContext): string {
  const expires = textOption(values, 'expires')
  const agent = textOption(values, 'agent')
  if (agent !== undefined) {
    const { token, entry } = newToken('agent', expires)
    directory.addToken('agents', Number(agentNamed(directory, agent, textOption(values, 'project')).id), entry)
    return token
  }
  const user = userNamed(directory, required(textOption(values, 'user'), '--agent, --user or --job'))
  const { token, entry } = newToken('user', expires)
  directory.addToken('users', user.id, entry)
  return token
}

function addJobToken({ values, directory }: CliContext): string {
  const user = userNamed(directory, required(textOption(values, 'user'), '--user'))
  const project = projectNamed(directory, required(textOption(values, 'project'), '--project'))
  const slug = textOption(values, 'environment')
  const name = textOption(values, 'environment-name')
  const tier = slug === undefined ? undefined : required(textOption(values, 'tier'), '--tier')
  const { token, entry } = newToken('job', textOption(values, 'expires'))
  directory.add('ci_tokens', {
    sha256: entry.sha256,
    user: user.id,
    project: Number(project.id),
    job: idOption(values, 'job'),
    pipeline: idOption(values, 'pipeline'),
    ...(slug === undefined ? {} : { environment: { slug, tier, ...(name === undefined ? {} : { name }) } }),
    ...(entry.expires === undefined ? {} : { expires: entry.expires }),
  })
  return token
}

function idOption(values: CliContext['values'], name: string): number {
  const text = required(textOption(values, name), `--${name}`)
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`--${name} ${text}: allowed is a whole number above zero`)
  return Number(text)
}

/** `kas token revoke` */
export const tokenRevoke: Command = {
  usage: 'token revoke SHA256 | -',
  summary: 'takes a token out: by the beginning of its sha256, 8 digits at least, or - to read the token from stdin',
  options: {},
  positionals: 1,
  async run({ positionals, directory, io }) {
    const given = required(positionals[0], 'the SHA256 of the token')
    const hash = given === '-' ? tokenHash((await readAll(io.stdin)).trim()) : given.toLowerCase()
    if (!/^[0-9a-f]{8,64}$/.test(hash)) {
      throw new UsageError(
        'allowed are 8 to 64 hex digits of the sha256; give the token itself by stdin: kas token revoke -',
      )
    }
    const removed = directory.removeTokens(hash)
    if (removed === 0) throw new UsageError('the directory has no such token')
    if (removed > 1) throw new UsageError(`${removed} tokens begin so: give more digits`)
    io.stderr.write('the token is revoked\n')
    return ''
  },
}

/** More than any token. */
const maxStdinBytes = 65_536

async function readAll(stdin: CliIo['stdin']): Promise<string> {
  let text = ''
  for await (const chunk of stdin) {
    text += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
    if (text.length > maxStdinBytes) throw new UsageError('stdin holds more than a token')
  }
  return text
}
