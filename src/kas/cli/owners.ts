import { didYouMean } from '../../lib/nearest-name.ts'
import { required, textOption, UsageError } from '../command/command.ts'
import type { CliContext, DirectoryCommand, DirectoryResult } from './directory-command.ts'
import type { OwnedToken, TokenTree } from './directory-document.ts'
import { agentNamed, userNamed } from './named-entries.ts'
import { shortHash } from './short-hash.ts'
import { defaultEnd, endText, expiresOption, hashFrom, inDays, newToken, tokenBeginning } from './token.ts'

/** Owner of tokens: commands delete owners, and rotate their tokens. */

interface Owner {
  readonly kind: 'agent' | 'user'
  readonly list: 'agents' | 'users'
  readonly id: number
  readonly name: string
}

type OwnerOf = (context: CliContext) => Owner

const agentOf: OwnerOf = ({ values, positionals, directory }) => {
  const name = required(positionals[0], 'the NAME of the agent')
  const { id } = agentNamed(directory, name, textOption(values, 'project'))
  return { kind: 'agent', list: 'agents', id: Number(id), name }
}

const userOf: OwnerOf = ({ positionals, directory }) => {
  const { id, username } = userNamed(directory, required(positionals[0], 'the NAME of the user'))
  return { kind: 'user', list: 'users', id, name: username }
}

const ofProject = { project: { type: 'string' } } as const

/** `kas agent delete` */
export const agentDelete: DirectoryCommand = {
  usage: 'agent delete NAME [--project PATH]',
  summary: 'takes an agent out, with its tokens: its connections end, and its id is not given again',
  options: ofProject,
  positionals: 1,
  run: async (context) => deleteOwner(context, agentOf(context)),
}

/** `kas user delete` */
export const userDelete: DirectoryCommand = {
  usage: 'user delete NAME',
  summary: 'takes a user out, with the tokens of the user and of the jobs that the user has started',
  options: {},
  positionals: 1,
  run: async (context) => deleteOwner(context, userOf(context)),
}

function deleteOwner({ directory }: CliContext, { kind, list, id, name }: Owner): DirectoryResult {
  const went = [`tokens: ${directory.tokensOf(list, id).length}`, ...directory.removeOwner(list, id)]
  return { note: `${kind} ${name} with id ${id} is taken out (${went.join(', ')})` }
}

const rotation = { expires: { type: 'string' }, keep: { type: 'string' } } as const
const rotationUsage = '[--expires 90d|DATE|never] [--keep 7d]'
const rotationSummary = 'prints a new token; the old one is void at once, or after --keep'

/** `kas agent rotate` */
export const agentRotate: DirectoryCommand = {
  usage: `agent rotate NAME [--project PATH] [--token-name NAME] ${rotationUsage}`,
  summary: `${rotationSummary} (agentk needs the new one by then)`,
  options: { ...ofProject, 'token-name': { type: 'string' }, ...rotation },
  positionals: 1,
  run: async (context) => rotateToken(context, tokenOf(context, agentOf(context))),
}

/** `kas user rotate` */
export const userRotate: DirectoryCommand = {
  usage: `user rotate NAME [--token-name NAME] ${rotationUsage}`,
  summary: rotationSummary,
  options: { 'token-name': { type: 'string' }, ...rotation },
  positionals: 1,
  run: async (context) => rotateToken(context, tokenOf(context, userOf(context))),
}

/** `kas token rotate` */
export const tokenRotate: DirectoryCommand = {
  usage: `token rotate SHA256 | - ${rotationUsage}`,
  summary: rotationSummary,
  options: rotation,
  positionals: 1,
  async run(context) {
    const { positionals, directory, io } = context
    return rotateToken(context, tokenBeginning(directory, await hashFrom(positionals[0], io.stdin)))
  },
}

/** @throws UsageError unless the owner has one token, or one of that name */
function tokenOf({ values, directory }: CliContext, { kind, list, id, name }: Owner): OwnedToken {
  const wanted = textOption(values, 'token-name')
  const all = directory.tokensOf(list, id)
  const tokens = all.filter((token) => wanted === undefined || token.name === wanted)
  const [token, ...others] = tokens
  if (!token) {
    const which = wanted === undefined ? 'no token' : `no token ${wanted}`
    const names = all.flatMap((token) => token.name ?? [])
    const near = wanted === undefined ? '' : didYouMean(wanted, names)
    throw new UsageError(`${kind} ${name} has ${which}; kas token create --${kind} ${name} gives one${near}`)
  }
  if (others.length === 0) return { kind, list, ownerId: id, owner: name, token }
  const shown = tokens.map((each) => `${each.name ?? 'without a name'} (${shortHash(each)})`).join(', ')
  throw new UsageError(
    `${kind} ${name} has ${tokens.length} tokens: say which with --token-name, or by kas token rotate SHA256: ${shown}`,
  )
}

function rotateToken({ values, directory, clock }: CliContext, old: OwnedToken): DirectoryResult {
  if (old.kind === 'job') {
    throw new UsageError('a token of a CI job is not rotated: kas token create --job gives the next job its own')
  }
  const { kind, list, ownerId, owner, token: before } = old
  const given = expiresOption(values, clock)
  const hasEnded = before.expires !== undefined && Date.parse(before.expires) <= clock.now()
  // a token with an end gets a new one; one without was made so on purpose
  const renewed = before.expires === undefined ? undefined : defaultEnd(kind, clock)
  if (given === undefined && hasEnded && renewed === undefined)
    throw new UsageError(`the token ended at ${before.expires}: say --expires`)
  const expires = given === undefined ? (renewed ?? before.expires) : (given ?? undefined)
  const { token, entry } = newToken(kind, { name: before.name, expires })
  const keep = textOption(values, 'keep')
  const isSame = (each: TokenTree) => each.sha256 === before.sha256
  if (keep === undefined) directory.dropTokens(list, ownerId, isSame)
  else if (!hasEnded)
    directory.changeToken(list, ownerId, before, { expires: sooner(inDays('--keep', keep, clock), before) })
  directory.addToken(list, ownerId, entry)
  const end = keep === undefined ? 'the old one is void' : `the old one is void in ${keep}`
  return {
    note: `a new token of ${kind} ${owner}, shown this once; ${endText(expires)}; ${end}:`,
    output: `${token}\n`,
  }
}

function sooner(end: string, { expires }: TokenTree): string {
  return expires !== undefined && Date.parse(expires) < Date.parse(end) ? expires : end
}
