import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import type { Agent } from '../../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../../src/kas/agent-config/agent-config-file.ts'
import { decideCiAccess } from '../../../../src/kas/directory/file/ci-access.ts'
import { parseDirectory } from '../../../../src/kas/directory/file/directory-contents.ts'
import { decideUserAccess } from '../../../../src/kas/directory/file/user-access.ts'
import { tokenHash } from '../../../../src/lib/token-hash.ts'

const { contents } = parseDirectory(
  'd.yaml',
  `
projects:
  - { id: 1, path: platform/clusters, groups: [{ id: 7, path: platform }] }
  - { id: 2, path: platform/apps/web, groups: [{ id: 7, path: platform }, { id: 8, path: platform/apps }] }
users:
  - { id: 1, username: direct, tokens: [{ sha256: ${tokenHash('direct')} }], roles: { projects: { 2: [developer] } } }
  - { id: 2, username: above, tokens: [{ sha256: ${tokenHash('above')} }], roles: { groups: { 7: [maintainer] } } }
  - { id: 3, username: mixed, tokens: [{ sha256: ${tokenHash('mixed')} }], roles: { projects: { 2: [reporter] }, groups: { 8: [owner] } } }
  - { id: 4, username: low, tokens: [{ sha256: ${tokenHash('low')} }], roles: { projects: { 1: [owner], 2: [reporter] } } }
ci_tokens: []
`,
)
const agent: Agent = { id: 1n as AgentId, name: 'prod', project: { id: 1n, path: 'platform/clusters' } }
const configuration = (text: string) => parseAgentConfiguration('c.yaml', Buffer.from(text))
const anyone = { id: 9n, username: 'x', projectRoles: new Map(), groupRoles: new Map() }
const job = (projectId: bigint, environment?: { slug: string; tier: string; name?: string }) => {
  const project = contents.projects.get(projectId)
  if (!project) throw new Error('no such project')
  return { user: anyone, project, job: { id: 1n }, pipeline: { id: 1n }, ...(environment ? { environment } : {}) }
}
const asWhom = (text: string, projectId: bigint, environment?: { slug: string; tier: string; name?: string }) => {
  const decision = decideCiAccess(agent, job(projectId, environment), configuration(text))
  return decision.allowed ? decision.accessAs.as : 'refused'
}

t.test('ci_access: the closest entry wins, and its conditions decide alone', async (t) => {
  const project = '{ id: platform/apps/web, access_as: { ci_job: {} } }'
  const near = '{ id: Platform/Apps, access_as: { impersonate: { username: near } } }'
  const far = '{ id: platform }'
  t.equal(asWhom(`ci_access: { projects: [${project}], groups: [${far}, ${near}] }`, 2n), 'ci_job')
  t.equal(asWhom(`ci_access: { groups: [${far}, ${near}] }`, 2n), 'impersonate', 'nearest group first')
  t.equal(asWhom(`ci_access: { groups: [${far}] }`, 2n), 'agent')
  t.equal(asWhom(`ci_access: { groups: [${near}] }`, 1n), 'agent', 'own project before any group')
  t.equal(
    asWhom('ci_access: { groups: [{ id: platform, access_as: { ci_job: {} } }] }', 1n),
    'agent',
    'also one above it',
  )
  t.equal(asWhom('ci_access: { projects: [{ id: platform/clusters, access_as: { ci_job: {} } }] }', 1n), 'ci_job')
  t.equal(asWhom('ci_access: { groups: [{ id: platform/app }] }', 2n), 'refused', 'a group is no prefix of letters')
  const narrow = '{ id: platform/apps/web, environments: [staging] }'
  t.equal(
    asWhom(`ci_access: { projects: [${narrow}], groups: [${far}] }`, 2n),
    'refused',
    'no falling back to a wider entry',
  )
})

t.test('ci_access: an entry that forges a user of GitLab gives way to no other one', async (t) => {
  const forged = (id: string) => `{ id: ${id}, access_as: { impersonate: { username: "gitlab:user:root" } } }`
  const far = '{ id: platform }'
  t.equal(asWhom(`ci_access: { projects: [${forged('platform/apps/web')}], groups: [${far}] }`, 2n), 'refused')
  t.equal(asWhom(`ci_access: { groups: [${far}, ${forged('platform/apps')}] }`, 2n), 'refused')
  t.equal(asWhom(`ci_access: { projects: [${forged('platform/clusters')}] }`, 1n), 'refused', 'never as the agent')
})

t.test('ci_access: environments', async (t) => {
  const text = 'ci_access: { projects: [{ id: platform/apps/web, environments: [production, "review/*", "a*c*e"] }] }'
  const at = (name?: string) => asWhom(text, 2n, name === undefined ? undefined : { slug: name, tier: 'other' })
  t.equal(at(), 'refused', 'a job without environment')
  for (const name of ['production', 'review/', 'review/a/b', 'ace', 'abcde']) t.equal(at(name), 'agent', name)
  for (const name of ['Production', 'productions', 'a-production', 'review', 'ac', 'xace'])
    t.equal(at(name), 'refused', name)
  t.equal(asWhom(text, 2n, { slug: 'review-x-1', tier: 'd', name: 'review/x' }), 'agent', 'by name where it is known')
  const many = `ci_access: { projects: [{ id: platform/apps/web, environments: ["${'*a'.repeat(50)}b"] }] }`
  t.equal(asWhom(many, 2n, { slug: 'a'.repeat(5000), tier: 'x' }), 'refused', 'in no time')
})

t.test('user_access: developer or more, own or inherited, with all roles up to that', async (t) => {
  const named = (username: string) => {
    const owner = contents.userTokens.get(tokenHash(username))?.owner
    if (!owner) throw new Error(`no user ${username}`)
    return owner
  }
  const decide = (username: string, text: string) =>
    decideUserAccess(named(username), configuration(text).userAccess, contents)
  const byProject = 'user_access: { access_as: { user: {} }, projects: [{ id: platform/apps/web }, { id: no/such }] }'
  const byGroup = 'user_access: { access_as: { user: {} }, groups: [{ id: platform/apps }] }'
  const upTo = (...roles: string[]) => ['guest', 'planner', 'reporter', 'developer', ...roles]
  t.same(decide('direct', byProject), { allowed: true, as: 'user', projects: [{ id: 2n, roles: upTo() }], groups: [] })
  t.same(decide('above', byProject), {
    allowed: true,
    as: 'user',
    projects: [{ id: 2n, roles: upTo('maintainer') }],
    groups: [],
  })
  t.same(decide('mixed', byProject), {
    allowed: true,
    as: 'user',
    projects: [{ id: 2n, roles: upTo('maintainer', 'owner') }],
    groups: [],
  })
  t.match(decide('low', byProject), { allowed: false, reason: /user_access/ })
  t.match(
    decide('direct', byGroup),
    { allowed: false, reason: /user_access/ },
    'a role in a project is none in its group',
  )
  t.same(decide('above', byGroup), {
    allowed: true,
    as: 'user',
    projects: [],
    groups: [{ id: 8n, roles: upTo('maintainer') }],
  })
  t.same(decide('above', 'user_access: { access_as: { agent: {} }, groups: [{ id: platform }] }'), {
    allowed: true,
    as: 'agent',
  })
  t.match(
    decide('above', 'user_access: { groups: [{ id: platform }] }'),
    { allowed: false, reason: /user_access/ },
    'without access_as',
  )
  t.match(decide('low', 'user_access: { access_as: { robot: {} }, groups: [{ id: platform }] }'), {
    allowed: false,
    reason: /user_access/,
  })
  t.match(
    decide('above', 'user_access: { access_as: { user: {} }, groups: [{ id: platform, least_role: owner }] }'),
    { allowed: false, reason: /user_access/ },
    'an entry with an unknown key',
  )
})
