import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { Authenticator } from '../../../src/kas/servers/agents/authenticator.ts'
import { TokenCallCounts } from '../../../src/kas/servers/agents/limits/token-call-counts.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { GitlabDouble, type GitlabFault } from '../../support/gitlab/gitlab-double.ts'
import { type GitlabSideOptions, startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { crowd, suiteWorld } from '../../support/gitlab/gitlab-world.ts'

/** GitLab fails. Earlier answers stay valid, new requests fail with GitLab's name, and nothing piles up. */

const { signal } = new AbortController()
const agentId = 42n as AgentId
const world = () => suiteWorld('user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }')
const pat = (key: string) => ({ type: 'personal_access_token', key }) as const

/** ms; GitLab counts as away after this time without an answer */
const headMs = 500
const quick: GitlabSideOptions = { client: { timeouts: { headMs, bodySilenceMs: headMs }, maxRepeats: 1 } }

const paths = ['/internal/agents/agentk/agent_info', '/internal/kubernetes/authorize_proxy_user', '/job/allowed_agents']

const faults: Readonly<Record<string, GitlabFault | 'away'>> = {
  away: 'away',
  silent: { kind: 'silent' },
  'answering 500': { kind: 'status', status: 500 },
  'answering 503 with Retry-After': { kind: 'status', status: 503, retryAfter: '1' },
  'answering 429': { kind: 'status', status: 429 },
  'answering HTML': { kind: 'html' },
  'giving half a body': { kind: 'half' },
}

async function begin(gitlab: GitlabDouble, fault: GitlabFault | 'away'): Promise<void> {
  if (fault === 'away') await gitlab.leave()
  else gitlab.fault = fault
}

async function end(gitlab: GitlabDouble, fault: GitlabFault | 'away'): Promise<void> {
  if (fault === 'away') await gitlab.come()
  gitlab.fault = undefined
}

for (const [name, fault] of Object.entries(faults)) {
  // wire: log.url_path
  t.test(`GitLab ${name}: what was said serves, what is new fails in its name, and works again after`, async (t) => {
    const gitlab = await GitlabDouble.start(t, { world: world() })
    gitlab.world.agents[0]?.tokens.push('new')
    gitlab.world.users[0]?.personalAccessTokens.push('new')
    gitlab.world.jobs.push({ token: 'new', id: 903, pipeline: 93, project: 1, user: 5 })
    const { directory, lines } = await startGitlabSide(t, gitlab, quick)
    const ask = (tokens: { agent: string; user: string; job: string }) => [
      directory.agentByToken(tokens.agent, signal),
      directory.grantUser(agentId, pat(tokens.user), signal),
      directory.grantJob(agentId, tokens.job, signal),
    ]
    const known = { agent: 'glagent-prod', user: 'glpat-ada', job: 'job-clusters' }
    await Promise.all(ask(known))
    await begin(gitlab, fault)
    await Promise.all([...ask(known), ...ask(known)])
    t.equal(gitlab.calls.length, 3, 'answers that are kept cost no call')

    const failed = await Promise.allSettled(ask({ agent: 'new', user: 'new', job: 'new' }))
    const codes = ['DIRECTORY_UNAVAILABLE', 'USER_FAILED', 'JOB_AGENTS_FAILED']
    for (const [i, result] of failed.entries()) {
      const error = (result as PromiseRejectedResult).reason as KasError
      t.equal(error.code, codes[i])
      const shown = i === 0 ? error.message : (error.cause as Error).message
      t.match(shown, /GitLab|HTTP status code: \d{3} for path \/api\/v4/)
      if (i === 0) t.match(shown, /^unavailable: .*GitLab/)
    }
    await Promise.allSettled(ask({ agent: 'new', user: 'new', job: 'new' }))
    const told = lines.filter(({ level }) => level === 'error').map(({ url_path }) => url_path)
    t.strictSame(told.toSorted(), paths, 'told once in the log for each path')

    await end(gitlab, fault)
    await Promise.all(ask({ agent: 'new', user: 'new', job: 'new' }))
    t.ok(lines.some(({ msg }) => msg === 'GitLab answers again'))
  })
}

t.test('GitLab slow: answers come, late', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab)
  gitlab.fault = { kind: 'slow', ms: 200 }
  t.match(await directory.agentByToken('glagent-prod', signal), { id: 42n })
  t.match(await directory.grantUser(agentId, pat('glpat-ada'), signal), { user: { id: 5n } })
})

t.test('one endpoint that hangs holds up no other', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab)
  gitlab.fault = { kind: 'silent', path: '/job/allowed_agents' }
  const hanging = new AbortController()
  const jobs = Array.from({ length: 200 }, (_, i) => directory.grantJob(agentId, `job-${i}`, hanging.signal))
  const ended = Promise.allSettled(jobs)
  await eventually(() => gitlab.calls.length === 10 || Promise.reject(new Error('not yet')))
  t.match(await directory.agentByToken('glagent-prod', signal), { id: 42n })
  hanging.abort(new KasError({ code: 'CANCELLED' }))
  await ended
})

t.test('answers that are too large are not read', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab, { client: { maxAnswerBytes: 10_000 } })
  const large = { packed: randomBytes(20_000).toString('hex'), unpacked: 'x'.repeat(1 << 20) }
  for (const [name, x] of Object.entries(large)) {
    gitlab.fault = { kind: 'json', body: { x } }
    const error = await directory.agentByToken(name, signal).catch((one: unknown) => one)
    t.match(error, { code: 'DIRECTORY_UNAVAILABLE', message: /more than 10000 bytes/ })
  }
})

t.test('an answer that is small while it is packed may be large', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab, { client: { maxAnswerBytes: 2 << 20 } })
  gitlab.fault = { kind: 'json', body: { x: 'x'.repeat(1 << 20) } }
  const error = await directory.agentByToken('glagent-prod', signal).catch((one: unknown) => one)
  t.match(error, { code: 'DIRECTORY_UNAVAILABLE', message: /agent_id/ }, 'it was read to its end')
})

// wire: rest.repeat
t.test('repeats: only what does no harm, a few times, as GitLab asks', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory, client } = await startGitlabSide(t, gitlab)
  const count = async (status: number, ask: () => Promise<unknown>) => {
    gitlab.calls.length = 0
    gitlab.fault = { kind: 'status', status }
    await t.rejects(ask())
    return gitlab.calls.length
  }
  t.equal(await count(500, () => directory.grantJob(agentId, 'a', signal)), 5)
  t.equal(await count(429, () => directory.grantUser(agentId, pat('a'), signal)), 5)
  t.equal(await count(501, () => directory.grantJob(agentId, 'b', signal)), 1)
  t.equal(await count(401, () => directory.grantJob(agentId, 'c', signal)), 1)
  t.equal(await count(502, () => directory.takeConfiguration(agentId, {}, signal)), 5)
  t.equal(await count(500, () => directory.agentByToken('a', signal)), 1)
  t.equal(await count(500, () => directory.readsProject('a', 'b', signal)), 1)
  const usage = { method: 'POST', path: '/internal/kubernetes/usage_metrics', body: {}, queue: 'reports' } as const
  t.equal(await count(500, () => client.send({ ...usage, repeatable: false }, signal)), 1)
})

t.test('a connection that GitLab closed meanwhile costs no call', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab)
  gitlab.world.agents[0]?.tokens.push(...Array.from({ length: 20 }, (_, i) => `token-${i}`))
  for (let i = 0; i < 20; i++) {
    const asked = directory.agentByToken(`token-${i}`, signal)
    gitlab.cut()
    t.match(await asked, { id: 42n })
  }
})

t.test('an agent keeps its tunnels, and new ones wait for GitLab', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: world() })
  const { directory } = await startGitlabSide(t, gitlab, { directory: { infoTtlMs: 0 } })
  const { tunnels, forward, port } = await startAgentsServer(t, { components: { directory } })
  const agent = await FakeAgent.dial(port, 'glagent-prod')
  t.teardown(() => agent.close())
  const held = agent.open()
  await eventually(() => tunnels.agentCount === 1 || Promise.reject(new Error('no tunnel yet')))
  gitlab.fault = { kind: 'status', status: 500 }
  const waiting = agent.open()
  await eventually(() => gitlab.calls.length >= 3 || Promise.reject(new Error('not asked again yet')))
  const served = held.serveEcho()
  t.match(await callThrough(forward, ['one']), { messages: ['one'] }, 'the tunnel that was there carries a call')
  await served
  gitlab.fault = undefined
  const servedLater = waiting.serveEcho()
  t.match(await callThrough(forward, ['two']), { messages: ['two'] }, 'the one that waited carries the next')
  await servedLater
})

/** @returns the highest number of calls that began within one second, and the number of all calls */
function busiest(calls: readonly { at: number }[]): { perSecond: number; total: number } {
  const times = calls.map(({ at }) => at)
  const perSecond = Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 1000).length))
  return { perSecond, total: times.length }
}

// wire: rest.limit, error.agent.patience
t.test(
  'a crowd of agents waits for GitLab: calls per second stay bounded, while it fails and when it is back',
  async (t) => {
    const agents = 300
    const limit = { refillPerSecond: 200, bucketSize: 100 }
    const gitlab = await GitlabDouble.start(t, { world: crowd(agents) })
    const { directory } = await startGitlabSide(t, gitlab, { client: limit, directory: { pauseMs: 100 } })
    const authenticator = new Authenticator({
      directory,
      counts: new TokenCallCounts(Date),
      onRateExceeded: () => undefined,
    })
    gitlab.fault = { kind: 'status', status: 503 }
    const streams = Array.from({ length: agents * 3 }, (_, i) =>
      authenticator.authenticate(
        { authorization: [`Bearer agent-${(i % agents) + 1}`] },
        { patient: true, counted: true },
        signal,
      ),
    )
    await eventually(() => gitlab.calls.length >= 300 || Promise.reject(new Error('not yet')))
    const failing = busiest(gitlab.calls.splice(0))
    gitlab.fault = undefined
    const backAt = Date.now()
    const found = await Promise.all(streams)
    const back = busiest(gitlab.calls)
    t.comment(
      `${agents} agents with 3 streams each, limit ${limit.refillPerSecond}/s and a burst of ${limit.bucketSize}: ` +
        `${failing.perSecond} calls in the busiest second while GitLab answered 503, ${back.perSecond} when it was back; ` +
        `all known after ${Date.now() - backAt} ms and ${back.total} calls`,
    )
    t.equal(new Set(found.map(({ id }) => id)).size, agents)
    const allowed = limit.refillPerSecond + limit.bucketSize + 50 // plus the calls in flight when the second began
    t.ok(failing.perSecond <= allowed)
    t.ok(back.perSecond <= allowed)
    t.ok(back.total <= agents + 10, 'each agent is asked about once')
  },
)
