import { required, textOption, UsageError } from '../command/command.ts'
import { problemOfRepositoryUrl } from '../repositories/repository-url.ts'
import type { CliContext, Command } from './directory-command.ts'
import type { DirectoryDocument } from './directory-document.ts'
import { projectNamed } from './named-entries.ts'
import { newToken, tokenOptions } from './token.ts'

/** `kas agent create` */
export const agentCreate: Command = {
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
    const { values, positionals, directory, io } = context
    const name = required(positionals[0], 'the NAME of the agent')
    const path = required(textOption(values, 'project'), '--project')
    const projectId = projectIdFor(path, values, directory)
    if (directory.list('agents').some((agent) => agent.name === name && agent.project === projectId)) {
      throw new UsageError(
        `project ${path} has an agent ${name}; kas token create --agent ${name} gives it another token`,
      )
    }
    const { token, entry } = newToken('agent', tokenOptions(context))
    const id = directory.nextId('agents')
    directory.add('agents', { id, name, project: projectId, tokens: [entry] })
    io.stderr.write(`agent ${name} of ${path} has id ${id}; its token, shown this once:\n`)
    return `${token}\n`
  },
}

function projectIdFor(path: string, values: CliContext['values'], directory: DirectoryDocument): number {
  const url = textOption(values, 'git')
  const known = directory.contents.projectsByPath.get(path.toLowerCase())
  if (known) {
    if (url !== undefined) throw new UsageError(`project ${path} is in the directory already: leave out --git`)
    return Number(known.id)
  }
  if (url === undefined) return Number(projectNamed(directory, path).id)
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

/** The groups in a project's path, with the ids that they have, or new ones. */
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
