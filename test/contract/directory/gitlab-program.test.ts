import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { getConfigurationMethod } from '../../../src/kas/modules/configuration/configuration.ts'
import { ConfigurationRequestSchema } from '../../../src/proto/gen/agent_configuration_pb.ts'
import { kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { startKasApp } from '../../support/kas-app.ts'
import { serveOnce } from '../../support/serve-once.ts'

/** A whole kas with a GitLab, with the configuration file that packages write. */

async function start(t: Test, configuration: string, { reportingPeriod = '60s', infoTtl = '300s' } = {}) {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const folder = t.testdir({ secret: gitlab.secret.toString('base64') })
  const secret = `authentication_secret_file: ${join(folder, 'secret')}`
  const [gossip] = await freePorts(1)
  const { app, lines, portOf } = await startKasApp(
    t,
    `
gitlab: { address: "${gitlab.address}", ${secret}, external_url: "https://gitlab.example.com" }
agent:
  info_cache_ttl: ${infoTtl}
  listen: { address: "127.0.0.1:0", websocket: true, listen_grace_period: 0s }
  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s }, url_path_prefix: /k8s-proxy }
api: { listen: { address: "127.0.0.1:0", ${secret}, listen_grace_period: 0s } }
private_api: { listen: { address: "127.0.0.1:0", ${secret}, listen_grace_period: 0s } }
cluster: { name: kas-0, listen: { address: "127.0.0.1:${gossip}" } }
observability: { usage_reporting_period: ${reportingPeriod}, listen: { address: "127.0.0.1:0" } }
redis: { server: { address: "redis:6379" } }
`,
  )
  const get = (authorization: string, path = '/version') =>
    fetch(`http://127.0.0.1:${portOf('Kubernetes API')}/k8s-proxy${path}`, { headers: { authorization } })
  return { gitlab, app, lines, portOf, get }
}

// wire: rest.usage_metrics, rest.agent_events, usage.k8s_api_proxy_request
// wire: usage.k8s_api_proxy_requests_via_ci_access, usage.k8s_api_proxy_requests_via_pat_access, usage.unique.ci
// wire: usage.unique.pat, usage.unique.agent_users_using_ci_tunnel, event.ci, event.pat
t.test('an agent of GitLab serves a job and a user, and GitLab counts them before kas ends', async (t) => {
  const { gitlab, app, portOf, get } = await start(
    t,
    'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }',
  )
  const agent = await FakeAgent.dial(portOf('Agentk API'), 'glagent-prod')
  t.teardown(() => agent.close())
  const serving = [0, 1].map(() => serveOnce(agent.open([kubernetesApiMethod])))
  for (const token of ['ci:42:job-clusters', 'pat:42:glpat-ada']) {
    const response = await get(`Bearer ${token}`)
    t.equal(response.status, 200)
    t.equal(await response.text(), 'from the cluster')
  }
  await Promise.all(serving)
  t.match(gitlab.calls[0]?.userAgent, 'gitlab-kas/v18.5.0/test')
  t.equal(gitlab.of('/internal/kubernetes/usage_metrics').length, 0, 'not yet')
  await app.stop()
  t.strictSame(gitlab.taken.get('/internal/kubernetes/usage_metrics'), [
    {
      counters: {
        k8s_api_proxy_request: 2,
        k8s_api_proxy_requests_via_ci_access: 1,
        k8s_api_proxy_requests_via_pat_access: 1,
      },
      unique_counters: {
        k8s_api_proxy_requests_unique_users_via_ci_access: [5],
        k8s_api_proxy_requests_unique_agents_via_ci_access: [42],
        agent_users_using_ci_tunnel: [5],
        k8s_api_proxy_requests_unique_users_via_pat_access: [5],
        k8s_api_proxy_requests_unique_agents_via_pat_access: [42],
      },
    },
  ])
  t.strictSame(gitlab.taken.get('/internal/kubernetes/agent_events'), [
    {
      events: {
        k8s_api_proxy_requests_unique_users_via_ci_access: [{ user_id: 5, project_id: 1 }],
        k8s_api_proxy_requests_unique_users_via_pat_access: [{ user_id: 5, project_id: 1 }],
      },
    },
  ])
})

// wire: error.ci.401, error.ci.403, error.ci.404, error.ci.other, error.ci.agent, error.user.refused
// wire: error.user.other
t.test('what callers of 8154 get of refusals and failures, in captured words', async (t) => {
  const { gitlab, get } = await start(t, '')
  const message = async (token: string) => {
    const response = await get(`Bearer ${token}`, '/api/v1/pods')
    const { message } = (await response.json()) as { message: string }
    return [response.status, message.replace('GitLab Agent Server: ', '')]
  }
  const path = '/api/v4/job/allowed_agents'
  t.strictSame(await message('ci:42:none'), [401, `Unauthorized: CI job token: HTTP status code: 401 for path ${path}`])
  t.strictSame(await message('ci:43:job-clusters'), [403, 'Forbidden: agentId is not allowed'])
  t.strictSame(await message('pat:42:none'), [401, 'Unauthorized'])
  const failures = [
    [403, [403, `Forbidden: CI job token: HTTP status code: 403 for path ${path}`]],
    [404, [404, `Not found: agents for CI job token: HTTP status code: 404 for path ${path}`]],
    [501, [500, `Failed to get allowed agents for CI job token: HTTP status code: 501 for path ${path}`]],
  ] as const
  for (const [status, told] of failures) {
    gitlab.fault = { kind: 'status', status }
    t.strictSame(await message(`ci:42:job-${status}`), told)
  }
  gitlab.fault = { kind: 'html' }
  const [status, told] = await message('pat:42:other')
  t.equal(status, 500)
  t.match(told, /^Failed to authorize user session: The answer of GitLab for path .* it is text\/html, no JSON$/)
})

// wire: rest.usage_metrics.failure
t.test('counters that GitLab does not take are reported later, once', async (t) => {
  const { gitlab, app, lines, get } = await start(t, '', { reportingPeriod: '50ms' })
  const path = '/internal/kubernetes/usage_metrics'
  gitlab.fault = { kind: 'status', status: 500, path }
  const asked = get('Bearer ci:42:job-clusters').catch(() => undefined) // the agent is not connected
  await eventually(() => gitlab.of(path).length >= 2 || Promise.reject(new Error('not yet')))
  gitlab.fault = undefined
  await app.stop(AbortSignal.abort())
  await asked
  t.match(gitlab.taken.get(path), [{ counters: { k8s_api_proxy_request: 1 } }])
  t.equal(gitlab.taken.get(path)?.length, 1)
  t.ok(lines.some(({ msg }) => msg === 'Usage could not be reported, it is sent later'))
})

// wire: stream.revoked, error.agent.401
t.test('a token that is revoked: its streams and idle tunnels end, and new ones are refused', async (t) => {
  const { gitlab, portOf } = await start(t, '', { infoTtl: '300ms' })
  const agent = await FakeAgent.dial(portOf('Agentk API'), 'glagent-prod')
  t.teardown(() => agent.close())
  const metadata = { authorization: ['Bearer glagent-prod'] }
  const stream = agent.session.open({ method: getConfigurationMethod, metadata })
  void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, { skipRegister: true })))
  const idle = agent.open()
  await eventually(() => gitlab.calls.length >= 4 || Promise.reject(new Error('not asked again and again yet')))
  const [known] = gitlab.world.agents
  if (known) known.tokens = []
  t.match((await stream.done).error, {
    grpcCode: 16,
    message: /^unauthenticated: GitLab: HTTP status code: 401 for path/,
  })
  t.equal((await idle.done).error, undefined, 'asked to come again')
  t.match((await agent.open().done).error, { grpcCode: 16, message: /^unauthenticated: GitLab/ })
})

// wire: log.tokens
t.test('no token reaches the log', async (t) => {
  const { gitlab, lines, get, app } = await start(t, '')
  for (const kind of ['html', 'half'] as const) {
    gitlab.fault = { kind }
    await get(`Bearer ci:42:secret-${kind}`)
    await get(`Bearer pat:42:secret-${kind}`)
  }
  await app.stop(AbortSignal.abort())
  t.notMatch(JSON.stringify(lines), /secret-|eyJ/)
})
