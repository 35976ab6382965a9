import type { Clock } from '../../lib/clock.ts'
import { printable } from '../../lib/printable.ts'
import { endsSoon } from '../../lib/token-end.ts'
import { required, textOption } from '../command/command.ts'
import { type Data, outputHints, outputOptions } from '../command/output.ts'
import { textTable } from '../command/text-table.ts'
import type { DirectoryContents } from '../directory/file/directory-contents.ts'
import type { DirectoryTree } from '../directory/file/directory-schema.ts'
import type { CliContext, DirectoryCommand } from './directory-command.ts'
import type { DirectoryDocument, OwnedToken } from './directory-document.ts'
import type { Agent, AgentList, Token, TokenDescription, TokenList, User, UserList } from './directory-output-kinds.ts'
import { agentNamed, projectNamed, userNamed } from './named-entries.ts'
import { hashOf, shortHash } from './short-hash.ts'
import { hashFrom, tokenBeginning } from './token.ts'

/** Lists the content of the directory file, for people and for programs, without secrets. */

const project = { project: { type: 'string' } } as const

/** `kas agent list` */
export const agentList: DirectoryCommand = {
  usage: 'agent list [--project PATH] [-o FORMAT]',
  summary: 'prints the agents',
  options: { ...project, ...outputOptions },
  hints: outputHints,
  positionals: 0,
  async run({ values, directory, clock, print }) {
    const path = textOption(values, 'project')
    const only = path === undefined ? undefined : projectNamed(directory, path).id
    const tokens = new Map(directory.list('agents').map((each) => [each.id, each.tokens?.length ?? 0]))
    const agents = [...directory.contents.agents.values()]
      .filter(({ project: its }) => only === undefined || its.id === only)
      .map(({ id, name, project: its }) => ({
        id: Number(id),
        name,
        project: its.path,
        tokenCount: tokens.get(Number(id)) ?? 0,
      }))
    const ids = new Set(agents.map(({ id }) => id))
    const isShown = ({ kind, ownerId }: OfOwner) => kind === 'agent' && ownerId !== undefined && ids.has(ownerId)
    const table: Table = (_, hasHeaders) => {
      const rows = agents.map((each) => [each.id, each.name, each.project, each.tokenCount])
      const ending = endingLines(tokensOf(directory, isShown), clock)
      return `${tableOr('no agents', [['ID', 'AGENT', 'PROJECT', 'TOKENS'], ...rows], hasHeaders)}${ending}`
    }
    const names = agents.map(({ name }) => nameOf('agent', name))
    return await print<AgentList>({ kind: 'AgentList', fields: { items: agents }, names, table })
  },
}

/** `kas agent show` */
export const agentShow: DirectoryCommand = {
  usage: 'agent show NAME [--project PATH] [-o FORMAT]',
  summary: 'prints an agent, and the tokens that it has',
  options: { ...project, ...outputOptions },
  hints: outputHints,
  positionals: 1,
  async run({ values, positionals, directory, clock, print }) {
    const name = required(positionals[0], 'the NAME of the agent')
    const agent = agentNamed(directory, name, textOption(values, 'project'))
    const id = Number(agent.id)
    const reads = (directory.contents.reads.get(agent.id) ?? []).map(({ path }) => path)
    const tokens = tokensOf(directory, ({ kind, ownerId }) => kind === 'agent' && ownerId === id)
    const fields = { id, name, project: agent.project.path, reads, tokens: tokens.map(tokenFields) }
    const table: Table = (_, hasHeaders) => {
      const lines = [`agent ${name}, id ${id}, of ${fields.project}`, ...reads.map((path) => `reads ${path}`)]
      return `${linesOf(lines)}\n${tokenTable(tokens, clock, hasHeaders)}`
    }
    return await print<Agent>({ kind: 'Agent', fields, names: [nameOf('agent', name)], table })
  },
}

/** `kas user list` */
export const userList: DirectoryCommand = {
  usage: 'user list [-o FORMAT]',
  summary: 'prints the users, with their roles',
  options: outputOptions,
  hints: outputHints,
  positionals: 0,
  async run({ directory, clock, print }) {
    const { contents } = directory
    const users = directory.list('users').map(({ id, username, roles, tokens = [] }) => ({
      id,
      name: username,
      roles: roleTexts(contents, roles),
      tokenCount: tokens.length,
    }))
    const table: Table = (_, hasHeaders) => {
      const rows = users.map(({ id, name, roles, tokenCount }) => [id, name, tokenCount, roles.join(', ') || '-'])
      const ending = endingLines(
        tokensOf(directory, ({ kind }) => kind === 'user'),
        clock,
      )
      return `${tableOr('no users', [['ID', 'USER', 'TOKENS', 'ROLES'], ...rows], hasHeaders)}${ending}`
    }
    const names = users.map(({ name }) => nameOf('user', name))
    return await print<UserList>({ kind: 'UserList', fields: { items: users }, names, table })
  },
}

/** `kas user show` */
export const userShow: DirectoryCommand = {
  usage: 'user show NAME [-o FORMAT]',
  summary: 'prints a user, the roles and the tokens',
  options: outputOptions,
  hints: outputHints,
  positionals: 1,
  async run({ positionals, directory, clock, print }) {
    const user = userNamed(directory, required(positionals[0], 'the NAME of the user'))
    const { roles: given } = directory.list('users').find(({ id }) => id === user.id) ?? {}
    const roles = roleTexts(directory.contents, given)
    const tokens = tokensOf(directory, ({ kind, ownerId }) => kind === 'user' && ownerId === user.id)
    const fields = { id: user.id, name: user.username, roles, tokens: tokens.map(tokenFields) }
    const table: Table = (_, hasHeaders) => {
      const lines = [`user ${user.username}, id ${user.id}`, ...roles.map((role) => `role ${role}`)]
      return `${linesOf(lines)}\n${tokenTable(tokens, clock, hasHeaders)}`
    }
    return await print<User>({ kind: 'User', fields, names: [nameOf('user', user.username)], table })
  },
}

/** `kas token list` */
export const tokenList: DirectoryCommand = {
  usage: 'token list [--agent NAME [--project PATH] | --user NAME] [-o FORMAT]',
  summary: 'prints whose tokens there are, how they are called, and when they end',
  options: { agent: { type: 'string' }, ...project, user: { type: 'string' }, ...outputOptions },
  hints: outputHints,
  positionals: 0,
  async run(context) {
    const tokens = tokensOf(context.directory, ownerOption(context))
    const table: Table = (_, hasHeaders) => tokenTable(tokens, context.clock, hasHeaders)
    const names = tokens.map(({ token }) => nameOf('token', shortHash(token)))
    const fields = { items: tokens.map(tokenFields) }
    return await context.print<TokenList>({ kind: 'TokenList', fields, names, table })
  },
}

/** `kas token show` */
export const tokenShow: DirectoryCommand = {
  usage: 'token show SHA256 | - [-o FORMAT]',
  summary: 'prints whose token it is: by the beginning of its sha256, or - to read the token from stdin',
  options: outputOptions,
  hints: outputHints,
  positionals: 1,
  async run({ positionals, directory, io, clock, print }) {
    const token = tokenBeginning(directory, await hashFrom(positionals[0], io.stdin))
    const names = [nameOf('token', shortHash(token.token))]
    return await print<Token>({
      kind: 'Token',
      fields: tokenFields(token),
      names,
      table: (_, hasHeaders) => tokenTable([token], clock, hasHeaders),
    })
  },
}

function ownerOption({ values, directory }: CliContext): (token: OfOwner) => boolean {
  const agent = textOption(values, 'agent')
  const user = textOption(values, 'user')
  if (agent !== undefined) {
    const { id } = agentNamed(directory, agent, textOption(values, 'project'))
    return ({ kind, ownerId }) => kind === 'agent' && ownerId === Number(id)
  }
  if (user === undefined) return () => true
  const { id } = userNamed(directory, user)
  return ({ kind, ownerId }) => kind === 'user' && ownerId === id
}

type Table = Data['table']

type UserTree = DirectoryTree['users'][number]

type OfOwner = Pick<OwnedToken, 'kind'> & { readonly ownerId: number | undefined }

function tokensOf(directory: DirectoryDocument, wanted: (token: OfOwner) => boolean): OwnedToken[] {
  return directory
    .tokens()
    .filter((each) => wanted({ kind: each.kind, ownerId: each.kind === 'job' ? undefined : each.ownerId }))
}

function tokenFields(each: OwnedToken): TokenDescription {
  const { kind: ownerKind, owner, token } = each
  const { expires } = token
  const name = each.kind === 'job' ? undefined : each.token.name
  return { ownerKind, owner, name, sha256: hashOf(token), expires }
}

function tokenTable(tokens: readonly OwnedToken[], clock: Clock, hasHeaders?: boolean): string {
  const rows = tokens.map(tokenFields).map(({ ownerKind, owner, name = '-', sha256, expires }) => {
    const isOver = expires !== undefined && Date.parse(expires) <= clock.now()
    return [`${ownerKind} ${owner}`, name, shortHash({ sha256 }), `${expires ?? 'never'}${isOver ? ' (over)' : ''}`]
  })
  return `${tableOr('no tokens', [['OF', 'NAME', 'SHA256', 'EXPIRES'], ...rows], hasHeaders)}${endingLines(tokens, clock)}`
}

/**
 * Returns a line for each token that ends within 14 days, with the command for a new one. A job's token ends with its
 * job, so it has no line.
 */
function endingLines(tokens: readonly OwnedToken[], clock: Clock): string {
  const lines = tokens.flatMap(({ kind, owner, token }) => {
    const { expires } = token
    if (kind === 'job' || expires === undefined || !endsSoon(Date.parse(expires), clock.now())) return []
    const hash = shortHash(token)
    return [`note: the token ${hash} of ${kind} ${owner} ends at ${expires}: kas token rotate ${hash} --keep 7d`]
  })
  return linesOf(lines)
}

/** `platform/clusters=developer` */
function roleTexts({ projects, groupsByPath }: DirectoryContents, roles: UserTree['roles'] | undefined): string[] {
  const groups = new Map([...groupsByPath.values()].map(({ id, path }) => [String(id), path]))
  const ofKind = (
    of: Readonly<Record<string, readonly string[]>> | undefined,
    path: (id: string) => string | undefined,
  ) => Object.entries(of ?? {}).map(([id, names]) => `${path(id) ?? id}=${names.join('+')}`)
  return [
    ...ofKind(roles?.projects, (id) => projects.get(BigInt(id))?.path),
    ...ofKind(roles?.groups, (id) => groups.get(id)),
  ]
}

function tableOr(none: string, rows: readonly (readonly (string | number)[])[], hasHeaders?: boolean): string {
  return rows.length > 1 ? textTable(rows, hasHeaders) : `${none}\n`
}

function linesOf(lines: readonly string[]): string {
  return lines.map((line) => `${printable(line)}\n`).join('')
}

const nameOf = (kind: string, name: string) => printable(`${kind}/${name}`)
