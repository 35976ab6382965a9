import { randomBytes } from 'node:crypto'
import type { Clock } from '../../lib/clock.ts'
import { instantText } from '../../lib/token-end.ts'
import { tokenHash } from '../../lib/token-hash.ts'
import { type CliIo, type CliValues, required, textOption, UsageError } from '../command/command.ts'
import type { CliContext, DirectoryCommand } from './directory-command.ts'
import type { DirectoryDocument, OwnedToken } from './directory-document.ts'
import { agentNamed, projectNamed, userNamed } from './named-entries.ts'
import { hashOf } from './short-hash.ts'

/** Prefixes by which a reader and a secret scanner recognise tokens. */
const tokenPrefixes = { agent: 'glagent-', user: 'kaspat-', job: 'kasci-' } as const

const tokenBytes = 36

export interface TokenOptions {
  readonly name?: string | undefined
  /** in the form of the directory file; absent: it never ends */
  readonly expires?: string | undefined
}

export interface NewToken {
  readonly token: string
  /** entry for the directory, without the token itself */
  readonly entry: { readonly name?: string; readonly sha256: string; readonly expires?: string }
}

/** Makes a token. */
export function newToken(kind: TokenKind, { name, expires }: TokenOptions = {}): NewToken {
  const token = tokenPrefixes[kind] + randomBytes(tokenBytes).toString('base64url')
  const named = name === undefined ? {} : { name }
  return { token, entry: { ...named, sha256: tokenHash(token), ...(expires === undefined ? {} : { expires }) } }
}

const dayMs = 86_400_000
/** bound of days: a hundred years */
const maxDays = 36_500

/**
 * Reads `--expires`: `90d`, `never`, or a date in the form of the directory file, which is checked there.
 *
 * @returns undefined: the option is absent; null: never
 * @throws UsageError
 */
export function expiresOption(values: CliValues, clock: Clock): string | null | undefined {
  const text = textOption(values, 'expires')
  if (text === undefined) return undefined
  if (text === 'never') return null
  if (/^\d+d$/.test(text)) return inDays('--expires', text, clock)
  if (Date.parse(text) <= clock.now()) throw new UsageError(`--expires ${text}: that has passed`)
  return text
}

/** Life of a new token without `--expires`. Agents run unattended, so their tokens have no end. days */
const defaultDays = { agent: undefined, user: 90, job: 1 } as const

export type TokenKind = keyof typeof tokenPrefixes

/** @returns the form of the directory file; undefined: never */
export function defaultEnd(kind: TokenKind, clock: Clock): string | undefined {
  const days = defaultDays[kind]
  return days === undefined ? undefined : instantText(clock.now() + days * dayMs)
}

/** Says when a token ends, for its creator. */
export function endText(expires: string | undefined): string {
  return expires === undefined ? 'it never ends' : `it ends at ${expires}`
}

/**
 * Reads a number of days.
 *
 * @param text - `90d`
 * @returns a time in the form of the directory file
 * @throws UsageError
 */
export function inDays(option: string, text: string, clock: Clock): string {
  const days = Number(/^(\d{1,9})d$/.exec(text)?.[1] ?? 0)
  if (days === 0 || days > maxDays) throw new UsageError(`${option} ${text}: allowed are 1d to ${maxDays}d`)
  return instantText(clock.now() + days * dayMs)
}

/**
 * Options of the command line for a new token.
 *
 * @throws UsageError
 */
export function tokenOptions({ values, clock }: Pick<CliContext, 'values' | 'clock'>, kind: TokenKind): TokenOptions {
  const given = expiresOption(values, clock)
  const expires = given === undefined ? defaultEnd(kind, clock) : (given ?? undefined)
  return { name: textOption(values, 'token-name'), expires }
}

/** `kas token create` */
export const tokenCreate: DirectoryCommand = {
  usage:
    'token create --agent NAME [--project PATH] | --user NAME | --job ID --pipeline ID --user NAME --project PATH [--environment SLUG --tier TIER [--environment-name NAME]] [--token-name NAME] [--expires 90d|DATE|never]',
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
    'token-name': { type: 'string' },
    expires: { type: 'string' },
  },
  positionals: 0,
  async run(context) {
    const { values } = context
    const isJob = textOption(values, 'job') !== undefined
    if (textOption(values, 'agent') !== undefined && (isJob || textOption(values, 'user') !== undefined)) {
      throw new UsageError('--agent stands alone: a token is of an agent, a user or a CI job')
    }
    const { token, entry } = isJob ? addJobToken(context) : addOwnerToken(context)
    return { note: `the token, shown this once; ${endText(entry.expires)}:`, output: `${token}\n` }
  },
}

function addOwnerToken(context: CliContext): NewToken {
  const { values, directory } = context
  const agent = textOption(values, 'agent')
  const owner =
    agent === undefined
      ? userNamed(directory, required(textOption(values, 'user'), '--agent, --user or --job'))
      : { id: Number(agentNamed(directory, agent, textOption(values, 'project')).id) }
  const list = agent === undefined ? 'users' : 'agents'
  const kind = agent === undefined ? 'user' : 'agent'
  const options = tokenOptions(context, kind)
  if (options.name !== undefined && directory.tokensOf(list, owner.id).some(({ name }) => name === options.name)) {
    throw new UsageError(`there is a token ${options.name} already: kas token rotate gives another in its place`)
  }
  const made = newToken(kind, options)
  directory.addToken(list, owner.id, made.entry)
  return made
}

function addJobToken(context: CliContext): NewToken {
  const { values, directory } = context
  if (textOption(values, 'token-name') !== undefined) {
    throw new UsageError('--token-name goes with --agent or --user: a token of a job is named by the job')
  }
  const user = userNamed(directory, required(textOption(values, 'user'), '--user'))
  const project = projectNamed(directory, required(textOption(values, 'project'), '--project'))
  const slug = textOption(values, 'environment')
  const name = textOption(values, 'environment-name')
  const tier = slug === undefined ? undefined : required(textOption(values, 'tier'), '--tier')
  const { token, entry } = newToken('job', tokenOptions(context, 'job'))
  directory.add('ci_tokens', {
    sha256: entry.sha256,
    user: user.id,
    project: Number(project.id),
    job: idOption(values, 'job'),
    pipeline: idOption(values, 'pipeline'),
    ...(slug === undefined ? {} : { environment: { slug, tier, ...(name === undefined ? {} : { name }) } }),
    ...(entry.expires === undefined ? {} : { expires: entry.expires }),
  })
  return { token, entry }
}

function idOption(values: CliContext['values'], name: string): number {
  const text = required(textOption(values, name), `--${name}`)
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`--${name} ${text}: allowed is a whole number above zero`)
  return Number(text)
}

/** `kas token revoke`, also named `kas token delete` */
const tokenRemoval = (verb: string): DirectoryCommand => ({
  usage: `token ${verb} SHA256 | -`,
  summary: 'takes a token out: by the beginning of its sha256, 8 digits at least, or - to read the token from stdin',
  options: {},
  positionals: 1,
  async run({ positionals, directory, io }) {
    const hash = await hashFrom(positionals[0], io.stdin)
    directory.removeToken(tokenBeginning(directory, hash))
    return { note: 'the token is revoked' }
  },
})

export const tokenRevoke = tokenRemoval('revoke')
export const tokenDelete = tokenRemoval('delete')

/** @throws UsageError */
export async function hashFrom(given: string | undefined, stdin: CliIo['stdin']): Promise<string> {
  const text = required(given, 'the SHA256 of the token')
  const hash = text === '-' ? tokenHash((await readAll(stdin)).trim()) : text.toLowerCase()
  if (/^[0-9a-f]{8,64}$/.test(hash)) return hash
  throw new UsageError(
    'allowed are 8 to 64 hex digits of the sha256; give the token itself by stdin: kas token revoke -',
  )
}

/** @throws UsageError if there is no such token, or several */
export function tokenBeginning(directory: DirectoryDocument, hash: string): OwnedToken {
  const found = directory.tokens().filter(({ token }) => hashOf(token).startsWith(hash))
  const [first] = found
  if (!first) throw new UsageError('the directory has no such token')
  if (found.length > 1) throw new UsageError(`${found.length} tokens begin so: give more digits`)
  return first
}

/** Bound above any token. */
const maxStdinBytes = 65_536

async function readAll(stdin: CliIo['stdin']): Promise<string> {
  let text = ''
  for await (const chunk of stdin) {
    text += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
    if (text.length > maxStdinBytes) throw new UsageError('stdin holds more than a token')
  }
  return text
}
