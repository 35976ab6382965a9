import { didYouMean } from '../../lib/nearest-name.ts'
import { required, textOption, UsageError } from '../command/command.ts'
import { type RoleName, roleNames } from '../directory/file/roles.ts'
import { problemOfRepositoryUrl } from '../repositories/repository-url.ts'
import type { CliContext, DirectoryCommand } from './directory-command.ts'
import type { DirectoryDocument } from './directory-document.ts'
import { projectPaths } from './named-entries.ts'
import { endText, newToken, tokenOptions } from './token.ts'

/** `kas agent create` */
export const agentCreate: DirectoryCommand = {
  usage:
    'agent create NAME --project PATH [--git URL [--git-credentials FILE] [--branch NAME]] [--token-name NAME] [--expires 90d|DATE|never]',
  summary: 'adds an agent and prints its token; --git adds the project too',
  options: {
    project: { type: 'string' },
    git: { type: 'string' },
    'git-credentials': { type: 'string' },
    branch: { type: 'string' },
    'token-name': { type: 'string' },
    expires: { type: 'string' },
  },
  positionals: 1,
  async run(context) {
    const { values, positionals, directory } = context
    const name = required(positionals[0], 'the NAME of the agent')
    const path = required(textOption(values, 'project'), '--project')
    const projectId = projectIdFor(path, values, directory)
    if (directory.list('agents').some((agent) => agent.name === name && agent.project === projectId)) {
      throw new UsageError(
        `project ${path} has an agent ${name}; kas token create --agent ${name} gives it another token`,
      )
    }
    const { token, entry } = newToken('agent', tokenOptions(context, 'agent'))
    const id = directory.nextId('agents')
    directory.add('agents', { id, name, project: projectId, tokens: [entry] })
    const end = endText(entry.expires)
    return { note: `agent ${name} of ${path} has id ${id}; its token, shown this once; ${end}:`, output: `${token}\n` }
  },
}

function projectIdFor(path: string, values: CliContext['values'], directory: DirectoryDocument): number {
  const url = textOption(values, 'git')
  const known = directory.contents.projectsByPath.get(path.toLowerCase())
  if (known) {
    if (url !== undefined) throw new UsageError(`project ${path} is in the directory already: leave out --git`)
    return Number(known.id)
  }
  if (url === undefined) {
    const near = didYouMean(path, projectPaths(directory.contents))
    throw new UsageError(`no project ${path} in the directory; with --git URL kas agent create adds it${near}`)
  }
  const problem = problemOfRepositoryUrl(url)
  if (problem) throw new UsageError(`--git: allowed is ${problem}`)
  const id = directory.nextId('projects')
  const credentials = textOption(values, 'git-credentials')
  const branch = textOption(values, 'branch')
  const git = {
    url,
    ...(credentials === undefined ? {} : { credentials_file: credentials }),
    ...(branch === undefined ? {} : { default_branch: branch }),
  }
  directory.add('projects', { id, path, groups: groupsOf(path, directory), git })
  return id
}

/** Groups of a project's path, with their present ids, or new ones. */
function groupsOf(path: string, directory: DirectoryDocument): { id: number; path: string }[] {
  const { groupsByPath } = directory.contents
  let lastId = Math.max(0, ...[...groupsByPath.values()].map((group) => Number(group.id)))
  const segments = path.split('/').slice(0, -1)
  return segments.map((_, i) => {
    const groupPath = segments.slice(0, i + 1).join('/')
    const known = groupsByPath.get(groupPath.toLowerCase())
    return known ? { id: Number(known.id), path: known.path } : { id: ++lastId, path: groupPath }
  })
}

/** `kas user create` */
export const userCreate: DirectoryCommand = {
  usage: 'user create NAME [--role PATH=ROLE]... [--token-name NAME] [--expires 90d|DATE|never]',
  summary: `adds a user and prints a token; PATH is a project or group, ROLE one of ${roleNames.join(', ')}`,
  options: { role: { type: 'string', multiple: true }, 'token-name': { type: 'string' }, expires: { type: 'string' } },
  positionals: 1,
  async run(context) {
    const { values, positionals, directory } = context
    const username = required(positionals[0], 'the NAME of the user')
    if (directory.list('users').some((user) => user.username.toLowerCase() === username.toLowerCase())) {
      throw new UsageError(`there is a user ${username}; kas token create --user ${username} gives another token`)
    }
    const roles = rolesFrom((values.role ?? []) as readonly string[], directory)
    const { token, entry } = newToken('user', tokenOptions(context, 'user'))
    const id = directory.nextId('users')
    directory.add('users', { id, username, tokens: [entry], ...(Object.keys(roles).length > 0 ? { roles } : {}) })
    const end = endText(entry.expires)
    return { note: `user ${username} has id ${id}; a token, shown this once; ${end}:`, output: `${token}\n` }
  },
}

interface Roles {
  projects?: Record<string, RoleName[]>
  groups?: Record<string, RoleName[]>
}

function rolesFrom(given: readonly string[], directory: DirectoryDocument): Roles {
  const { projectsByPath, groupsByPath } = directory.contents
  const roles: Roles = {}
  for (const text of given) {
    const [, path = '', role = ''] = /^(.*)=(.*)$/.exec(text) ?? []
    if (!roleNames.includes(role as RoleName)) {
      const near = didYouMean(role, roleNames)
      throw new UsageError(`--role ${text}: allowed is PATH=ROLE with ROLE one of ${roleNames.join(', ')}${near}`)
    }
    const project = projectsByPath.get(path.toLowerCase())
    const group = groupsByPath.get(path.toLowerCase())
    const place = project ?? group
    if (!place) {
      const paths = [...projectPaths(directory.contents), ...[...groupsByPath.values()].map((each) => each.path)]
      throw new UsageError(`--role ${text}: no project or group ${path} in the directory${didYouMean(path, paths)}`)
    }
    const kind = project ? 'projects' : 'groups'
    roles[kind] = { ...roles[kind], [String(place.id)]: [role as RoleName] }
  }
  return roles
}
