import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { OwnRegistrations } from '../../../src/kas/modules/agent-tracker/own-registrations.ts'
import { agentTrackerService } from '../../../src/kas/modules/agent-tracker/rails-service.ts'
import { notificationsService } from '../../../src/kas/modules/notifications/rails-service.ts'
import { createServerInfo } from '../../../src/kas/modules/server-info/module.ts'
import type { PushEvent } from '../../../src/kas/repositories/local-pushes.ts'
import {
  CountAgentsByAgentVersionsRequestSchema,
  CountAgentsByAgentVersionsResponseSchema,
  GetConnectedAgentsByAgentIDsRequestSchema,
  GetConnectedAgentsByProjectIDsRequestSchema,
  GetConnectedAgentsRequestSchema,
  GetConnectedAgentsResponseSchema,
} from '../../../src/proto/gen/agent_tracker_rpc_pb.ts'
import { AgentMetaSchema } from '../../../src/proto/gen/entity_pb.ts'
import { GitPushEventRequestSchema } from '../../../src/proto/gen/notifications_pb.ts'
import { GetServerInfoResponseSchema } from '../../../src/proto/gen/server_info_pb.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { callUnary, connect, goodMetadata, openBidi, startRailsServer } from './start-server.ts'

const tracker = '/gitlab.agent.agent_tracker.rpc.AgentTracker/'
const gitPushEvent = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
const agent = (id: bigint, project: bigint) => ({
  id: id as AgentId,
  name: `a${id}`,
  project: { id: project, path: `p/${project}` },
})
const meta = (version: string) => toBinary(AgentMetaSchema, create(AgentMetaSchema, { version, podName: 'pod' }))

async function start(t: Test, publish: (event: PushEvent) => Promise<void> = async () => undefined) {
  const clock = new ManualClock()
  const own = new OwnRegistrations({ clock, monotonic: clock })
  const { port, log } = await startRailsServer(t, {
    components: {
      methods: new Map([
        ...agentTrackerService(own),
        ...(createServerInfo({ advertisedVersion: 'v18.5.0' }).railsMethods ?? []),
        ...notificationsService({ publish, clock }),
      ]),
    },
  })
  const client = connect(t, port)
  const call = async (method: string, request: Uint8Array) => callUnary(client, method, request, await goodMetadata())
  const ask = async <I extends DescMessage, O extends DescMessage>(
    method: string,
    [input, request]: [I, MessageInitShape<I>],
    output: O,
  ): Promise<MessageShape<O>> => {
    const { code, details, response } = await call(method, toBinary(input, create(input, request)))
    t.equal(code, grpc.status.OK, `${method} ${details}`)
    return fromBinary(output, response ?? Buffer.alloc(0))
  }
  return { clock, own, call, ask, log }
}

// wire: 8153.GetConnectedAgents, 8153.GetConnectedAgentsByProjectIds, 8153.GetConnectedAgentsByAgentIds
// wire: 8153.GetConnectedAgentsByProjectIDs, 8153.GetConnectedAgentsByAgentIDs, 8153.GetConnectedAgentksByProjectIDs
// wire: 8153.GetConnectedAgentksByAgentIDs, 8153.CountAgentsByAgentVersions, 8153.tracker.case, 8153.tracker.ids
// wire: 8150.register.meta
t.test('AgentTracker answers under every name it ever had', async (t) => {
  const { clock, own, ask, call } = await start(t)
  // unknown fields, in the agent's own order
  const newer = Buffer.concat([Buffer.from([0x32, 3, 0x61, 0x62, 0x63]), meta('v19.0.0')])
  own.register(agent(42n, 1n), 8n, meta('v18.5.0'))
  own.register(agent(42n, 1n), 7n, newer)
  clock.advance(1500)
  own.register(agent(43n, 2n), 2n ** 63n - 1n, meta('v18.5.0'))
  own.register(agent(9n, 2n), 3n, Buffer.from([0xff]))

  const ids = ({ agents }: MessageShape<typeof GetConnectedAgentsResponseSchema>) =>
    agents.map(({ agentId, connectionId }) => [agentId, connectionId])
  const first = [
    [42n, 7n],
    [42n, 8n],
  ]
  const last = [
    [9n, 3n],
    [43n, 2n ** 63n - 1n],
  ]
  for (const name of [
    'GetConnectedAgentsByAgentIds',
    'GetConnectedAgentsByAgentIDs',
    'GetConnectedAgentksByAgentIDs',
  ]) {
    const get = (agentIds: bigint[]) =>
      ask(tracker + name, [GetConnectedAgentsByAgentIDsRequestSchema, { agentIds }], GetConnectedAgentsResponseSchema)
    t.strictSame(ids(await get([42n, 5n, 42n])), first, name)
    t.strictSame(ids(await get([43n, 42n, 9n])), [last[0], ...first, last[1]], name)
    t.strictSame(ids(await get([])), [], name)
  }
  for (const name of [
    'GetConnectedAgentsByProjectIds',
    'GetConnectedAgentsByProjectIDs',
    'GetConnectedAgentksByProjectIDs',
  ]) {
    const get = (projectIds: bigint[]) =>
      ask(
        tracker + name,
        [GetConnectedAgentsByProjectIDsRequestSchema, { projectIds }],
        GetConnectedAgentsResponseSchema,
      )
    t.strictSame(ids(await get([1n])), first, name)
    t.strictSame(ids(await get([2n, 3n])), last, name)
  }
  const getOld = (request: MessageInitShape<typeof GetConnectedAgentsRequestSchema>['request']) =>
    ask(
      `${tracker}GetConnectedAgents`,
      [GetConnectedAgentsRequestSchema, { request: request as never }],
      GetConnectedAgentsResponseSchema,
    )
  t.strictSame(ids(await getOld({ case: 'projectId', value: 2n })), last)
  const { agents } = await getOld({ case: 'agentId', value: 42n })
  t.strictSame(Buffer.from(agents[0]?.agentMeta ?? []), newer, 'meta byte for byte')
  t.match(agents[0], { agentId: 42n, projectId: 1n })
  t.equal(agents[0]?.connectedAt && timestampMs(agents[0].connectedAt), clock.now() - 1500)
  t.equal((await call(`${tracker}GetConnectedAgents`, Buffer.alloc(0))).code, grpc.status.INVALID_ARGUMENT)

  const { agentVersions } = await ask(
    `${tracker}CountAgentsByAgentVersions`,
    [CountAgentsByAgentVersionsRequestSchema, {}],
    CountAgentsByAgentVersionsResponseSchema,
  )
  t.strictSame({ ...agentVersions }, { '': 1n, 'v18.5.0': 2n, 'v19.0.0': 1n })

  const unpacked = await call(`${tracker}GetConnectedAgentsByAgentIDs`, Buffer.from([0x08, 43, 0x08, 42]))
  t.equal(fromBinary(GetConnectedAgentsResponseSchema, unpacked.response ?? Buffer.alloc(0)).agents.length, 3)
  const packed = await call(`${tracker}GetConnectedAgentsByAgentIDs`, Buffer.from([0x0a, 2, 43, 42]))
  t.strictSame(packed.response, unpacked.response)
  t.equal((await call(`${tracker}GetConnectedAgentsByAgentIDS`, Buffer.alloc(0))).code, grpc.status.UNIMPLEMENTED)
})

// wire: message.agent_tracker.ConnectedAgentInfo, 8153.GetConnectedAgents
t.test('the fields of AgentTracker have the numbers of the wire', async (t) => {
  const { own, call } = await start(t)
  own.register(agent(42n, 1n), 7n, Buffer.from([0x0a, 1, 0x78]))
  const { response } = await call(`${tracker}GetConnectedAgents`, Buffer.from([0x10, 42]))
  const [, , ...fields] = response ?? []
  t.strictSame(fields.slice(0, 5), [0x0a, 3, 0x0a, 1, 0x78], 'agent_meta = 1')
  t.equal(fields[5], 0x12, 'connected_at = 2')
  t.strictSame(fields.slice(-6), [0x18, 7, 0x20, 42, 0x28, 1], 'connection_id = 3, agent_id = 4, project_id = 5')
})

// wire: 8153.GetServerInfo
t.test('ServerInfo has the version of the configuration', async (t) => {
  const { call } = await start(t)
  const { response } = await call('/gitlab.agent.server_info.rpc.ServerInfo/GetServerInfo', Buffer.alloc(0))
  const { currentServerInfo } = fromBinary(GetServerInfoResponseSchema, response ?? Buffer.alloc(0))
  t.match(currentServerInfo, { version: 'v18.5.0', gitRef: 'v18.5.0' })
})

// wire: 8153.GitPushEvent, 8153.GitPushEvent.time, error.8153.GitPushEvent
t.test('GitPushEvent is answered once the replicas know, and after a second at the latest', async (t) => {
  const events: PushEvent[] = []
  const silent = Promise.withResolvers<void>()
  const published = Promise.withResolvers<void>()
  const { clock, call } = await start(t, async (event) => {
    events.push(event)
    if (event.projectId === 2n) {
      published.resolve()
      await silent.promise
    }
    if (event.projectId === 3n) throw new Error('no replica in reach')
  })
  const push = (id: bigint, fullPath = 'group/project') =>
    call(
      gitPushEvent,
      toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event: { project: { id, fullPath } } })),
    )
  const first = await push(1n)
  t.equal(first.code, grpc.status.OK)
  t.equal(first.response?.length, 0)
  const [{ id, ...event }] = events as [PushEvent]
  t.strictSame([event, typeof id], [{ projectId: 1n, projectPath: 'group/project' }, 'bigint'])
  t.equal(events.length, 1)
  t.equal(clock.pending, 0, 'no timer is left')

  const second = push(2n)
  await published.promise
  clock.advance(999)
  t.equal(clock.pending, 1, 'it waits for the replicas')
  clock.advance(1)
  t.equal((await second).code, grpc.status.OK)
  silent.resolve()

  t.match(await push(3n), { code: grpc.status.UNAVAILABLE, details: 'Failed to publish the push event' })
  for (const refused of [push(0n), push(-1n), push(1n, ''), call(gitPushEvent, Buffer.alloc(0))]) {
    t.equal((await refused).code, grpc.status.INVALID_ARGUMENT)
  }
  t.equal(events.length, 3)
})

// wire: log.trace_id, log.grpc_method
t.test('requests that are none, or two, are refused; a fault inside shows no more than its trace id', async (t) => {
  const { call, log } = await start(t, () => {
    throw new TypeError('a secret detail')
  })
  const broken = create(GitPushEventRequestSchema, { event: { project: { id: 1n, fullPath: 'a' } } })
  t.equal((await call(gitPushEvent, toBinary(GitPushEventRequestSchema, broken))).code, grpc.status.UNAVAILABLE)
  const malformed = await call(gitPushEvent, Buffer.from([0x0a, 0x7f, 1]))
  t.match(malformed, { code: grpc.status.INVALID_ARGUMENT, details: /malformed/ })

  const { port, log: faults } = await startRailsServer(t, {
    components: { methods: new Map([['/a.B/C', () => Promise.reject(new TypeError('a secret detail'))]]) },
  })
  const { code, details, trailers } = await callUnary(connect(t, port), '/a.B/C', Buffer.alloc(0), await goodMetadata())
  t.equal(code, grpc.status.INTERNAL)
  t.match(details, /^Internal error\. Trace ID: [0-9a-f]{32}$/)
  const line = faults.find((one) => one.includes(details.slice(-32)))
  t.match(line && JSON.parse(line), { level: 'error', grpc_method: '/a.B/C' })
  t.match(line, /a secret detail/)
  t.strictSame(trailers.getMap()['kas-delivery'], undefined)
  t.notOk(log.some((one) => one.includes('"level":"error"')))

  const { stream, status } = openBidi(connect(t, port), '/a.B/C', await goodMetadata())
  stream.write(Buffer.from('a'))
  stream.write(Buffer.from('b'))
  stream.end()
  t.match(await status, { code: grpc.status.INVALID_ARGUMENT, details: 'more than one request message' })
})
