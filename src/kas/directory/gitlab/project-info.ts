import * as z from 'zod'
import { KasError } from '../../../lib/errors.ts'
import type { Agent } from '../../agent.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'
import type { GitlabClient } from './gitlab-client.ts'
import { isRefusal } from './gitlab-reach.ts'
import { id, list, name, text, textMap } from './read-answer.ts'

/** GitLab's answer about a repository: its project and location. */
export const repositorySchema = {
  project_id: id,
  gitaly_info: z.object({
    address: text,
    token: text.nullish(),
    features: textMap.nullish(),
  }),
  gitaly_repository: z.object({
    storage_name: text,
    relative_path: text,
    gl_repository: text.nullish(),
    gl_project_path: name,
    git_object_directory: text.nullish(),
    git_alternate_object_directories: list(text).nullish(),
  }),
  default_branch: text.nullish(),
}

const schema = z.object(repositorySchema)

export interface ProjectInfo {
  readonly project: Agent['project']
  readonly coordinates: GitalyCoordinates
}

export function projectInfo(answer: z.output<typeof schema>): ProjectInfo {
  const { gitaly_info, gitaly_repository } = answer
  return {
    project: { id: answer.project_id, path: gitaly_repository.gl_project_path },
    coordinates: {
      address: gitaly_info.address,
      token: gitaly_info.token ?? '',
      features: gitaly_info.features ?? {},
      repository: {
        storageName: gitaly_repository.storage_name,
        relativePath: gitaly_repository.relative_path,
        glRepository: gitaly_repository.gl_repository ?? '',
        glProjectPath: gitaly_repository.gl_project_path,
        gitObjectDirectory: gitaly_repository.git_object_directory ?? '',
        gitAlternateObjectDirectories: gitaly_repository.git_alternate_object_directories ?? [],
      },
      defaultBranch: answer.default_branch ?? '',
    },
  }
}

const accessPath = '/internal/kubernetes/verify_project_access'
const grantedPath = '/internal/kubernetes/project_info'
/** path of a GitLab of 2026, which lacks the other one; it does not check the agent's permission */
const anyPath = '/internal/autoflow/repository_info'

export interface ProjectQuestion {
  /** full path, or number */
  readonly project: string
  /** headers that authenticate the agent to GitLab */
  readonly headers: Readonly<Record<string, string>>
  /** the agent, as one of the sources that take turns */
  readonly source: string
}

type Client = Pick<GitlabClient, 'ask' | 'send'>

/**
 * Asks for permission to read a project.
 *
 * @throws KasError GITLAB_STATUS with 401, 403 or 404: the agent may not; else as `GitlabClient.send`
 */
export async function askAccess(client: Client, { project, headers, source }: ProjectQuestion, signal: AbortSignal) {
  const turn = { queue: 'projects', source } as const
  const call = { method: 'GET', path: accessPath, query: { id: project }, headers, repeatable: false } as const
  await client.send({ ...call, ...turn }, signal)
}

/**
 * Returns a project that the agent may read. If GitLab no longer answers that question, only public projects are found
 * (doc/reference/tunnel-protocol.md 5.3).
 *
 * @throws KasError GITLAB_STATUS with 401, 403 or 404: there is none; else as `GitlabClient.ask`
 */
export async function askProject(client: Client, question: ProjectQuestion, signal: AbortSignal): Promise<ProjectInfo> {
  const { project, headers, source } = question
  const call = { method: 'GET', query: { id: project }, queue: 'projects', source, repeatable: false } as const
  try {
    return projectInfo(await client.ask({ ...call, path: grantedPath, headers }, schema, signal))
  } catch (error) {
    const { spec } = KasError.from(error)
    if (!isRefusal(KasError.from(error)) || spec.code !== 'GITLAB_STATUS' || spec.status !== 404) throw error
  }
  await askAccess(client, question, signal)
  return projectInfo(await client.ask({ ...call, path: anyPath }, schema, signal))
}
