import { once } from 'node:events'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { KasHost, KasModule } from '../../../src/kas/module.ts'
import { createViews } from '../../../src/kas/modules/views/module.ts'
import { reportMethod } from '../../../src/kas/modules/views/reports.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { closeCodes } from '../../../src/lib/close-codes.ts'
import { ReportRequestSchema, ReportResponseSchema } from '../../../src/proto/gen/views_pb.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { fakeHost } from '../../support/fake-host.ts'
import { defaultRequest } from '../../support/graph/strict-graph.ts'
import { ViewsAgent } from '../../support/views-agent.ts'
import { clusterForward, echo } from '../kubernetes-server/fake-cluster.ts'
import { GraphClient } from '../kubernetes-server/graph-client.ts'
import { startServer } from '../kubernetes-server/start-server.ts'
import { ViewsClient } from '../kubernetes-server/views-client.ts'
import { connect, metadataOf, openBidi } from '../rails-server/start-server.ts'

/** The module of views as kas creates it, on the two ports that carry it. */

const headers = { Authorization: 'Bearer pat:42:as-user' }
const file = '{"verdict":"kstatus"}'

async function start(t: Test) {
  const agentConfig: KasHost['agentConfig'] = {
    ...fakeHost().agentConfig,
    newest: async () => ({ commit: 'one' }) as never,
    file: async (_agent, _commit, { name }) => (name === 'views.yaml' ? file : undefined),
  }
  const environment = { key: '1/production', namespace: 'shop', selector: {} }
  const localDirectory = { environmentsOf: () => [environment] } as unknown as KasHost['localDirectory']
  const host = fakeHost({
    agentConfig,
    localDirectory,
    clock: systemClock,
    forward: (call) => agents.forward(call),
    serves: (...asked) => agents.serves(...asked),
  })
  const module: KasModule = createViews(host, { pollMs: 300_000 })
  const agents = await startAgentsServer(t, { components: { methods: module.agentMethods ?? {} } })
  const users = await startServer(clusterForward(echo), {}, undefined, { endpoints: module.endpoints ?? [] })
  t.teardown(() => users.server.stop(AbortSignal.abort()))
  for (const service of module.services ?? []) await service.start()
  const stop = () => Promise.all((module.services ?? []).map((service) => service.stop()))
  t.teardown(stop)
  const report = () => openBidi(connect(t, agents.port), reportMethod, metadataOf({ authorization: 'Bearer good' }))
  const status = () => Object.fromEntries(module.status?.() ?? [])
  const metrics = async () => await host.register.metrics()
  return { agents, users, report, status, metrics, stop }
}

t.test('the WebSockets of both endpoints share one agent; they are counted, and end with the service', async (t) => {
  const { agents, users, status, metrics, stop } = await start(t)
  const agent = await ViewsAgent.start(agents.port, 'pod-a')
  t.teardown(() => agent.close())
  const client = (await ViewsClient.open(t, users.port, { headers })).view(7)
  for (const seq of [1, 2]) t.match(await client.next(), { type: 'update', id: 7, update: { seq, from: 'pod-a' } })
  const graph = (await GraphClient.open(t, users.port, { headers })).ask(defaultRequest)
  await eventually(() => agent.heard.includes('2 taken'))
  t.strictSame(agent.heard.slice(0, 4), ['1 open', '1 taken', '1 taken', '2 open'])
  t.match(status(), { 'views open': 2, 'agents followed': 1 })
  t.match(await metrics(), /^kas_views_open 2$/m)
  t.match(await metrics(), /^kas_views_updates_total [34]$/m)
  await stop()
  t.match(await client.next(), { id: 7, code: 'SHUTTING_DOWN' })
  t.equal((await graph.closed).code, closeCodes.tryAgainLater)
  t.match(status(), { 'views open': 0, 'agents followed': 0 })
})

t.test('an agent reports, and gets what its views are to show; the report ends with its stream', async (t) => {
  const { report, status } = await start(t)
  const facts = { state: 'live', kinds: 3, objects: 40 }
  const { stream, status: ended } = report()
  stream.write(Buffer.from(toBinary(ReportRequestSchema, create(ReportRequestSchema, { facts }))))
  const { what } = fromBinary(ReportResponseSchema, (await once(stream, 'data'))[0] as Uint8Array)
  const { block, environments } = what.value ?? {}
  t.equal(Buffer.from(block ?? []).toString(), file)
  t.match(environments, [{ key: '1/production', namespace: 'shop' }])
  const reported = { 'agents that report': 1, 'of them live': 1, kinds: 3, objects: 40 }
  await eventually(() => status()['agents that report'] === 1)
  t.match(status(), reported)
  stream.end()
  t.equal((await ended).code, grpc.status.OK)
  t.match(status(), { 'agents that report': 0, kinds: 0, objects: 0 })
})

t.test('a report over its bounds is refused', async (t) => {
  const { report, status } = await start(t)
  const { stream, status: ended } = report()
  stream.write(Buffer.alloc(16 * 1024 + 1))
  t.equal((await ended).code, grpc.status.RESOURCE_EXHAUSTED)
  t.match(status(), { 'agents that report': 0 })
})
