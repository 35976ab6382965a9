import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { Balancer } from '../../dev/balancer.ts'
import { ViewClient } from '../../src/kas/modules/views/cli/view-client.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { ReportRequestSchema, ReportResponseSchema } from '../../src/proto/gen/views_pb.ts'
import { ViewsClient } from '../contract/kubernetes-server/views-client.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { FreezableFront } from '../support/freezable-front.ts'
import { GitRepository } from '../support/git-repository.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { patience } from '../support/slowness.ts'
import { testEndpoint } from '../support/test-endpoint.ts'
import { ViewsAgent } from '../support/views-agent.ts'
import { agentToken, type KasApp, startKasApps } from './kas-apps.ts'

/** Whole replicas: views of an agent, from its project's file to a viewer. */

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

const folder = '.gitlab/agents/prod'
const headers = { Authorization: 'Bearer pat:42:ada-token' }

/** Starts replicas where Ada may view the agent's cluster, as herself. */
async function start(t: Test, count: number) {
  const home = await mkdtemp(join(tmpdir(), 'kas-views-')) // t.testdir is that of the replicas
  t.teardown(() => rm(home, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await GitRepository.create(home, 'clusters')
  await repository.push(`${folder}/views.yaml`, 'verdict: kstatus\n')
  await repository.push(
    `${folder}/config.yaml`,
    'user_access: { access_as: { user: {} }, projects: [{ id: platform/clusters }] }\n',
  )
  const apps = await startKasApps(t, count, {
    project: `, git: { url: ${repository.path} }`,
    directory: `environments: [{ project: 1, slug: production, on: [{ agent: 42, namespace: shop }] }]
users: [{ id: 5, username: ada, tokens: [{ sha256: "${sha256('ada-token')}" }], roles: { projects: { 1: [developer] } } }]`,
    agent: '  kubernetes_api: { url_path_prefix: /k8s/, listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }',
  })
  return { repository, apps }
}

/** Opens one view with the CLI's own client, through a front. */
function look(t: Test, port: number, clock: Clock = systemClock) {
  const stop = new AbortController()
  /** `seq` of each update */
  const seen: number[] = []
  const lost: string[] = []
  const client = new ViewClient(
    { clock, random: () => 0.5 },
    testEndpoint({
      url: new URL(`http://127.0.0.1:${port}/k8s`),
      agentId: '42',
      authorization: headers.Authorization,
      clock,
    }),
    {
      query: { view: 'tree' },
      opens: () => true,
      onChange: ({ seq }) => {
        seen.push(seq)
        return false
      },
      onLost: (why) => void lost.push(why),
    },
  )
  const ended = client.run(stop.signal)
  t.teardown(() => {
    stop.abort()
    return ended
  })
  const has = (...wanted: number[]) =>
    eventually(() => seen.join() === wanted.join() || Promise.reject(new Error(`${seen} ${lost}`)))
  return { has, lost }
}

t.test('the entry is killed: who looks goes on at another one, and begins anew', async (t) => {
  const { apps } = await start(t, 3)
  const [holder, entry, next] = apps as [KasApp, KasApp, KasApp]
  const pod = await ViewsAgent.start(holder.port('Agentk API'), 'pod-a', undefined, agentToken)
  t.teardown(() => pod.close())
  const backend = ({ name, port }: KasApp) => ({
    name,
    opsPort: port('Observability'),
    ports: [port('Kubernetes API')],
  })
  const balancer = new Balancer({ fronts: [0], replicas: [backend(entry)], askTimeoutMs: patience(20_000) })
  await balancer.start()
  t.teardown(() => balancer.stop())
  const there = Array.from({ length: 5 }, () => look(t, balancer.ports[0] as number))
  const elsewhere = Array.from({ length: 5 }, () => look(t, next.port('Kubernetes API')))
  await Promise.all([...there, ...elsewhere].map(({ has }) => has(1, 2)))
  balancer.add(backend(next))
  await eventually(() => balancer.ready.includes(next.name))
  await entry.app.stop(AbortSignal.abort())
  await Promise.all(there.map(({ has }) => has(1, 2, 1, 2)))
  const losses = (viewers: typeof there) => viewers.map(({ lost }) => lost.length)
  t.strictSame(losses(there), [1, 1, 1, 1, 1])
  t.strictSame(losses(elsewhere), [0, 0, 0, 0, 0], 'who was elsewhere has seen nothing of it')
})

t.test('the entry is frozen: its client gives it up, and begins anew', async (t) => {
  const { apps } = await start(t, 2)
  const [holder, entry] = apps as [KasApp, KasApp]
  const pod = await ViewsAgent.start(holder.port('Agentk API'), 'pod-a', undefined, agentToken)
  t.teardown(() => pod.close())
  const front = await FreezableFront.start(t, entry.port('Kubernetes API'))
  const clock = new ManualClock()
  const { has, lost } = look(t, front.port, clock)
  await has(1, 2)
  front.freeze()
  clock.advance(30_000) // two pings
  await eventually(() => lost.length === 1 || Promise.reject(new Error('not given up')))
  // timers of its next try, and of its report about the wait
  await eventually(() => clock.pending === 2 || Promise.reject(new Error('it does not wait')))
  clock.advance(1000)
  await has(1, 2, 1, 2)
})

t.test('views.yaml reaches the pod that leads; its views reach who may see them, by any replica', async (t) => {
  const { repository, apps } = await start(t, 2)
  const [holder, entry] = apps
  if (!holder || !entry) throw new Error('two were started')
  const pod = await ViewsAgent.start(holder.port('Agentk API'), 'pod-a', undefined, agentToken)
  t.teardown(() => pod.close())

  const authorization = [`Bearer ${agentToken}`]
  const report = pod.agent.session.open({ method: '/agentk.views.v1.Reports/Report', metadata: { authorization } })
  const facts = { podName: 'pod-a', kubernetesVersion: 'v1.35.0', kinds: 3, objects: 9, state: 'live' }
  void report.send(toBinary(ReportRequestSchema, create(ReportRequestSchema, { facts })))
  const responses = report.messages[Symbol.asyncIterator]()
  const first = fromBinary(ReportResponseSchema, (await responses.next()).value as Uint8Array)
  t.equal(String(Buffer.from(first.what.value?.block ?? [])), '{"verdict":"kstatus"}')
  t.match(first.what.value?.environments, [{ key: '1/production', namespace: 'shop' }])
  await eventually(async () => {
    const { modules } = (await askSocket(holder.socket, '/status')) as StatusReport
    if (!JSON.stringify(modules).includes('["objects",9]')) throw new Error('its facts have not come')
  })

  const port = entry.port('Kubernetes API')
  const client = await ViewsClient.open(t, port, { path: '/k8s/views', headers })
  client.view(1)
  t.match(await client.next(), { type: 'update', id: 1, update: { seq: 1, from: 'pod-a' } })
  const response = await fetch(`http://127.0.0.1:${port}/k8s/views?view=list`, { headers })
  t.match(await response.json(), { seq: 1, from: 'pod-a' })
  t.equal((await fetch(`http://127.0.0.1:${port}/k8s/views`)).status, 401)

  await repository.push(`${folder}/views.yaml`, 'verdict: best\n')
  const second = fromBinary(ReportResponseSchema, (await responses.next()).value as Uint8Array)
  t.match(second.what.value?.problem, /views.yaml: line 1: verdict: found "best"/)
  t.equal(String(Buffer.from(second.what.value?.block ?? [])), '{"verdict":"kstatus"}', 'the last good one stays')
})
