import t from 'tap'
import { UsageCounters, type UsageCountersOptions } from '../../../../../src/kas/directory/gitlab/usage-counters.ts'
import { UsageReport } from '../../../../../src/kas/directory/gitlab/usage-report.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const metricsPath = '/internal/kubernetes/usage_metrics'
const eventsPath = '/internal/kubernetes/agent_events'
const event = (user: bigint) => ({ user_id: user, project_id: 3n })
const status = (code: number) => new KasError({ code: 'GITLAB_STATUS', status: code, path: '/' })

function ground(options: UsageCountersOptions = {}) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const counters = new UsageCounters(options)
  const sent: [path: string, body: unknown][] = []
  const world = {
    failure: undefined as Error | undefined,
    whileSending: (_signal: AbortSignal) => undefined as unknown,
  }
  const client = {
    send: async ({ path, body }: { path: string; body?: unknown }, signal: AbortSignal) => {
      await world.whileSending(signal)
      if (world.failure) throw world.failure
      sent.push([path, body])
    },
  }
  const report = new UsageReport({ client, counters, log, clock }, { periodMs: 60_000, lastReportMs: 5000 })
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  return { clock, counters, report, sent, world, lines, settle }
}

// wire: rest.usage_metrics, rest.agent_events
t.test('everything is reported each period, and nothing when there is nothing', async (t) => {
  const { clock, counters, report, sent, settle } = ground()
  await report.start()
  t.teardown(() => report.stop())
  clock.advance(60_000)
  await settle()
  t.strictSame(sent, [])
  counters.counter('k8s_api_proxy_request')()
  counters.counter('k8s_api_proxy_request')()
  counters.unique('k8s_api_proxy_requests_unique_users_via_ci_access')(5n)
  counters.unique('k8s_api_proxy_requests_unique_users_via_ci_access')(5n)
  counters.unique('k8s_api_proxy_requests_unique_users_via_ci_access')(6n)
  counters.event('k8s_api_proxy_requests_unique_users_via_ci_access')(event(5n))
  counters.event('k8s_api_proxy_requests_unique_users_via_ci_access')(event(5n))
  clock.advance(60_000)
  await settle()
  t.strictSame(sent, [
    [
      metricsPath,
      {
        counters: { k8s_api_proxy_request: 2 },
        unique_counters: { k8s_api_proxy_requests_unique_users_via_ci_access: [5, 6] },
      },
    ],
    [eventsPath, { events: { k8s_api_proxy_requests_unique_users_via_ci_access: [{ user_id: 5, project_id: 3 }] } }],
  ])
  clock.advance(60_000)
  await settle()
  t.equal(sent.length, 2, 'nothing new')
})

// wire: rest.usage_metrics.failure
t.test('what GitLab did not take is reported again, with what came meanwhile', async (t) => {
  const { clock, counters, report, sent, world, settle } = ground()
  await report.start()
  t.teardown(() => report.stop())
  counters.counter('k8s_api_proxy_request')()
  counters.event('k8s_api_proxy_requests_unique_users_via_pat_access')(event(5n))
  world.failure = status(503)
  clock.advance(60_000)
  await settle()
  t.strictSame(sent, [])
  world.failure = undefined
  counters.counter('k8s_api_proxy_request')()
  clock.advance(60_000)
  await settle()
  t.match(sent, [
    [metricsPath, { counters: { k8s_api_proxy_request: 2 } }],
    [eventsPath, { events: { k8s_api_proxy_requests_unique_users_via_pat_access: [{ user_id: 5 }] } }],
  ])
})

t.test('what happens during a report is told by the next', async (t) => {
  const { clock, counters, report, sent, world, settle } = ground()
  await report.start()
  counters.counter('k8s_api_proxy_request')()
  let during = 0
  world.whileSending = () => {
    if (during++ < 3) counters.counter('k8s_api_proxy_request')()
  }
  clock.advance(60_000)
  await settle()
  await report.stop()
  const told = sent.map(([, body]) => (body as { counters: Record<string, number> }).counters.k8s_api_proxy_request)
  t.equal(
    told.reduce((sum: number, count) => sum + (count ?? 0), 0),
    4,
  )
})

// wire: usage.cap
t.test('the last report has all, in parts that GitLab bears', async (t) => {
  const { counters, report, sent } = ground({ maxIncrement: 10, maxListed: 2 })
  await report.start()
  for (let i = 0; i < 25; i++) counters.counter('k8s_api_proxy_request')()
  for (let i = 1n; i <= 5n; i++) {
    counters.unique('k8s_api_proxy_requests_unique_agents_via_pat_access')(i)
    counters.event('k8s_api_proxy_requests_unique_users_via_user_access')(event(i))
  }
  await Promise.all([report.stop(), report.stop()])
  const bodies = (path: string) => sent.filter(([one]) => one === path).map(([, body]) => body)
  t.match(bodies(metricsPath), [
    {
      counters: { k8s_api_proxy_request: 10 },
      unique_counters: { k8s_api_proxy_requests_unique_agents_via_pat_access: [1, 2] },
    },
    {
      counters: { k8s_api_proxy_request: 10 },
      unique_counters: { k8s_api_proxy_requests_unique_agents_via_pat_access: [3, 4] },
    },
    {
      counters: { k8s_api_proxy_request: 5 },
      unique_counters: { k8s_api_proxy_requests_unique_agents_via_pat_access: [5] },
    },
  ])
  t.equal(bodies(eventsPath).length, 3)
  t.equal(counters.metrics(), undefined)
  t.equal(counters.events(), undefined)
})

t.test('the last report is tried again for a moment', async (t) => {
  const { clock, counters, report, sent, world, lines, settle } = ground()
  await report.start()
  counters.counter('k8s_api_proxy_request')()
  world.failure = status(502)
  const stopped = report.stop()
  await settle()
  t.strictSame(sent, [])
  world.failure = undefined
  clock.advance(500)
  await stopped
  t.match(sent, [[metricsPath, { counters: { k8s_api_proxy_request: 1 } }]])
  t.equal(clock.pending, 0)
  t.notOk(lines.some(({ level }) => level === 'error'))
})

t.test('the last report ends in time, whatever GitLab does', async (t) => {
  const { clock, counters, report, world, lines, settle } = ground()
  await report.start()
  counters.counter('k8s_api_proxy_request')()
  world.whileSending = (signal) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
  let isStopped = false
  const stopped = report.stop().then(() => {
    isStopped = true
  })
  clock.advance(4999)
  await settle()
  t.equal(isStopped, false)
  clock.advance(1)
  await stopped
  t.ok(counters.metrics(), 'it was not told')
  t.ok(lines.some(({ level, msg }) => level === 'error' && String(msg).includes('before the end')))
  t.equal(clock.pending, 0)
})

// wire: rest.agent_events
t.test('what GitLab would never take is dropped, and said', async (t) => {
  const { clock, counters, report, world, lines, settle } = ground()
  await report.start()
  t.teardown(() => report.stop())
  counters.event('k8s_api_proxy_requests_unique_users_via_ci_access')(event(1n))
  world.failure = status(404)
  counters.counter('k8s_api_proxy_request')()
  clock.advance(60_000)
  await settle()
  t.equal(counters.events(), undefined, 'a GitLab before 16.8 takes no events')
  t.ok(counters.metrics(), 'a 404 on usage_metrics is another matter')
  world.failure = status(400)
  clock.advance(60_000)
  await settle()
  t.equal(counters.metrics(), undefined)
  t.ok(lines.some(({ level, msg }) => level === 'error' && String(msg).includes('rejected')))
})

t.test('ids and events without end are bounded', async (t) => {
  const { counters } = ground({ maxKept: 3 })
  for (let i = 1n; i <= 5n; i++) counters.unique('flux_git_push_notified_unique_projects')(i)
  counters.unique('flux_git_push_notified_unique_projects')(1n)
  t.equal(counters.takeDropped(), 2)
  t.equal(counters.takeDropped(), 0)
})

// wire: usage.period
t.test('a period of 0 switches it off', async (t) => {
  const { log } = capturedLog()
  const clock = new ManualClock()
  const counters = new UsageCounters()
  const client = { send: () => Promise.reject(new Error('nothing should be sent')) }
  const report = new UsageReport({ client, counters, log, clock }, { periodMs: 0 })
  counters.counter('k8s_api_proxy_request')()
  await report.start()
  t.equal(clock.pending, 0)
  await report.stop()
})

t.test('one agent fills neither the list of events nor the memory; what it is over is counted', (t) => {
  const registration = (agent: bigint, version: string) => ({
    project_id: 1n,
    agent_id: agent,
    agent_version: version,
    architecture: 'arm64',
    kubernetes_version: 'v1.31.4',
    extra_telemetry_data: {},
  })
  const counters = new UsageCounters()
  const register = (agent: bigint, version: string) =>
    counters.event('register_agent_at_kas')(registration(agent, version))
  for (let i = 0; i < 1000; i++) register(666n, `version ${i}`)
  for (let i = 0; i < 1000; i++) register(666n, 'version 0')
  for (let agent = 1n; agent <= 20n; agent++) register(agent, 'v18.9.0')
  t.equal(counters.takeDropped(), 990, 'the same event again is none that is dropped')
  const told = () => {
    const body = (counters.events()?.body ?? {}) as { events?: { register_agent_at_kas?: unknown[] } }
    return body.events?.register_agent_at_kas?.length
  }
  t.equal(told(), 30)
  counters.events()?.taken()
  t.equal(counters.events(), undefined)
  register(666n, 'version 1000')
  t.equal(counters.takeDropped(), 0, 'the next period it may again')
  t.equal(told(), 1)
  t.end()
})

t.test('events have a budget of characters, which is free again once they are told', (t) => {
  const counters = new UsageCounters({ maxEventCharacters: 1000, maxListed: 5 })
  const name = 'k8s_api_proxy_requests_unique_users_via_ci_access'
  const keep = () => {
    for (let i = 0n; i < 100n; i++) counters.event(name)(event(i))
    return 100 - counters.takeDropped()
  }
  const kept = keep()
  t.ok(kept > 10 && kept < 50, `${kept} events`)
  for (let part = counters.events(); part; part = counters.events()) part.taken()
  t.equal(keep(), kept)
  t.end()
})
