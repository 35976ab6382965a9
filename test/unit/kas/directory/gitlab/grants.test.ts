import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { type JobAgents, jobGrantOf, userGrantOf } from '../../../../../src/kas/directory/gitlab/grants.ts'
import { KasError } from '../../../../../src/lib/errors.ts'

const job = (configuration: unknown): JobAgents => ({
  allowedAgents: [
    { id: 41n, config_project: { id: 9n }, configuration: { access_as: 'odd' } },
    { id: 42n, config_project: { id: 1n }, configuration },
  ],
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 2n, groups: [{ id: 8n }, { id: 7n }] },
  user: { id: 5n, username: 'ada' },
  environment: null,
})
const nothingLeftOut = () => {
  throw new Error('an entry was left out')
}
const agentId = 42n as AgentId
const unknown = (found: RegExp | string) => ({ code: 'IMPERSONATION_UNKNOWN', spec: { found } })

// wire: as.agent, as.impersonate, as.ci_job, rest.unknown-keys
t.test('as whom a job acts', async (t) => {
  const as = (configuration: unknown) => jobGrantOf(job(configuration), agentId).accessAs
  for (const configuration of [
    {},
    null,
    undefined,
    { access_as: {} },
    { access_as: null },
    { access_as: { agent: {} } },
  ]) {
    t.strictSame(as(configuration), { as: 'agent' })
  }
  t.strictSame(as({ default_namespace: 'x', access_as: { ci_job: {} }, new_key: 1 }), { as: 'ci_job' })
  t.strictSame(as({ access_as: { impersonate: { username: 'robot' } } }), {
    as: 'impersonate',
    impersonate: { username: 'robot', groups: [], uid: '', extra: [] },
  })
})

// wire: rest.unknown-access, as.impersonate.all
t.test('what is not known is refused, never taken for the agent', async (t) => {
  const refused: [unknown, RegExp | string][] = [
    [{ access_as: { ci_user: {} } }, 'ci_user'],
    [{ access_as: { Agent: {} } }, 'Agent'],
    [{ access_as: { agent: {}, ci_job: {} } }, 'agent and ci_job'],
    [{ access_as: 'agent' }, /access_as/],
    [{ access_as: ['agent'] }, /access_as/],
    [{ access_as: { impersonate: {} } }, /impersonate/],
    [{ access_as: { impersonate: { username: '' } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', groups: [1] } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', extra: [{ key: 'k', val: [] }] } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'gitlab:user:root' } } }, /gitlab:user:root, which kas alone may say/],
    [{ access_as: { impersonate: { username: ' gitlab:user:root' } } }, /kas alone/],
    [{ access_as: { impersonate: { username: 'x', groups: ['a', 'gitlab:user'] } } }, /gitlab:user, which kas alone/],
    [
      { access_as: { impersonate: { username: 'x', extra: [{ key: 'Agent.gitlab.com/id', val: ['1'] }] } } },
      /Agent\.gitlab\.com\/id, which kas alone/,
    ],
    [{ access_as: { impersonate: { username: 'x'.repeat(1025) } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', uid: 'x'.repeat(1025) } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', groups: ['x'.repeat(1025)] } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', extra: [{ key: 'k'.repeat(1025), val: ['v'] }] } } }, /impersonate/],
    [{ access_as: { impersonate: { username: 'x', extra: [{ key: 'k', val: ['v'.repeat(1025)] }] } } }, /impersonate/],
    ['text', /configuration/],
    [[], /configuration/],
  ]
  for (const [configuration, found] of refused) {
    t.throws(() => jobGrantOf(job(configuration), agentId), unknown(found), JSON.stringify(configuration))
  }
})

t.test('an agent that is not listed is not allowed', async (t) => {
  t.throws(() => jobGrantOf(job({}), 43n as AgentId), { code: 'AGENT_NOT_ALLOWED' })
})

t.test('groups keep their order, an environment is there or not', async (t) => {
  const grant = jobGrantOf(job({}), agentId)
  t.strictSame(grant.project, { id: 2n, groups: [{ id: 8n }, { id: 7n }] })
  t.equal(grant.environment, undefined)
  t.equal(grant.configProjectId, 1n)
})

// wire: rest.unknown-access, as.user
t.test('as whom a user acts', async (t) => {
  const answer = (access_as: Record<string, unknown>) =>
    userGrantOf(
      { agent: { id: 42n, config_project: { id: 1n } }, user: { id: 5n, username: 'ada' }, access_as },
      nothingLeftOut,
    ).accessAs
  t.strictSame(answer({ agent: {} }), { as: 'agent' })
  t.strictSame(answer({ user: { projects: [{ id: 1, roles: ['guest', 'developer'] }] } }), {
    as: 'user',
    projects: [{ id: 1n, roles: ['guest', 'developer'] }],
    groups: [],
  })
  for (const [access, found] of [
    [{}, 'nothing'],
    [{ robot: {} }, 'robot'],
    [{ agent: {}, user: {} }, 'agent and user'],
    [{ user: { projects: 'x' } }, 'user'],
    [{ user: null }, 'user'],
  ] as const) {
    t.throws(() => answer(access), new KasError({ code: 'IMPERSONATION_UNKNOWN', found }))
  }
})
