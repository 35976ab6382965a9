import { once } from 'node:events'
import t from 'tap'
import { Code } from '../../../src/lib/errors.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, callThrough, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { echoMethod, FakeAgent, type FakeTunnel } from '../../support/fake-agent.ts'

// wire: 8150.Connect, tunnel.kas-first, tunnel.request-info, tunnel.half-close, tunnel.metadata.response
t.test('a call: request_info, messages, close_send; header, messages, trailer, EOF', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const running = callThrough(forward, ['one', 'two'], { metadata: { traceparent: ['00-ab'] } })
  t.same(await tunnel.next(), { kind: 'requestInfo', methodName: echoMethod, meta: { traceparent: ['00-ab'] } })
  t.equal(Buffer.from(((await tunnel.next()) as { data: Uint8Array }).data).toString(), 'one')
  t.equal(Buffer.from(((await tunnel.next()) as { data: Uint8Array }).data).toString(), 'two')
  t.same(await tunnel.next(), { kind: 'closeSend' })
  tunnel.send(encodeConnectRequest.header({ a: ['1', '2'], 'k-bin': ['AP8='] }))
  tunnel.message(Buffer.from('answer'))
  tunnel.send(encodeConnectRequest.trailer({ b: ['3'] }))
  tunnel.stream.end()
  t.same(await running, {
    messages: ['answer'],
    metadata: { a: ['1', '2'], 'k-bin': ['AP8='] },
    trailers: { b: ['3'] },
  })
  t.same(await tunnel.done, { trailers: {} }, 'Connect ends with OK')
})

// wire: tunnel.error-first
t.test('an error straight after the descriptor is the call’s; Connect ends with OK', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const running = callThrough(forward, ['x'])
  await tunnel.next()
  tunnel.error(Code.UNIMPLEMENTED, 'no such thing')
  tunnel.stream.end()
  const { error, messages } = await running
  t.same([error?.grpcCode, error?.message, messages], [Code.UNIMPLEMENTED, 'no such thing', []])
  t.equal((await tunnel.done).error, undefined)
})

// wire: tunnel.error-last
t.test('an error after the trailer keeps the trailer’s metadata', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const running = callThrough(forward, [])
  await tunnel.next()
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(Buffer.from('half'))
  tunnel.send(encodeConnectRequest.trailer({ why: ['this'] }))
  tunnel.error(Code.ABORTED, 'broken off')
  tunnel.stream.end()
  const reply = await running
  t.same([reply.messages, reply.trailers, reply.error?.grpcCode], [['half'], { why: ['this'] }, Code.ABORTED])
})

const wrongOrders: Record<string, (tunnel: ReturnType<FakeAgent['open']>) => void> = {
  'a message before the header': (tunnel) => tunnel.message(Buffer.from('x')),
  'two headers': (tunnel) => {
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.send(encodeConnectRequest.header({}))
  },
  'the end without a trailer': (tunnel) => {
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.stream.end()
  },
  'a message after the trailer': (tunnel) => {
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.send(encodeConnectRequest.trailer({}))
    tunnel.message(Buffer.from('x'))
  },
  'bytes that are no message': (tunnel) => tunnel.send(Buffer.from([0xff, 0xff, 0xff])),
  'no field set': (tunnel) => tunnel.send(new Uint8Array(0)),
}
// wire: tunnel.order, tunnel.unset, error.agent.invalid
for (const [name, misbehave] of Object.entries(wrongOrders)) {
  t.test(`${name}: INVALID_ARGUMENT to caller and agent, and nobody else`, async (t) => {
    const { forward, port } = await startAgentsServer(t)
    const agent = await FakeAgent.dial(port)
    t.teardown(() => agent.close())
    const tunnel = agent.open()
    const running = callThrough(forward, [])
    await tunnel.next()
    misbehave(tunnel)
    t.equal((await running).error?.grpcCode, Code.INVALID_ARGUMENT)
    t.equal((await tunnel.done).error?.grpcCode, Code.INVALID_ARGUMENT)
    const other = agent.open()
    void other.serveEcho()
    t.same((await callThrough(forward, ['still here'])).messages, ['still here'])
  })
}

// wire: tunnel.idle-silent
t.test('the first message must be a descriptor', async (t) => {
  const { port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const first: Record<string, (tunnel: FakeTunnel) => void> = {
    header: (tunnel) => tunnel.send(encodeConnectRequest.header({})),
    message: (tunnel) => tunnel.message(Buffer.from('x')),
    trailer: (tunnel) => tunnel.send(encodeConnectRequest.trailer({})),
    error: (tunnel) => tunnel.error(Code.UNAVAILABLE, 'x'),
    'no ConnectRequest': (tunnel) => tunnel.send(Buffer.from([0xff])),
  }
  for (const [name, say] of Object.entries(first)) {
    const silent = agent.openSilently()
    say(silent)
    t.equal((await silent.done).error?.grpcCode, Code.INVALID_ARGUMENT, name)
    const described = agent.open([])
    say(described)
    t.equal((await described.done).error?.grpcCode, Code.INVALID_ARGUMENT, `${name} on an idle tunnel`)
  }
  const twice = agent.open([])
  twice.describe([echoMethod])
  t.equal((await twice.done).error?.grpcCode, Code.INVALID_ARGUMENT, 'a second descriptor')
})

// wire: tunnel.caller-leaves
t.test('the caller leaves: Connect ends with CANCELLED, so that the agent stops its work', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const caller = new AbortController()
  const reply = await forward(callOf(['x'], { signal: caller.signal }))
  await tunnel.next()
  caller.abort()
  t.equal((await readReply(reply)).error?.grpcCode, Code.CANCELLED)
  const { error } = await tunnel.done
  t.same([error?.grpcCode, error?.message], [Code.CANCELLED, 'Incoming stream closed'])
})

// wire: tunnel.caller-breaks
t.test('a caller whose messages break: Connect ends with CANCELLED', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const broken = (async function* () {
    yield Buffer.from('one')
    throw new Error('body cut')
  })()
  const reply = await forward(callOf([], { messages: broken }))
  t.equal((await readReply(reply)).error?.message, 'read from incoming stream')
  t.equal((await tunnel.done).error?.grpcCode, Code.CANCELLED)
})

t.test('a reader that stops early cancels the call', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const reply = await forward(callOf([]))
  await tunnel.next()
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(Buffer.from('first'))
  for await (const _ of reply.messages) break
  t.equal((await reply.done).error?.code, 'CANCELLED')
  t.equal((await tunnel.done).error?.grpcCode, Code.CANCELLED)
})

// wire: tunnel.lost
t.test('the agent’s connection is lost: an unsafe call is not repeated, and says maybe', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  const tunnel = agent.open()
  const living = await FakeAgent.dial(port)
  t.teardown(() => living.close())
  const running = callThrough(forward, ['x'])
  await tunnel.next()
  let served = 0
  void living.open().serveEcho(() => served++)
  agent.socket.destroy()
  const { error } = await running
  t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.equal(served, 0)
})

// wire: tunnel.lost
t.test('the agent resets a tunnel with a call on it, as where its pod ends: lost too', async (t) => {
  const { forward, delivered, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const begun = agent.open()
  const running = callThrough(forward, [])
  await begun.next()
  begun.send(encodeConnectRequest.header({}))
  begun.message(Buffer.from('begun'))
  await agent.session.ping()
  begun.stream.cancel()
  const { error, messages } = await running
  t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.same(messages, ['begun'])
  const silent = agent.open()
  const safe = callThrough(delivered, ['x'], { safety: 'safe' })
  await silent.next()
  void agent.open().serveEcho()
  silent.stream.cancel()
  t.same((await safe).messages, ['x'], 'a safe one that was not answered goes another way')
})

t.test('the agent’s connection is lost before the reply: a safe call goes another way, whole', async (t) => {
  const { delivered, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  const tunnel = agent.open()
  const living = await FakeAgent.dial(port)
  t.teardown(() => living.close())
  const running = callThrough(delivered, ['one', 'two'], { safety: 'safe' })
  await tunnel.next()
  await tunnel.next()
  void living.open().serveEcho()
  agent.socket.destroy()
  t.same((await running).messages, ['one', 'two'])
})

t.test('the reply has begun: not repeated, the cut is seen', async (t) => {
  const { delivered, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  const tunnel = agent.open()
  const running = callThrough(delivered, [], { safety: 'safe' })
  await tunnel.next()
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(Buffer.from('begun'))
  const reply = await Promise.race([running, once(agent.socket, 'drain').then(() => undefined), pingThenCut(agent)])
  const ended = reply ?? (await running)
  t.match(ended.error?.spec, { code: 'TUNNEL_LOST' })
  t.same(ended.messages, ['begun'])
})

/** Cuts the connection after the answer to a PING: everything sent before has arrived. */
async function pingThenCut(agent: FakeAgent): Promise<undefined> {
  await agent.session.ping()
  agent.socket.destroy()
}

// wire: tunnel.idle-end
t.test('idle tunnels: half-closed by the agent ends with OK; retired ends with OK', async (t) => {
  const { server, tunnels, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const first = agent.open()
  const second = agent.open()
  await agent.session.ping()
  t.equal(tunnels.holds(agentId), true)
  first.stream.end()
  t.equal((await first.done).error, undefined)
  for (const connection of server.connections) connection.retire()
  t.equal((await second.done).error, undefined)
  t.equal(agent.session.draining, true, 'GOAWAY came')
})
