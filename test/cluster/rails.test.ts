import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { RegisterRequestSchema, UnregisterRequestSchema } from '../../src/proto/gen/agent_registrar_pb.ts'
import { GetConnectedAgentsResponseSchema } from '../../src/proto/gen/agent_tracker_rpc_pb.ts'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { callUnary, connect, goodMetadata, metadataOf, openBidi } from '../contract/rails-server/start-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { agentToken, type KasApp, startKasApps } from './kas-apps.ts'

/** GitLab's calls have the same result at each replica (issue "any replica", Shows 3). */

const tracker = '/gitlab.agent.agent_tracker.rpc.AgentTracker/'
const registrar = '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/'
const for42 = { 'kas-hop-routing-agent-id': '42' }

/** A pod of the agent that calls AgentRegistrar at one replica. */
function podOf(t: Test, replica: KasApp, token = agentToken) {
  const client = connect(t, replica.port('Agentk API'))
  const call = async (method: string, request: Uint8Array) => {
    const metadata = metadataOf({ authorization: `Bearer ${token}` })
    const { code, details } = await callUnary(client, registrar + method, request, metadata)
    t.equal(code, grpc.status.OK, `${method} ${details}`)
  }
  const agentMeta = { version: 'v18.5.0', podName: 'pod' }
  return {
    register: (podId: bigint) =>
      call('Register', toBinary(RegisterRequestSchema, create(RegisterRequestSchema, { agentMeta, podId }))),
    unregister: (podId: bigint) =>
      call('Unregister', toBinary(UnregisterRequestSchema, create(UnregisterRequestSchema, { podId }))),
  }
}

/** Returns clients that ask each replica's AgentTracker; answers are bytes. */
function askers(t: Test, replicas: readonly KasApp[]) {
  const clients = replicas.map((replica) => connect(t, replica.port('API')))
  const ask = async (client: grpc.Client, method: string, request: Uint8Array) => {
    const { code, response } = await callUnary(client, tracker + method, request, await goodMetadata())
    if (code !== grpc.status.OK || !response) throw new Error(`${method}: ${code}`)
    return response
  }
  const everyone = (method: string, request: Uint8Array = Buffer.alloc(0)) =>
    Promise.all(clients.map((client) => ask(client, method, request)))
  const pods = (answer: Uint8Array) =>
    fromBinary(GetConnectedAgentsResponseSchema, answer).agents.map(({ connectionId }) => connectionId)
  /** Waits until each replica names these pods of agent 42 and of project 2; prints how long it took. */
  const agree = async (what: string, of42: bigint[], ofProject2: bigint[]) => {
    const began = performance.now()
    const answers = await eventually(async () => {
      const byAgent = await everyone('GetConnectedAgentsByAgentIDs', Buffer.from([0x0a, 1, 42]))
      const byProject = await everyone('GetConnectedAgentsByProjectIDs', Buffer.from([0x0a, 1, 2]))
      const counts = await everyone('CountAgentsByAgentVersions')
      for (const answer of byAgent) if (`${pods(answer)}` !== `${of42}`) throw new Error(`${pods(answer)}`)
      for (const answer of byProject) if (`${pods(answer)}` !== `${ofProject2}`) throw new Error(`${pods(answer)}`)
      return [byAgent, byProject, counts]
    })
    t.comment(`${what}: the same answers after ${(performance.now() - began).toFixed(0)} ms`)
    for (const [first, ...rest] of answers)
      for (const answer of rest) t.ok(first?.equals(answer), `${what}: byte for byte`)
  }
  return { everyone, pods, agree }
}

// wire: 8150.Register, 8150.Unregister, 8153.tracker.any-replica
t.test('AgentTracker: each replica knows the pods of all, each pod once', async (t) => {
  const replicas = (await startKasApps(t, 3)) as [KasApp, KasApp, KasApp]
  const [first, second, third] = replicas
  const { agree } = askers(t, replicas)
  const here = podOf(t, first)
  await here.register(7n)
  await podOf(t, second).register(8n)
  await podOf(t, third, `${agentToken}3`).register(9n)
  await agree('three pods at three replicas', [7n, 8n], [9n])

  const there = podOf(t, second)
  await there.register(7n)
  await agree('a pod that registers elsewhere', [7n, 8n], [9n])
  await there.unregister(7n)
  await agree('and leaves there', [8n], [9n])
  await here.register(5n)
  await agree('a new pod', [5n, 8n], [9n])
  await there.unregister(5n)
  await agree('that leaves elsewhere', [8n], [9n])

  await third.app.stop()
  const left = askers(t, [first, second])
  await left.agree('a replica that left: its pods tell only every five minutes', [8n], [9n])
})

// wire: 8153.GitPushEvent.all
t.test('a push event is at every replica before GitLab is answered', async (t) => {
  const replicas = (await startKasApps(t, 3)) as [KasApp, KasApp, KasApp]
  for (const [i, replica] of replicas.entries()) {
    const event = { project: { id: BigInt(100 + i), fullPath: 'group/project' } }
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
    const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
    const { code } = await callUnary(connect(t, replica.port('API')), method, request, await goodMetadata())
    t.equal(code, grpc.status.OK)
    for (const { name, lines } of replicas) {
      const told = lines.filter((line) => line.msg === 'A push was announced' && line.project_id === String(100 + i))
      t.equal(told.length, 1, `told to ${replica.name}, heard by ${name} once`)
    }
  }
})

// wire: 8153.agent-call, find.any-replica
t.test('calls of an agent, through each of three replicas of which one holds it', async (t) => {
  const replicas = (await startKasApps(t, 3)) as [KasApp, KasApp, KasApp]
  const agent = await FakeAgent.dial(replicas[1].port('Agentk API'), agentToken)
  t.teardown(() => agent.close())
  for (const replica of replicas) {
    const client = connect(t, replica.port('API'))
    const say = (what: string) => `${replica.name}: ${what}`
    const echoing = agent.open().serveEcho()
    const unary = await callUnary(client, echoMethod, Buffer.from([0, 255]), await goodMetadata(for42))
    t.match(unary, { code: grpc.status.OK, response: Buffer.from([0, 255]) }, say('unary'))
    t.strictSame(unary.headers?.get('served'), ['yes'])
    t.strictSame(unary.trailers.get('ended'), ['yes'])
    await echoing

    const served = agent.open().serveEcho()
    const bidi = openBidi(client, echoMethod, await goodMetadata(for42))
    const reader = bidi.stream[Symbol.asyncIterator]()
    for (const text of ['a', 'b']) {
      bidi.stream.write(Buffer.from(text))
      t.equal(String((await reader.next()).value), text, say('one message after another'))
    }
    bidi.stream.end()
    t.equal((await bidi.status).code, grpc.status.OK)
    await served

    const late = agent.open()
    const deadline = openBidi(client, echoMethod, await goodMetadata(for42), { deadline: Date.now() + 1500 })
    deadline.stream.write(Buffer.from('x'))
    t.match(await late.next(), { kind: 'requestInfo' })
    t.equal((await deadline.status).code, grpc.status.DEADLINE_EXCEEDED)
    const ends = [grpc.status.DEADLINE_EXCEEDED, grpc.status.CANCELLED]
    t.ok(ends.includes((await late.done).error?.grpcCode ?? 0), say('the deadline reaches the agent'))

    const left = agent.open()
    const cancelled = openBidi(client, echoMethod, await goodMetadata(for42))
    cancelled.stream.write(Buffer.from('x'))
    t.match(await left.next(), { kind: 'requestInfo' })
    cancelled.stream.cancel()
    t.equal((await left.done).error?.grpcCode, grpc.status.CANCELLED, say('a caller that leaves does too'))

    const failing = agent.open()
    const failed = callUnary(client, echoMethod, Buffer.from('x'), await goodMetadata(for42))
    t.match(await failing.next(), { kind: 'requestInfo' })
    failing.error(grpc.status.PERMISSION_DENIED, 'not for you')
    failing.stream.end()
    const { code, details, trailers } = await failed
    t.match({ code, details }, { code: grpc.status.PERMISSION_DENIED, details: 'not for you' })
    t.strictSame(trailers.get('kas-delivery'), ['maybe'])
  }
})
