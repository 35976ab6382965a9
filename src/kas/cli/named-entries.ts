import type { Agent } from '../agent.ts'
import { UsageError } from '../command/command.ts'
import type { Project } from '../directory/file/directory-contents.ts'
import type { DirectoryDocument } from './directory-document.ts'

/** @throws UsageError if the directory has no such project */
export function projectNamed(directory: DirectoryDocument, path: string): Project {
  const project = directory.contents.projectsByPath.get(path.toLowerCase())
  if (project) return project
  throw new UsageError(`no project ${path} in the directory; with --git URL kas agent create adds it`)
}

/** @throws UsageError if the directory has no such agent, or several in different projects */
export function agentNamed(directory: DirectoryDocument, name: string, projectPath: string | undefined): Agent {
  const agents = [...directory.contents.agents.values()].filter(
    (agent) => agent.name === name && (!projectPath || agent.project.path.toLowerCase() === projectPath.toLowerCase()),
  )
  const [agent, ...others] = agents
  if (!agent)
    throw new UsageError(`no agent ${name}${projectPath ? ` of project ${projectPath}` : ''} in the directory`)
  if (others.length === 0) return agent
  const paths = agents.map((one) => one.project.path).join(', ')
  throw new UsageError(`several agents are called ${name}: say which with --project (${paths})`)
}

/** @throws UsageError if the directory has no such user */
export function userNamed(directory: DirectoryDocument, username: string): { id: number; username: string } {
  const user = directory.list('users').find((one) => one.username.toLowerCase() === username.toLowerCase())
  if (user) return user
  throw new UsageError(`no user ${username} in the directory; kas user create ${username} adds it`)
}
