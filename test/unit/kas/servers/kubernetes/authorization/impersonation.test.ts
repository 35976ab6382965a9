import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import type { JobGrant, UserGrant } from '../../../../../../src/kas/directory/directory.ts'
import {
  jobImpersonation,
  userImpersonation,
} from '../../../../../../src/kas/servers/kubernetes/authorization/impersonation.ts'

const agentId = 42n as AgentId

const job: JobGrant = {
  accessAs: { as: 'ci_job' },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 3n, groups: [{ id: 7n }, { id: 8n }] },
}

const user: UserGrant = {
  accessAs: {
    as: 'user',
    projects: [
      { id: 1n, roles: ['developer', 'maintainer'] },
      { id: 2n, roles: ['developer'] },
    ],
    groups: [{ id: 7n, roles: ['guest', 'owner'] }],
  },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
}

const pairs = (extra: readonly { key: string; val: readonly string[] }[] = []) => extra.map((e) => [e.key, ...e.val])

// wire: as.agent
t.test('as the agent: no impersonation', async (t) => {
  t.equal(jobImpersonation(agentId, { ...job, accessAs: { as: 'agent' } }), undefined)
  t.equal(userImpersonation(agentId, { ...user, accessAs: { as: 'agent' } }, 'personal_access_token'), undefined)
})

// wire: as.impersonate, as.impersonate.all
t.test('impersonate: copied as it is', async (t) => {
  const impersonate = { username: 'robot', groups: ['a', 'b'], uid: 'u-1', extra: [{ key: 'k', val: ['1', '2'] }] }
  t.same(jobImpersonation(agentId, { ...job, accessAs: { as: 'impersonate', impersonate } }), impersonate)
})

t.test('impersonate without a user name is refused: agentk would act as itself', async (t) => {
  // white space is not a name: a header does not keep it
  for (const username of ['', ' ', '\t', '\r\n']) {
    const impersonate = { username, groups: ['a'], uid: '', extra: [] }
    t.throws(() => jobImpersonation(agentId, { ...job, accessAs: { as: 'impersonate', impersonate } }), {
      code: 'IMPERSONATION_UNKNOWN',
    })
  }
})

// wire: as.ci_job, as.ci_job.extra, as.ci_job.groups
t.test('ci_job without environment', async (t) => {
  const found = jobImpersonation(agentId, job)
  t.equal(found?.username, 'gitlab:ci_job:900')
  t.equal(found?.uid, '')
  t.same(found?.groups, ['gitlab:ci_job', 'gitlab:group:7', 'gitlab:group:8', 'gitlab:project:3'])
  t.same(pairs(found?.extra), [
    ['agent.gitlab.com/id', '42'],
    ['agent.gitlab.com/config_project_id', '1'],
    ['agent.gitlab.com/project_id', '3'],
    ['agent.gitlab.com/ci_pipeline_id', '90'],
    ['agent.gitlab.com/ci_job_id', '900'],
    ['agent.gitlab.com/username', 'ada'],
  ])
})

// wire: as.ci_job, as.ci_job.extra, as.ci_job.groups
t.test('ci_job with environment', async (t) => {
  const found = jobImpersonation(agentId, { ...job, environment: { slug: 'prod-eu', tier: 'production' } })
  t.same(found?.groups, [
    'gitlab:ci_job',
    'gitlab:group:7',
    'gitlab:group_env_tier:7:production',
    'gitlab:group:8',
    'gitlab:group_env_tier:8:production',
    'gitlab:project:3',
    'gitlab:project_env:3:prod-eu',
    'gitlab:project_env_tier:3:production',
  ])
  t.same(pairs(found?.extra).slice(6), [
    ['agent.gitlab.com/environment_slug', 'prod-eu'],
    ['agent.gitlab.com/environment_tier', 'production'],
  ])
})

// wire: as.user, as.user.extra
for (const type of ['session_cookie', 'personal_access_token'] as const) {
  t.test(`user by ${type}`, async (t) => {
    const found = userImpersonation(agentId, user, type)
    t.equal(found?.username, 'gitlab:user:ada')
    t.same(found?.groups, [
      'gitlab:user',
      'gitlab:project_role:1:developer',
      'gitlab:project_role:1:maintainer',
      'gitlab:project_role:2:developer',
      'gitlab:group_role:7:guest',
      'gitlab:group_role:7:owner',
    ])
    t.same(pairs(found?.extra), [
      ['agent.gitlab.com/id', '42'],
      ['agent.gitlab.com/username', 'ada'],
      ['agent.gitlab.com/access_type', type],
      ['agent.gitlab.com/config_project_id', '1'],
    ])
  })
}

// wire: error.impersonation
t.test('an unknown access_as is refused, never taken for the agent', async (t) => {
  const accessAs = { as: 'ci_user' } as never
  t.throws(() => jobImpersonation(agentId, { ...job, accessAs }), { code: 'IMPERSONATION_UNKNOWN' })
  t.throws(() => userImpersonation(agentId, { ...user, accessAs }, 'session_cookie'), { code: 'IMPERSONATION_UNKNOWN' })
})
