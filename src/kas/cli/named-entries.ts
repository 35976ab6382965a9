import { didYouMean } from '../../lib/nearest-name.ts'
import type { Agent } from '../agent.ts'
import { UsageError } from '../command/command.ts'
import type { Project } from '../directory/file/directory-contents.ts'
import type { DirectoryDocument } from './directory-document.ts'

/** @throws UsageError if the directory has no such project */
export function projectNamed({ contents }: DirectoryDocument, path: string): Project {
  const project = contents.projectsByPath.get(path.toLowerCase())
  if (project) return project
  throw new UsageError(`no project ${path} in the directory${didYouMean(path, projectPaths(contents))}`)
}

export function projectPaths({ projects }: DirectoryDocument['contents']): string[] {
  return [...projects.values()].map((project) => project.path)
}

/** @throws UsageError if the directory has no such agent, or several in different projects */
export function agentNamed(directory: DirectoryDocument, name: string, projectPath: string | undefined): Agent {
  const project = projectPath === undefined ? undefined : projectNamed(directory, projectPath)
  const all = [...directory.contents.agents.values()]
  const possible = all.filter((agent) => project === undefined || agent.project.id === project.id)
  const agents = possible.filter((agent) => agent.name === name)
  const [agent, ...others] = agents
  if (!agent) {
    const which = `no agent ${name}${project ? ` of project ${project.path}` : ''} in the directory`
    const near = didYouMean(
      name,
      possible.map((one) => one.name),
    )
    throw new UsageError(`${which}${near || elsewhere(all.filter((one) => one.name === name))}`)
  }
  if (others.length === 0) return agent
  const paths = agents.map((one) => one.project.path).join(', ')
  throw new UsageError(`several agents are called ${name}: say which with --project (${paths})`)
}

function elsewhere(agents: readonly Agent[]): string {
  const paths = agents.map(({ project }) => project.path).join(', ')
  return paths === '' ? '' : `. An agent of that name is of: ${paths}`
}

/** @throws UsageError if the directory has no such user */
export function userNamed(directory: DirectoryDocument, username: string): { id: number; username: string } {
  const users = directory.list('users')
  const user = users.find((one) => one.username.toLowerCase() === username.toLowerCase())
  if (user) return user
  const near = didYouMean(
    username,
    users.map((one) => one.username),
  )
  throw new UsageError(`no user ${username} in the directory${near || `; kas user create ${username} adds it`}`)
}
