import { once } from 'node:events'
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import type { AgentCall } from '../../../src/kas/agent-method.ts'
import { ClientAddresses } from '../../../src/kas/servers/addresses/client-addresses.ts'
import { Listener } from '../../../src/kas/servers/agents/listener.ts'
import { maxDescriptionsPerAgent } from '../../../src/kas/tunnels/descriptions.ts'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { descriptorBounds } from '../../../src/proto/agent-descriptor.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { WebSocketDuplex } from '../../../src/proto/grpc/websocket-duplex.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { type AgentsDirectory, callThrough, oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { anyRate } from '../../support/method-rate.ts'

/** Hostile peers on 8150, with or without a token: their attacks end only their own connections. */

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const frame = (type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)) =>
  Buffer.concat([Buffer.of(0, payload.length >> 8, payload.length & 255, type, flags, 0, 0, 0, stream), payload])
const settings = frame(4, 0, 0)
/** `GET http:/`, encoded by HPACK's static table */
const getHead = Buffer.from([0x82, 0x86, 0x84, 0x01, 0x01, 0x61])

async function dial(t: Test, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

/** Checks that an agent that connects now is served. */
async function lives(t: Test, { forward, port }: Awaited<ReturnType<typeof startAgentsServer>>): Promise<void> {
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
}

t.test('the beginning of a preface, and no more for now', async (t) => {
  const server = await startAgentsServer(t)
  const socket = await dial(t, server.port)
  socket.write(preface.subarray(0, 3))
  await lives(t, server)
  socket.write(preface.subarray(3, 10))
  await lives(t, server)
  socket.write(Buffer.concat([preface.subarray(10), settings]))
  const [answer] = (await once(socket, 'data')) as [Buffer]
  t.equal(answer[3], 4, 'SETTINGS: all pieces were put together')
})

t.test('SETTINGS without end: the connection ends', async (t) => {
  const server = await startAgentsServer(t)
  const flood = Buffer.concat(Array.from({ length: 100 }, () => settings))
  const socket = await dial(t, server.port)
  const answers: Buffer[] = []
  socket.on('data', (chunk: Buffer) => answers.push(chunk))
  const closed = once(socket, 'close')
  socket.write(Buffer.concat([preface, settings, ...Array.from({ length: 9 }, () => flood)]))
  await lives(t, server)
  t.notOk(socket.destroyed, 'hundreds are taken')
  socket.write(Buffer.concat([flood, flood]))
  await closed
  const goaway = frame(7, 0, 0, Buffer.concat([Buffer.of(0, 0, 0, 0, 0, 0, 0, 11), Buffer.from('too_many_settings')]))
  t.ok(Buffer.concat(answers).includes(goaway), 'ENHANCE_YOUR_CALM')
  await lives(t, server)
})

t.test('inside a WebSocket: heads that are reset, or whose connection breaks, in the same message', async (t) => {
  const server = await startAgentsServer(t)
  const tails = [frame(3, 0, 1, Buffer.of(0, 0, 0, 8)), frame(6, 0, 0, Buffer.of(1)), frame(0, 0, 0, Buffer.of(1))]
  for (const tail of tails) {
    const webSocket = new WebSocket(`ws://127.0.0.1:${server.port}`, 'ws-tunnel')
    t.teardown(() => webSocket.terminate())
    webSocket.on('error', () => undefined)
    const answered = once(webSocket, 'message')
    await once(webSocket, 'open')
    webSocket.send(Buffer.concat([preface, settings, frame(1, 4, 1, getHead), tail]))
    await answered
    await lives(t, server)
  }
})

t.test('inside a WebSocket: large fragments, with PINGs between them', async (t) => {
  const server = await startAgentsServer(t)
  const webSocket = new WebSocket(`ws://127.0.0.1:${server.port}`, 'ws-tunnel')
  t.teardown(() => webSocket.terminate())
  await once(webSocket, 'open')
  const answered = once(webSocket, 'message')
  const unknownFrame = frame(0xfa, 0, 0, Buffer.alloc(5000))
  for (const fragment of [Buffer.concat([preface, settings, unknownFrame]), unknownFrame]) {
    webSocket.send(fragment, { fin: false })
    webSocket.ping()
    await once(webSocket, 'pong') // so the server reads each fragment by itself
  }
  webSocket.send(settings, { fin: true })
  await answered
  await lives(t, server)
})

async function listen(t: Test, firstBytesTimeoutMs: number) {
  const upgraded: unknown[] = []
  const options = { product: 'kas', websocket: true, firstBytesTimeoutMs, addresses: new ClientAddresses() }
  const refused: string[] = []
  const listener = new Listener(options, {
    connection: (duplex) => upgraded.push(duplex.destroy()),
    identified: () => undefined,
    failed: () => undefined,
    refused: (reason) => refused.push(reason),
  })
  listener.server.listen(0, '127.0.0.1')
  await once(listener.server, 'listening')
  t.teardown(() => listener.server.close())
  return { upgraded, refused, port: (listener.server.address() as AddressInfo).port }
}

t.test('attack: a request whose body has no end is answered, and read no further', async (t) => {
  const { port, refused } = await listen(t, 3_600_000)
  const bodies = {
    'Transfer-Encoding: chunked': '1\r\na\r\n'.repeat(100_000),
    'Content-Length: 1000000000': 'a'.repeat(1_000_000),
  }
  for (const method of ['POST', 'GET']) {
    for (const [header, body] of Object.entries(bodies)) {
      const socket = await dial(t, port)
      socket.resume()
      const pump = (error?: Error | null) => error || socket.write(body, pump)
      socket.write(`${method} / HTTP/1.1\r\nHost: a\r\n${header}\r\n\r\n`, pump)
      await new Promise((resolve) => socket.once('close', resolve)) // possibly closed by a reset
    }
  }
  t.same(refused.filter((reason) => reason === 'upgrade').length, 4)
})

t.test('HTTP that does not come to an upgrade is ended in time', async (t) => {
  const { upgraded, refused, port } = await listen(t, 50)
  for (const text of [
    '',
    'G',
    'GET / HTTP/1.1\r\nHost: a\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n',
    'PRI * HTT',
  ]) {
    const socket = await dial(t, port)
    socket.resume()
    socket.write(text)
    await once(socket, 'close')
  }
  t.same(upgraded, [])
  t.same(refused, Array(5).fill('too_slow'))
})

t.test('half a request does not keep the server from stopping', async (t) => {
  const { server, port } = await startAgentsServer(t)
  const socket = await dial(t, port)
  const closed = once(socket, 'close')
  const answered = once(socket, 'data')
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n')
  await answered
  await server.stop()
  await closed
})

t.test('descriptors have bounds', async (t) => {
  const { port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const many = Array.from({ length: descriptorBounds.methods + 1 }, (_, i) => `/test.Echo/${i}`)
  t.equal((await agent.open(many).done).error?.grpcCode, Code.INVALID_ARGUMENT, 'too many methods')
  const long = [`/test.Echo/${'x'.repeat(descriptorBounds.bytes)}`]
  t.equal((await agent.open(long).done).error?.grpcCode, Code.RESOURCE_EXHAUSTED, 'too many bytes')
  const different = Array.from({ length: maxDescriptionsPerAgent + 1 }, (_, i) => agent.open([`/test.Echo/${i}`]))
  const { error } = await (different.at(-1) as (typeof different)[0]).done
  t.match(error, { grpcCode: Code.INVALID_ARGUMENT, message: /more than 8 different descriptors, allowed: 8/ })
  const again = agent.open(['/test.Echo/0'])
  const method = await Promise.race([again.done.then(() => 'ended'), agent.session.ping().then(() => 'open')])
  t.equal(method, 'open', 'a known one is good')
})

t.test('an agent that has as many streams as it may: one more is refused, those that it has serve', async (t) => {
  const endless = async ({ signal }: AgentCall) => once(signal, 'abort').then(() => undefined)
  const methods = {
    '/test.Poll/Wait': { type: 'server_stream', patient: true, rate: anyRate, serve: endless },
  } as const
  const refused: string[] = []
  const server = await startAgentsServer(t, {
    components: { methods, onRefused: (reason) => refused.push(reason) },
    options: { openStreams: { maxTunnels: 3, maxCalls: 2 } },
  })
  const [agent, again] = [await FakeAgent.dial(server.port), await FakeAgent.dial(server.port)]
  for (const { session } of [agent, again]) t.teardown(() => session.destroy())
  const tunnels = [agent.open(), again.open(), agent.open()]
  const metadata = { authorization: ['Bearer good'] }
  const polls = [agent, again].map(({ session }) => session.open({ method: '/test.Poll/Wait', metadata }))
  await Promise.all([agent, again].map(({ session }) => session.ping()))
  for (const { session } of [agent, again]) {
    const { error } = await session.open({ method: '/test.Poll/Wait', metadata }).done
    t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED, message: /Too many calls of this agent.*allowed: 2/ })
  }
  const { error } = await again.open().done
  t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED, message: /Too many tunnels of this agent.*allowed: 3/ })
  t.same(refused, ['too_many_streams', 'too_many_streams', 'too_many_streams'])
  for (const tunnel of tunnels) void tunnel.serveEcho()
  const calls = tunnels.map(() => callThrough(server.forward, ['x']))
  for (const { messages } of await Promise.all(calls)) t.same(messages, ['x'])
  for (const poll of polls) poll.cancel()
  await agent.session.ping()
  await lives(t, server)
})

t.test('a method may have fewer calls of an agent than all together', async (t) => {
  const endless = async ({ signal }: AgentCall) => once(signal, 'abort').then(() => undefined)
  const method = { type: 'server_stream', patient: true, rate: anyRate, serve: endless } as const
  const refused: string[] = []
  const server = await startAgentsServer(t, {
    components: {
      methods: { '/test.Poll/Heavy': { ...method, maxPerAgent: 2 }, '/test.Poll/Light': method },
      onRefused: (reason) => refused.push(reason),
    },
  })
  const { session } = await FakeAgent.dial(server.port)
  t.teardown(() => session.destroy())
  const open = (name: string) =>
    session.open({ method: `/test.Poll/${name}`, metadata: { authorization: ['Bearer good'] } })
  const [first] = [open('Heavy'), open('Heavy')]
  const { error } = await open('Heavy').done
  t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED, message: /Too many Heavy calls of this agent.*allowed: 2/ })
  t.same(refused, ['too_many_streams'])
  first?.cancel()
  await session.ping()
  const others = [open('Light'), open('Heavy')]
  await session.ping()
  const ended = others.map(({ done }) => done.then(() => 'ended'))
  t.equal(await Promise.race([...ended, session.ping().then(() => 'open')]), 'open')
})

t.test('an agent that arrives while strangers flood is asked about in its turn, not behind them', async (t) => {
  const asked: string[] = []
  const known = oneAgent()
  const directory: AgentsDirectory = {
    ...known,
    agentByToken: (token, signal) => {
      asked.push(token)
      return known.agentByToken(token, signal)
    },
  }
  const server = await startAgentsServer(t, { components: { directory } })
  const [connections, calls] = [30, 32]
  for (let i = 0; i < connections; i++) {
    const socket = connect({ port: server.port, host: '127.0.0.1', localAddress: '127.0.0.2' })
    await once(socket, 'connect')
    const stranger = new FakeAgent(socket, {})
    t.teardown(() => stranger.close())
    for (let call = 0; call < calls; call++) {
      const metadata = { authorization: [`Bearer made-up-${i}-${call}`] }
      stranger.session.open({ method: connectMethod, metadata })
    }
  }
  await lives(t, server)
  const before = asked.indexOf('good')
  t.ok(before >= 0 && before < (connections * calls) / 2, `${before} were asked about before`)
})

t.test('made-up tokens wait to be checked only up to a bound, on their connection alone', async (t) => {
  const asked = Promise.withResolvers<never>()
  t.teardown(() => asked.promise.catch(() => undefined))
  const known = oneAgent()
  const directory: AgentsDirectory = {
    ...known,
    agentByToken: (token, signal) => (token === 'good' ? known.agentByToken(token, signal) : asked.promise),
  }
  const refused: string[] = []
  const server = await startAgentsServer(t, {
    components: { directory, onRefused: (reason) => refused.push(reason) },
    options: { limits: { firstStreams: 1000 } },
  })
  const agent = await FakeAgent.dial(server.port, `made-up-${'x'.repeat(10_000)}`)
  t.teardown(() => agent.close())
  const tunnels = Array.from({ length: 110 }, () => agent.open())
  const { error } = await Promise.race(tunnels.map(({ done }) => done))
  t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED, message: /tokens are yet to be checked, allowed: 1048576/ })
  t.ok(refused.length < 20, 'about a hundred wait')
  await lives(t, server)
  asked.reject(new KasError({ code: 'UNAUTHENTICATED' }))
  t.equal((await (tunnels[0] as (typeof tunnels)[0]).done).error?.grpcCode, Code.UNAUTHENTICATED)
})

t.test('heads beyond what credentials need end their stream alone', async (t) => {
  const server = await startAgentsServer(t)
  const agent = await FakeAgent.dial(server.port, 'x'.repeat(20_000))
  t.teardown(() => agent.close())
  t.ok((await agent.open().done).error)
  t.equal(agent.session.destroyed, false)
  await lives(t, server)
})

t.test('connections on which nobody shows a good token: the longest silent make room, agents stay', async (t) => {
  const refused: string[] = []
  const server = await startAgentsServer(t, {
    components: { onRefused: (reason) => refused.push(reason) },
    options: { unauthenticated: { maxIdlePerAddress: 3, graceMs: 0 } },
  })
  const agent = await FakeAgent.dial(server.port)
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  await agent.session.ping()
  const silent = [await dial(t, server.port)]
  const closed = once(silent[0] as Socket, 'close')
  silent[0]?.resume()
  const stranger = await FakeAgent.dial(server.port, 'made up')
  t.teardown(() => stranger.close())
  t.equal((await stranger.open().done).error?.grpcCode, Code.UNAUTHENTICATED)
  t.equal(stranger.session.destroyed, false, 'a refused call alone ends no connection')
  for (let i = 0; i < 4; i++) silent.push(await dial(t, server.port))
  await closed
  await stranger.session.closed
  t.same(refused, ['unauthenticated', 'too_many_connections', 'too_many_connections', 'too_many_connections'])
  t.same((await callThrough(server.forward, ['x'])).messages, ['x'])
})

t.test('connections beyond those of an agent end, and are unauthenticated until then', async (t) => {
  const refused: string[] = []
  const known = oneAgent()
  const directory: AgentsDirectory = {
    ...known,
    agentByToken: (token, signal) =>
      token === 'slow' ? new Promise(() => undefined) : known.agentByToken(token, signal),
  }
  const server = await startAgentsServer(t, {
    components: { directory, onRefused: (reason) => refused.push(reason) },
    options: { openStreams: { maxConnections: 2 } },
  })
  const dialAgent = async () => {
    const agent = await FakeAgent.dial(server.port)
    t.teardown(() => agent.session.destroy())
    return agent
  }
  const [first, second] = [await dialAgent(), await dialAgent()]
  for (const agent of [first, second]) {
    void agent.open().serveEcho()
    await agent.session.ping()
  }
  for (let i = 0; i < 6; i++) {
    const beyond = await dialAgent()
    const { error } = await beyond.open().done
    t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED, message: /Too many connections of this agent.*allowed: 2/ })
    await beyond.session.closed
  }
  t.same(refused, Array(6).fill('too_many_streams'))
  for (const { session } of [first, second]) t.equal(session.destroyed, false, 'what was let in stays')
  t.same((await callThrough(server.forward, ['x'])).messages, ['x'])

  const shared = await dialAgent()
  const slow = shared.session.open({ method: connectMethod, metadata: { authorization: ['Bearer slow'] } })
  t.match((await shared.open().done).error, { grpcCode: Code.RESOURCE_EXHAUSTED })
  t.equal(shared.session.destroyed, false, 'somebody else on it is not cut')
  slow.cancel()
  await shared.session.closed

  first.session.destroy()
  await eventually(() => {
    if (server.server.connections.size > 1) throw new Error('the first is still there')
  })
  const next = await dialAgent()
  void next.open().serveEcho()
  await next.session.ping()
  t.equal(next.session.destroyed, false, 'there is room again')
})

t.test('a stream counts until its answer has been taken', async (t) => {
  const answer = async (call: AgentCall) => void call.send(Buffer.from('answer'))
  const server = await startAgentsServer(t, {
    components: { methods: { '/test.Ask/Once': { type: 'unary', patient: false, rate: anyRate, serve: answer } } },
    options: { openStreams: { maxTunnels: 3, maxCalls: 2 } },
  })
  const session = connectHttp2(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 0 } })
  t.teardown(() => session.destroy())
  const ask = () => {
    const head = { ':method': 'POST', ':path': '/test.Ask/Once', authorization: 'Bearer good' }
    const stream = session.request({ ...head, 'content-type': 'application/grpc', te: 'trailers' })
    stream.on('error', () => undefined)
    stream.resume()
    return stream
  }
  const unread = [ask(), ask()]
  await Promise.all(unread.map((stream) => once(stream, 'response')))
  const [refusal] = (await once(ask(), 'response')) as [IncomingHttpHeaders]
  t.match(refusal, { 'grpc-status': String(Code.RESOURCE_EXHAUSTED), 'grpc-message': /allowed: 2/ })
  for (const stream of unread) stream.close(8)
  await Promise.all(unread.map((stream) => once(stream, 'close')))
  await new Promise((resolve) => session.ping(resolve))
  const [head] = (await once(ask(), 'response')) as [IncomingHttpHeaders]
  t.equal(head['grpc-status'], undefined, 'there is room again')
})

t.test('a WebSocket message that never becomes whole is read as it comes, by byte or by fragment', async (t) => {
  const server = await startAgentsServer(t)
  const upgrade =
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
  const keys = 'Sec-WebSocket-Protocol: ws-tunnel\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'
  const long = Buffer.concat([Buffer.of(0x82, 0xff), Buffer.alloc(12)]) // masked with zeros
  long.writeUInt32BE(10 * 1024 * 1024, 6)
  const fragment = (first: boolean, byte: number) => Buffer.of(first ? 2 : 0, 0x81, 0, 0, 0, 0, byte)
  const http2 = Buffer.concat([preface, settings])
  for (const pieces of [
    [long, ...Array.from(http2, (byte) => Buffer.of(byte))],
    Array.from(http2, (byte, i) => fragment(i === 0, byte)),
  ]) {
    const socket = await dial(t, server.port)
    socket.write(upgrade + keys)
    await once(socket, 'data')
    for (const piece of pieces) socket.write(piece)
    await once(socket, 'data') // SETTINGS from the server: it has read the preface
  }
  await lives(t, server)
})

t.test('whole messages of any size up to 10 MiB are taken, however many', async (t) => {
  const server = await startAgentsServer(t)
  const connection = connect(server.port, '127.0.0.1')
  const createConnection = () => connection
  const agent = new WebSocket(`ws://127.0.0.1:${server.port}`, 'ws-tunnel', { createConnection } as object)
  const duplex = new WebSocketDuplex(agent, { connection, masking: 'zero' })
  await once(agent, 'open')
  const session = ClientSession.over(duplex, { authority: 'kas.test', scheme: 'http' })
  t.teardown(() => session.destroy())
  const call = session.open({ method: connectMethod, metadata: { authorization: ['Bearer good'] } })
  const arrived = () => session.open({ method: '/test.No/Method' }).done
  await arrived()
  for (let i = 0; i < 5; i++) {
    // WINDOW_UPDATE frames, which belong to no call
    const updates = Buffer.concat(Array.from({ length: 100 }, () => frame(8, 0, 0, Buffer.of(0, 0, 0, 1))))
    agent.send(Buffer.concat(Array.from({ length: 100 * (i + 1) }, () => updates)))
    await arrived()
  }
  t.equal(session.destroyed, false)
  call.cancel()
  await lives(t, server)
})

t.test('streams beyond what a connection may have at first are refused before anything is made of them', async (t) => {
  let asked = 0
  const known = oneAgent()
  const directory: AgentsDirectory = {
    ...known,
    agentByToken: (token, signal) => {
      asked++
      return known.agentByToken(token, signal)
    },
  }
  const server = await startAgentsServer(t, { components: { directory } })
  const socket = await dial(t, server.port)
  // HEADERS of POST /gitlab.agent...Connect, as literals, on each odd stream, before the server's SETTINGS arrive
  const literal = (name: string, value: string) =>
    Buffer.concat([Buffer.of(0, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)])
  const block = Buffer.concat([
    Buffer.of(0x83, 0x86),
    literal(':path', connectMethod),
    literal(':authority', 'kas'),
    literal('content-type', 'application/grpc'),
    literal('authorization', 'Bearer good'),
  ])
  const heads = Array.from({ length: 500 }, (_, i) => {
    const head = frame(1, 4, 0, block)
    head.writeUInt32BE(2 * i + 1, 5)
    return head
  })
  socket.write(Buffer.concat([preface, settings, ...heads]))
  await new Promise<void>((resolve) => {
    socket.on('data', () => asked > 0 && resolve())
    socket.once('close', () => resolve())
  })
  await lives(t, server)
  t.ok(asked <= 100, `${asked} of 500 were asked about`)
})

t.test('a message that is longer than its method takes is refused before it is decoded', async (t) => {
  const taken: number[] = []
  const serve = async ({ messages }: AgentCall) => {
    for await (const message of messages) taken.push(message.length)
  }
  const methods = {
    '/test.Small/Ask': { type: 'unary', patient: false, rate: anyRate, maxMessageBytes: 1000, serve },
  } as const
  const { port } = await startAgentsServer(t, { components: { methods } })
  const { session } = await FakeAgent.dial(port)
  t.teardown(() => session.destroy())
  const ask = async (bytes: number) => {
    const stream = session.open({ method: '/test.Small/Ask', metadata: { authorization: ['Bearer good'] } })
    void stream.send(Buffer.alloc(bytes))
    stream.end()
    return (await stream.done).error
  }
  t.equal(await ask(1000), undefined)
  t.match(await ask(1001), { grpcCode: Code.RESOURCE_EXHAUSTED, message: /1001 vs\. 1000/ })
  t.strictSame(taken, [1000])
})
