import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { anyPack } from '@bufbuild/protobuf/wkt'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { RegisterRequestSchema } from '../../../src/proto/gen/agent_registrar_pb.ts'
import { ReconcileProjectsRequestSchema, ReconcileProjectsResponseSchema } from '../../../src/proto/gen/flux_pb.ts'
import { HeaderExtraSchema } from '../../../src/proto/gen/gitlab_access_pb.ts'
import { HttpRequestSchema, HttpResponseSchema } from '../../../src/proto/gen/grpctool_pb.ts'
import { GitPushEventRequestSchema } from '../../../src/proto/gen/notifications_pb.ts'
import { encodeHttpResponse, gitlabAccessMethod, kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { FakeAgent, type FakeTunnel } from '../../support/fake-agent.ts'
import { callUnary, connect, jwt, metadataOf } from '../rails-server/start-server.ts'
import { startWholeKas } from './whole-kas.ts'

/** Reports of a whole kas to GitLab about agents and users, under upstream's names. */

const token = 'glagent-prod'
const metadata = { authorization: [`Bearer ${token}`] }

async function dial(t: Test, port: number): Promise<FakeAgent> {
  const agent = await FakeAgent.dial(port, token)
  t.teardown(() => agent.close())
  return agent
}

/** Answers one HTTP request with 204. */
async function serveOnce(tunnel: FakeTunnel): Promise<void> {
  for (let message = await tunnel.next(); message?.kind !== 'closeSend'; message = await tunnel.next());
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(encodeHttpResponse.header({ statusCode: 204, status: '204 No Content', header: [] }))
  tunnel.message(encodeHttpResponse.trailer)
  tunnel.send(encodeConnectRequest.trailer({}))
  tunnel.stream.end()
}

// wire: usage.k8s_api_proxy_requests_via_user_access, usage.unique.user, event.user
t.test('a user by cookie', async (t) => {
  const access = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }'
  const { gitlab, app, portOf } = await startWholeKas(t, access)
  const served = serveOnce((await dial(t, portOf('Agentk API'))).open([kubernetesApiMethod]))
  const headers = { Cookie: '_gitlab_kas=cookie-of-ada', 'Gitlab-Agent-Id': '42', 'X-Csrf-Token': 'csrf-of-ada' }
  t.equal((await fetch(`http://127.0.0.1:${portOf('Kubernetes API')}/version`, { headers })).status, 204)
  await served
  await app.stop()
  t.strictSame(gitlab.taken.get('/internal/kubernetes/usage_metrics'), [
    {
      counters: { k8s_api_proxy_request: 1, k8s_api_proxy_requests_via_user_access: 1 },
      unique_counters: {
        k8s_api_proxy_requests_unique_users_via_user_access: [5],
        k8s_api_proxy_requests_unique_agents_via_user_access: [42],
      },
    },
  ])
  t.strictSame(gitlab.taken.get('/internal/kubernetes/agent_events'), [
    { events: { k8s_api_proxy_requests_unique_users_via_user_access: [{ user_id: 5, project_id: 1 }] } },
  ])
})

// wire: event.register_agent_at_kas
t.test('a pod that registers', async (t) => {
  const { gitlab, app, portOf } = await startWholeKas(t)
  const kubernetesVersion = { gitVersion: 'v1.33.1', platform: 'linux/arm64' }
  const request = create(RegisterRequestSchema, { agentMeta: { version: 'v18.5.0', kubernetesVersion }, podId: 7n })
  const { code } = await callUnary(
    connect(t, portOf('Agentk API')),
    '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register',
    toBinary(RegisterRequestSchema, request),
    metadataOf({ authorization: `Bearer ${token}` }),
  )
  t.equal(code, status.OK)
  await app.stop()
  const event = {
    project_id: 1,
    agent_id: 42,
    agent_version: 'v18.5.0',
    architecture: 'arm64',
    kubernetes_version: 'v1.33.1',
    extra_telemetry_data: {},
  }
  t.strictSame(gitlab.taken.get('/internal/kubernetes/agent_events'), [{ events: { register_agent_at_kas: [event] } }])
})

// wire: 8150.MakeRequest, rest.modules, access.answer
t.test('a request of an agent to a module of GitLab', async (t) => {
  const { gitlab, portOf } = await startWholeKas(t)
  gitlab.module = (_, response) => response.writeHead(201).end('made')
  const agent = await dial(t, portOf('Agentk API'))
  const stream = agent.session.open({ method: gitlabAccessMethod, metadata })
  const extra = anyPack(HeaderExtraSchema, create(HeaderExtraSchema, { moduleName: 'a module' }))
  const value = { request: { method: 'POST', urlPath: '/reconcile' }, extra, contentLength: 0n }
  for (const message of [{ case: 'header', value } as const, { case: 'trailer', value: {} } as const]) {
    await stream.send(toBinary(HttpRequestSchema, create(HttpRequestSchema, { message })))
  }
  stream.end()
  const answer: unknown[] = []
  for await (const bytes of stream.messages) answer.push(fromBinary(HttpResponseSchema, bytes).message)
  t.match(answer, [
    { case: 'header', value: { response: { statusCode: 201 } } },
    { case: 'data', value: { data: Buffer.from('made') } },
    { case: 'trailer' },
  ])
  const [call] = gitlab.calls.slice(-1)
  t.match(call, { method: 'POST', path: '/internal/kubernetes/modules/a%20module/reconcile' })
  t.match(call?.headers, { 'gitlab-agent-api-request': token, 'gitlab-kas-api-request': /^eyJ/ })
})

// wire: 8150.ReconcileProjects, flux.notice, flux.access, usage.flux_git_push_notifications_total, usage.unique.flux
// wire: metric.flux_git_push_notifications_total, metric.flux_dropped_git_push_notifications_total
t.test('a push that an agent follows for its Flux', async (t) => {
  const { gitlab, app, portOf } = await startWholeKas(t)
  const agent = await dial(t, portOf('Agentk API'))
  const stream = agent.session.open({ method: '/gitlab.agent.flux.rpc.GitLabFlux/ReconcileProjects', metadata })
  const project = [{ id: 'platform/clusters' }, { id: 'apps/web' }]
  await stream.send(toBinary(ReconcileProjectsRequestSchema, create(ReconcileProjectsRequestSchema, { project })))
  stream.end()
  await stream.metadata
  const rails = connect(t, portOf('API'))
  const authorization = `bearer ${await jwt({ key: gitlab.secret })}`
  for (const [i, fullPath] of ['other/thing', 'apps/web', 'platform/clusters'].entries()) {
    const event = { project: { id: BigInt(i + 1), fullPath } }
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
    const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
    t.equal((await callUnary(rails, method, request, metadataOf({ authorization }))).code, status.OK)
  }
  const { value } = await stream.messages[Symbol.asyncIterator]().next()
  const told = fromBinary(ReconcileProjectsResponseSchema, value)
  t.equal(told.project?.id, 'platform/clusters', 'neither one that it does not follow nor one that it may not read')
  const metrics = await (await fetch(`http://127.0.0.1:${portOf('Observability')}/metrics`)).text()
  t.match(metrics, /^flux_git_push_notifications_total 1$/m)
  t.match(metrics, /^flux_dropped_git_push_notifications_total 0$/m)
  await app.stop()
  t.strictSame(gitlab.taken.get('/internal/kubernetes/usage_metrics'), [
    {
      counters: { flux_git_push_notifications_total: 1 },
      unique_counters: { flux_git_push_notified_unique_projects: [3] },
    },
  ])
})
