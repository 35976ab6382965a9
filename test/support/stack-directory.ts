import { createHash } from 'node:crypto'
import type { Impersonated } from '../../dev/control-plane/kubeconfig.ts'
import type { Identity } from './kubectl-side.ts'

/**
 * Tokens and users of a stack: one agent, whose configuration grants access to a user and to jobs of three projects.
 */

export const agentId = 42
export const agentToken = 'stack-agent-token'

/** The token after the last colon of kubectl's credentials. */
const tokens: Record<Identity, string> = {
  agent: 'stack-job-of-clusters',
  ci_job: 'stack-job-of-web',
  impersonate: 'stack-job-of-robot',
  user: 'stack-token-of-ada',
}

/** kubectl's credentials for each identity (doc/reference/tunnel-protocol.md 6.2). */
export const bearerOf = (identity: Identity): string =>
  `${identity === 'user' ? 'pat' : 'ci'}:${agentId}:${tokens[identity]}`

/** User in the cluster for each identity that is not the agent's own (doc/reference/tunnel-protocol.md 6.3). */
export const impersonated: Readonly<Record<Exclude<Identity, 'agent'>, Impersonated>> = {
  ci_job: {
    username: 'gitlab:ci_job:901',
    groups: [
      'gitlab:ci_job',
      'gitlab:group:8',
      'gitlab:group_env_tier:8:production',
      'gitlab:project:2',
      'gitlab:project_env:2:prod-eu',
      'gitlab:project_env_tier:2:production',
    ],
    extra: {
      'agent.gitlab.com/id': [String(agentId)],
      'agent.gitlab.com/config_project_id': ['1'],
      'agent.gitlab.com/project_id': ['2'],
      'agent.gitlab.com/ci_pipeline_id': ['91'],
      'agent.gitlab.com/ci_job_id': ['901'],
      'agent.gitlab.com/username': ['ada'],
      'agent.gitlab.com/environment_slug': ['prod-eu'],
      'agent.gitlab.com/environment_tier': ['production'],
    },
  },
  impersonate: {
    username: 'robot',
    groups: ['robots', 'system:authenticated'],
    uid: 'robot-uid',
    extra: { 'example.com/Reason': ['one', 'two'] },
  },
  user: {
    username: 'gitlab:user:ada',
    groups: [
      'gitlab:user',
      'gitlab:project_role:1:guest',
      'gitlab:project_role:1:planner',
      'gitlab:project_role:1:reporter',
      'gitlab:project_role:1:developer',
    ],
    extra: {
      'agent.gitlab.com/id': [String(agentId)],
      'agent.gitlab.com/username': ['ada'],
      'agent.gitlab.com/access_type': ['personal_access_token'],
      'agent.gitlab.com/config_project_id': ['1'],
    },
  },
}

/** Flags of agentk for the names that kas does not set itself. */
export const agentkFlags = [
  'user:robot',
  'group:robots',
  'group:system:authenticated',
  'uid:robot-uid',
  'extra:example.com/Reason',
].map((entry) => `--may-impersonate=${entry}`)

/** The agent's `.gitlab/agents/prod/config.yaml`, as JSON. */
export const agentConfiguration = {
  ci_access: {
    projects: [
      { id: 'platform/clusters', access_as: { agent: {} } },
      { id: 'apps/web', access_as: { ci_job: {} } },
      {
        id: 'apps/robot',
        access_as: {
          impersonate: {
            username: 'robot',
            groups: ['robots', 'system:authenticated'],
            uid: 'robot-uid',
            extra: [{ key: 'example.com/Reason', val: ['one', 'two'] }],
          },
        },
      },
    ],
  },
  user_access: { access_as: { user: {} }, projects: [{ id: 'platform/clusters' }] },
}

/** @param repository - path of the repository with the agent's configuration */
export const directoryFile = (repository: string) => ({
  projects: [
    { id: 1, path: 'platform/clusters', groups: [{ id: 7, path: 'platform' }], git: { url: repository } },
    { id: 2, path: 'apps/web', groups: [{ id: 8, path: 'apps' }] },
    { id: 3, path: 'apps/robot', groups: [{ id: 8, path: 'apps' }] },
  ],
  agents: [{ id: agentId, name: 'prod', project: 1, tokens: [{ sha256: sha256(agentToken) }] }],
  users: [
    { id: 5, username: 'ada', tokens: [{ sha256: sha256(tokens.user) }], roles: { projects: { 1: ['developer'] } } },
  ],
  ci_tokens: [
    { sha256: sha256(tokens.agent), user: 5, project: 1, job: 900, pipeline: 90 },
    {
      sha256: sha256(tokens.ci_job),
      user: 5,
      project: 2,
      job: 901,
      pipeline: 91,
      environment: { slug: 'prod-eu', tier: 'production' },
    },
    { sha256: sha256(tokens.impersonate), user: 5, project: 3, job: 902, pipeline: 92 },
  ],
})

const sha256 = (token: string) => createHash('sha256').update(token).digest('hex')
