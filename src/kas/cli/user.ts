import { required, UsageError } from '../command/command.ts'
import { type RoleName, roleNames } from '../directory/file/roles.ts'
import type { Command } from './directory-command.ts'
import type { DirectoryDocument } from './directory-document.ts'
import { newToken, tokenOptions } from './token.ts'

/** `kas user create` */
export const userCreate: Command = {
  usage: 'user create NAME [--role PATH=ROLE]... [--token-name NAME] [--expires 90d|DATE|never]',
  summary: `adds a user and prints a token; PATH is a project or group, ROLE one of ${roleNames.join(', ')}`,
  options: { role: { type: 'string', multiple: true }, 'token-name': { type: 'string' }, expires: { type: 'string' } },
  positionals: 1,
  async run(context) {
    const { values, positionals, directory, io } = context
    const username = required(positionals[0], 'the NAME of the user')
    if (directory.list('users').some((user) => user.username.toLowerCase() === username.toLowerCase())) {
      throw new UsageError(`there is a user ${username}; kas token create --user ${username} gives another token`)
    }
    const roles = rolesFrom((values.role ?? []) as readonly string[], directory)
    const { token, entry } = newToken('user', tokenOptions(context))
    const id = directory.nextId('users')
    directory.add('users', { id, username, tokens: [entry], ...(Object.keys(roles).length > 0 ? { roles } : {}) })
    io.stderr.write(`user ${username} has id ${id}; a token, shown this once:\n`)
    return `${token}\n`
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
      throw new UsageError(`--role ${text}: allowed is PATH=ROLE with ROLE one of ${roleNames.join(', ')}`)
    }
    const project = projectsByPath.get(path.toLowerCase())
    const group = groupsByPath.get(path.toLowerCase())
    const place = project ?? group
    if (!place) throw new UsageError(`--role ${text}: no project or group ${path} in the directory`)
    const kind = project ? 'projects' : 'groups'
    roles[kind] = { ...roles[kind], [String(place.id)]: [role as RoleName] }
  }
  return roles
}
