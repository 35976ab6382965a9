/** Data of a GitLab double. A test may change it at any time. */

export const roles = ['guest', 'planner', 'reporter', 'developer', 'maintainer', 'owner'] as const
export type Role = (typeof roles)[number]

export interface GitlabProject {
  readonly id: number
  readonly path: string
  /** its own group and those above it, nearest first */
  readonly groups: readonly { readonly id: number; readonly path: string }[]
  readonly isPublic?: boolean
}

export interface GitlabAgent {
  readonly id: number
  readonly name: string
  readonly project: number
  tokens: string[]
  /** text of its config.yaml */
  configuration: string
}

export interface GitlabUser {
  readonly id: number
  readonly username: string
  personalAccessTokens: string[]
  sessions: { cookie: string; csrfToken: string }[]
  /** roles by id of the project */
  readonly roles: Readonly<Record<number, Role>>
}

export interface GitlabJob {
  token: string
  readonly id: number
  readonly pipeline: number
  readonly project: number
  readonly user: number
  readonly environment?: { readonly name: string; readonly slug: string; readonly tier: string }
  isFinished?: boolean
}

/** Address of the repositories of all projects; that of project 1 is `@hashed/1.git`. */
export interface GitlabGitaly {
  readonly address: string
  readonly token: string
  readonly features?: Readonly<Record<string, string>>
}

export interface GitlabWorld {
  /** absent: a Gitaly that does not exist */
  gitaly?: GitlabGitaly
  projects: GitlabProject[]
  agents: GitlabAgent[]
  users: GitlabUser[]
  jobs: GitlabJob[]
}

/** The world of the suite of directories: see directory-suite.ts. */
export function suiteWorld(configuration = ''): GitlabWorld {
  return {
    projects: [
      { id: 1, path: 'platform/clusters', groups: [{ id: 7, path: 'platform' }] },
      { id: 2, path: 'apps/web', groups: [{ id: 8, path: 'apps' }] },
      { id: 3, path: 'other/thing', groups: [{ id: 9, path: 'other' }], isPublic: true },
    ],
    agents: [{ id: 42, name: 'prod', project: 1, tokens: ['glagent-prod'], configuration }],
    users: [
      {
        id: 5,
        username: 'ada',
        personalAccessTokens: ['glpat-ada'],
        sessions: [{ cookie: 'cookie-of-ada', csrfToken: 'csrf-of-ada' }],
        roles: { 1: 'maintainer' },
      },
      { id: 6, username: 'bob', personalAccessTokens: ['glpat-bob'], sessions: [], roles: { 1: 'reporter' } },
    ],
    jobs: [
      { token: 'job-clusters', id: 900, pipeline: 90, project: 1, user: 5 },
      {
        token: 'job-web',
        id: 901,
        pipeline: 91,
        project: 2,
        user: 5,
        environment: { name: 'prod-eu', slug: 'prod-eu', tier: 'production' },
      },
      { token: 'job-other', id: 902, pipeline: 92, project: 3, user: 5 },
    ],
  }
}

/** Makes an agent for each id, whose token is `agent-<id>`. */
export function crowd(count: number): GitlabWorld {
  const agents = Array.from({ length: count }, (_, i) => ({
    id: i + 1,
    name: `agent-${i + 1}`,
    project: 1,
    tokens: [`agent-${i + 1}`],
    configuration: '',
  }))
  return { ...suiteWorld(), agents }
}
