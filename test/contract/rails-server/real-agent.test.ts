import * as grpc from '@grpc/grpc-js'
import t from 'tap'
import type { ConnectResponse } from '../../../src/proto/reverse-tunnel.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { echoMethod, FakeAgent } from '../../support/fake-agent.ts'
import { callUnary, connect, goodMetadata, openBidi, startRailsServer } from './start-server.ts'

/** Calls from GitLab's port through a real server for agents to an agent at the other end of its tunnel. */

const for42 = { 'kas-hop-routing-agent-id': '42' }

// wire: 8153.agent-call, tunnel.metadata.jwt, tunnel.metadata.hop
t.test('calls of GitLab come out at the agent, their ends too', async (t) => {
  const agents = await startAgentsServer(t, { findTimeoutMs: 200 })
  const { port } = await startRailsServer(t, { components: { forward: agents.forward } })
  const client = connect(t, port)
  const agent = await FakeAgent.dial(agents.port)
  t.teardown(() => agent.close())

  const seen: ConnectResponse[] = []
  const served = agent.open().serveEcho((call) => seen.push(call))
  const metadata = await goodMetadata({ ...for42, traceparent: '00-1-2-01' })
  const unary = await callUnary(client, echoMethod, Buffer.from([0, 255]), metadata)
  t.match(unary, { code: grpc.status.OK, response: Buffer.from([0, 255]) })
  t.strictSame(unary.headers?.get('served'), ['yes'])
  t.strictSame(unary.trailers.get('ended'), ['yes'])
  t.match(seen, [{ kind: 'requestInfo', methodName: echoMethod }])
  t.strictSame(Object.keys((seen[0] as { meta: object }).meta), ['traceparent'])
  await served

  const echoing = agent.open().serveEcho()
  const bidi = openBidi(client, echoMethod, await goodMetadata(for42))
  const reader = bidi.stream[Symbol.asyncIterator]()
  for (const text of ['a', 'b']) {
    bidi.stream.write(Buffer.from(text))
    t.equal(String((await reader.next()).value), text)
  }
  bidi.stream.end()
  t.equal((await bidi.status).code, grpc.status.OK)
  await echoing

  const late = agent.open()
  const deadline = openBidi(client, echoMethod, await goodMetadata(for42), { deadline: Date.now() + 150 })
  t.match(await late.next(), { kind: 'requestInfo' })
  t.equal((await deadline.status).code, grpc.status.DEADLINE_EXCEEDED)
  const { error } = await late.done
  t.ok([grpc.status.DEADLINE_EXCEEDED, grpc.status.CANCELLED].includes(error?.grpcCode ?? 0), 'the tunnel ends with it')

  const left = agent.open()
  const cancelled = openBidi(client, echoMethod, await goodMetadata(for42))
  t.match(await left.next(), { kind: 'requestInfo' })
  cancelled.stream.cancel()
  t.equal((await left.done).error?.grpcCode, grpc.status.CANCELLED)

  const failing = agent.open()
  const failed = callUnary(client, echoMethod, Buffer.from('x'), await goodMetadata(for42))
  t.match(await failing.next(), { kind: 'requestInfo' })
  failing.error(grpc.status.PERMISSION_DENIED, 'not for you')
  failing.stream.end()
  const { code, details, trailers } = await failed
  t.match({ code, details }, { code: grpc.status.PERMISSION_DENIED, details: 'not for you' })
  t.strictSame(trailers.get('kas-delivery'), ['maybe'])

  const lost = agent.open()
  const cut = callUnary(client, echoMethod, Buffer.from('x'), await goodMetadata(for42))
  t.match(await lost.next(), { kind: 'requestInfo' })
  agent.close()
  const lostResult = await cut
  t.equal(lostResult.code, grpc.status.UNAVAILABLE)
  t.strictSame(lostResult.trailers.get('kas-delivery'), ['maybe'])

  const absent = await callUnary(client, echoMethod, Buffer.from('x'), await goodMetadata(for42))
  t.match(absent, { code: grpc.status.DEADLINE_EXCEEDED, details: /^Agent connection not found/ })
  t.strictSame(absent.trailers.get('kas-delivery'), ['none'])
})
