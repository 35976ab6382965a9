import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { UserCredential } from '../../../src/kas/directory/directory.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { rejects } from './directory-suite.ts'

const { signal } = new AbortController()
const agentId = 42n as AgentId
const userAccess = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }'
const pat = (key: string): UserCredential => ({ type: 'personal_access_token', key })

async function start(t: Test) {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(userAccess) })
  const clock = new ManualClock()
  gitlab.now = () => clock.now()
  return { gitlab, clock, ...(await startGitlabSide(t, gitlab, { clock })) }
}

// wire: rest.agent_info.cache, rest.verify_project_access.cache, rest.authorize_proxy_user.cache
// wire: rest.allowed_agents.cache
t.test('answers and refusals are kept for their lifetimes', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  const bad = (code: 'UNAUTHENTICATED' | 'JOB_TOKEN_UNAUTHORIZED' | 'USER_UNAUTHORIZED', ask: () => Promise<unknown>) =>
    rejects(t, ask(), code)
  const cases = [
    { name: 'agent', ask: () => directory.agentByToken('glagent-prod', signal), seconds: 300 },
    { name: 'project', ask: () => directory.readsProject('glagent-prod', 'other/thing', signal), seconds: 300 },
    { name: 'no project', ask: () => directory.readsProject('glagent-prod', 'apps/web', signal), seconds: 60 },
    { name: 'job', ask: () => directory.grantJob(agentId, 'job-clusters', signal), seconds: 60 },
    { name: 'user', ask: () => directory.grantUser(agentId, pat('glpat-ada'), signal), seconds: 60 },
    {
      name: 'no agent',
      ask: () => bad('UNAUTHENTICATED', () => directory.agentByToken('none', signal)),
      seconds: 60,
    },
    {
      name: 'no job',
      ask: () => bad('JOB_TOKEN_UNAUTHORIZED', () => directory.grantJob(agentId, 'none', signal)),
      seconds: 10,
    },
    {
      name: 'no user',
      ask: () => bad('USER_UNAUTHORIZED', () => directory.grantUser(agentId, pat('none'), signal)),
      seconds: 10,
    },
  ]
  for (const { name, ask, seconds } of cases) {
    const before = gitlab.calls.length
    await ask()
    t.equal(gitlab.calls.length, before + 1, name)
    clock.advance(seconds * 1000 - 1)
    await ask()
    t.equal(gitlab.calls.length, before + 1, `${name} is kept for ${seconds} s`)
    clock.advance(1)
    await ask()
    t.equal(gitlab.calls.length, before + 2, `${name} is asked again`)
  }
})

t.test('who wants a younger answer than is kept has GitLab asked, and gives it to all', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  const ways = [
    (maxAgeMs?: number) => directory.grantJob(agentId, 'job-clusters', signal, { maxAgeMs }),
    (maxAgeMs?: number) => directory.grantUser(agentId, pat('glpat-ada'), signal, { maxAgeMs }),
  ]
  for (const ask of ways) {
    await ask()
    const before = gitlab.calls.length
    clock.advance(44_999)
    await ask(45_000)
    t.equal(gitlab.calls.length, before)
    clock.advance(1)
    await ask()
    t.equal(gitlab.calls.length, before, 'it is good enough for others')
    await ask(45_000)
    t.equal(gitlab.calls.length, before + 1)
    clock.advance(59_999)
    await ask()
    t.equal(gitlab.calls.length, before + 1, 'kept from then on')
  }
})

/** Moves the clock. Waits until the due work is done and only the next request is planned. */
async function pass(clock: ManualClock, seconds: number, isAsked: () => boolean = () => true): Promise<void> {
  clock.advance(seconds * 1000)
  await eventually(() => (isAsked() && clock.pending === 1) || Promise.reject(new Error('not asked yet')))
}

// wire: rest.agent_info.connected
t.test('a connected agent is asked about every 5 minutes, whatever else asks, until it leaves', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  const askedAfter = async (seconds: number, count: number) => {
    await pass(clock, seconds, () => gitlab.calls.length >= count)
    t.equal(gitlab.calls.length, count)
  }
  await directory.agentByToken('glagent-prod', signal)
  const releases = [directory.watchToken('glagent-prod'), directory.watchToken('glagent-prod')]
  await askedAfter(299.999, 1)
  await askedAfter(0.001, 2)
  for (let count = 2; count <= 5; count++) {
    await askedAfter(100, count)
    await directory.agentByToken('glagent-prod', signal)
    await askedAfter(199.999, count)
    await askedAfter(0.001, count + 1)
  }
  releases[0]?.()
  releases[0]?.()
  await askedAfter(300, 7)
  releases[1]?.()
  await directory.agentByToken('glagent-prod', signal)
  t.equal(clock.pending, 0, 'nobody watches any more')
  clock.advance(600_000)
  t.equal(gitlab.calls.length, 7)
})

t.test('while GitLab is away a connected agent is asked about now and then', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  await directory.agentByToken('glagent-prod', signal)
  directory.watchToken('glagent-prod')
  gitlab.fault = { kind: 'status', status: 500 }
  await pass(clock, 300, () => gitlab.calls.length === 2)
  gitlab.fault = undefined
  await pass(clock, 29)
  t.equal(gitlab.calls.length, 2)
  await pass(clock, 1, () => gitlab.calls.length === 3)
  t.match(await directory.agentByToken('glagent-prod', signal), { id: 42n })
  t.equal(gitlab.calls.length, 3)
})

// wire: auth.form
t.test('many who want the same answer make one call', async (t) => {
  const { gitlab, directory } = await start(t)
  const tokens = ['glagent-prod', 'a', 'b', 'c', 'd']
  gitlab.world.agents[0]?.tokens.push(...tokens)
  const askers = Array.from({ length: 500 }, (_, i) => directory.agentByToken(tokens[i % 5] as string, signal))
  const agents = await Promise.all(askers)
  t.ok(agents.every(({ id }) => id === 42n))
  t.equal(gitlab.calls.length, tokens.length)
})

t.test('who leaves does not take the answer away from others; the last one does', async (t) => {
  const { gitlab, directory } = await start(t)
  gitlab.fault = { kind: 'silent' }
  const [first, second] = [new AbortController(), new AbortController()]
  const left = directory.agentByToken('glagent-prod', first.signal)
  const staying = directory.agentByToken('glagent-prod', second.signal)
  await eventually(() => gitlab.calls.length === 1 || Promise.reject(new Error('not asked yet')))
  const reason = new KasError({ code: 'CANCELLED' })
  first.abort(reason)
  t.equal(await left.catch((error: unknown) => error), reason)
  gitlab.fault = undefined
  gitlab.cut() // the hanging exchange loses its connection and is repeated
  t.match(await staying, { id: 42n })
  t.equal(gitlab.calls.length, 2)

  gitlab.fault = { kind: 'silent' }
  const third = new AbortController()
  const asked = directory.agentByToken('other', third.signal)
  await eventually(() => gitlab.calls.length === 3 || Promise.reject(new Error('not asked yet')))
  third.abort(reason)
  t.equal(await asked.catch((error: unknown) => error), reason)
  gitlab.fault = undefined
  await rejects(t, directory.agentByToken('other', signal), 'UNAUTHENTICATED')
})

// wire: rest.authorize_proxy_user.cache
t.test('the keys of answers are apart: agent, kind of credential, credential and CSRF token', async (t) => {
  const { gitlab, directory } = await start(t)
  const key = 'cookie-of-ada'
  gitlab.world.users[0]?.personalAccessTokens.push('both')
  await directory.grantUser(agentId, { type: 'session_cookie', key, csrfToken: 'csrf-of-ada' }, signal)
  await rejects(t, directory.grantUser(agentId, pat(key), signal), 'USER_UNAUTHORIZED')
  await rejects(
    t,
    directory.grantUser(agentId, { type: 'session_cookie', key, csrfToken: 'x' }, signal),
    'USER_UNAUTHORIZED',
  )
  await rejects(t, directory.grantUser(43n as AgentId, pat('both'), signal), 'USER_UNAUTHORIZED')
  await directory.grantUser(agentId, pat('both'), signal)
  t.equal(gitlab.calls.length, 5)
})

// wire: rest.allowed_agents.cache
t.test('tokens with a common beginning do not poison one another', async (t) => {
  const { directory } = await start(t)
  await rejects(t, directory.grantJob(agentId, 'job-clusters-but-wrong', signal), 'JOB_TOKEN_UNAUTHORIZED')
  await directory.grantJob(agentId, 'job-clusters', signal)
})

t.test('a revoked token, a finished job and a withdrawn user are refused once the answer is old', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  const ask = {
    UNAUTHENTICATED: () => directory.agentByToken('glagent-prod', signal),
    JOB_TOKEN_UNAUTHORIZED: () => directory.grantJob(agentId, 'job-clusters', signal),
    USER_UNAUTHORIZED: () => directory.grantUser(agentId, pat('glpat-ada'), signal),
  } as const
  for (const one of Object.values(ask)) await one()
  const [agent, job, user] = [gitlab.world.agents[0], gitlab.world.jobs[0], gitlab.world.users[0]]
  if (agent) agent.tokens = []
  if (job) job.isFinished = true
  if (user) user.personalAccessTokens = []
  for (const one of Object.values(ask)) await one()
  clock.advance(300_000)
  await rejects(t, ask.UNAUTHENTICATED(), 'UNAUTHENTICATED')
  await rejects(t, ask.JOB_TOKEN_UNAUTHORIZED(), 'JOB_TOKEN_UNAUTHORIZED')
  await rejects(t, ask.USER_UNAUTHORIZED(), 'USER_UNAUTHORIZED')
})

t.test('who holds tunnels of an agent hears when its token is refused', async (t) => {
  const { gitlab, clock, directory } = await start(t)
  let told = 0
  const undo = directory.onChange((agentIds) => {
    told++
    t.same([...(agentIds ?? [])], [id], 'whom it concerns')
  })
  const { id } = await directory.agentByToken('glagent-prod', signal)
  await rejects(t, directory.agentByToken('never-known', signal), 'UNAUTHENTICATED')
  const [agent] = gitlab.world.agents
  if (agent) agent.tokens = []
  directory.watchToken('glagent-prod')
  await pass(clock, 300, () => gitlab.calls.length === 3) // the only planned work now is the notification
  t.equal(told, 0)
  await rejects(t, directory.agentByToken('glagent-prod', signal), 'UNAUTHENTICATED')
  clock.advance(2000)
  t.equal(told, 1)
  clock.advance(60_000)
  await rejects(t, directory.agentByToken('glagent-prod', signal), 'UNAUTHENTICATED')
  clock.advance(2000)
  t.equal(told, 1, 'once')
  undo()
})
