/** Differences between the versions of GitLab that kas supports (doc/reference/gitlab-contract.md 2.1, 2.2, 9.1). */

export interface GitlabVersionTraits {
  /** existing paths below /api/v4 */
  readonly agentInfoPaths: readonly string[]
  /** headers for an agent's token, of which the first one that is sent counts; `authorization` has it as a bearer */
  readonly tokenHeaders: readonly string[]
  /** POST agent_events exists: from 16.8 */
  readonly agentEvents: boolean
  /** allowed_agents contains the user's roles */
  readonly rolesInProject: boolean
  /** project_info exists: before 2026 */
  readonly projectInfo: boolean
  /** repository_info of AutoFlow exists */
  readonly repositoryInfo: boolean
}

const newPath = '/internal/agents/agentk/agent_info'
const oldPath = '/internal/kubernetes/agent_info'
const agentk = 'gitlab-agentk-api-request'
const agent = 'gitlab-agent-api-request'

/** Each version is as strict as its release may be: it reads no header that it need not know. */
export const gitlabVersions = {
  '16.5': {
    agentInfoPaths: [oldPath],
    tokenHeaders: ['authorization'],
    agentEvents: false,
    rolesInProject: false,
    projectInfo: true,
    repositoryInfo: false,
  },
  '17.1': {
    agentInfoPaths: [oldPath],
    tokenHeaders: ['authorization', agentk],
    agentEvents: true,
    rolesInProject: false,
    projectInfo: true,
    repositoryInfo: false,
  },
  '17.9': {
    agentInfoPaths: [oldPath],
    tokenHeaders: [agentk],
    agentEvents: true,
    rolesInProject: true,
    projectInfo: true,
    repositoryInfo: false,
  },
  '18.2': {
    agentInfoPaths: [newPath, oldPath],
    tokenHeaders: [agent],
    agentEvents: true,
    rolesInProject: true,
    projectInfo: true,
    repositoryInfo: true,
  },
  '18.9': {
    agentInfoPaths: [newPath],
    tokenHeaders: [agent],
    agentEvents: true,
    rolesInProject: true,
    projectInfo: false,
    repositoryInfo: true,
  },
} as const satisfies Record<string, GitlabVersionTraits>

export type GitlabVersion = keyof typeof gitlabVersions
