import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { callOf, callThrough, oneAgent, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'

const bad: Record<string, Record<string, string[]>> = {
  missing: { authorization: [] },
  'another scheme': { authorization: ['Basic good'] },
  'no token': { authorization: ['Bearer '] },
  unknown: { authorization: ['Bearer evil'] },
}
// wire: auth.absent, error.agent.401
for (const [name, metadata] of Object.entries(bad)) {
  t.test(`token ${name}: UNAUTHENTICATED, on that call only`, async (t) => {
    const { port } = await startAgentsServer(t)
    const agent = await FakeAgent.dial(port, 'good', metadata)
    t.teardown(() => agent.close())
    const { error } = await agent.open().done
    t.same([error?.grpcCode, error?.message], [Code.UNAUTHENTICATED, 'unauthenticated'])
    t.equal(agent.session.draining, false)
  })
}

t.test('token doubled: UNAUTHENTICATED, also if both are good', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  const literal = (text: string) => Buffer.concat([Buffer.of(text.length), Buffer.from(text)])
  const header = (name: string, value: string) => Buffer.concat([Buffer.of(0), literal(name), literal(value)])
  const block = Buffer.concat([
    header(':method', 'POST'),
    header(':scheme', 'http'),
    header(':path', connectMethod),
    header(':authority', 'x'),
    header('content-type', 'application/grpc'),
    header('authorization', 'Bearer good'),
    header('authorization', 'Bearer good'),
  ])
  const frame = (type: number, flags: number, stream: number, payload: Buffer) =>
    Buffer.concat([Buffer.of(0, payload.length >> 8, payload.length & 255, type, flags, 0, 0, 0, stream), payload])
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  socket.write(Buffer.concat([frame(4, 0, 0, Buffer.alloc(0)), frame(1, 4, 1, block)]))
  let answer = Buffer.alloc(0)
  for await (const chunk of socket) {
    answer = Buffer.concat([answer, chunk as Buffer])
    if (hasEndOfStream(answer, 1)) break
  }
  t.ok(hasEndOfStream(answer, 1), 'refused at once: a good one would stay open')
})

/** True if a HEADERS frame of the stream has END_STREAM, as a trailers-only answer does. */
function hasEndOfStream(bytes: Buffer, stream: number): boolean {
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === 1 && ((bytes[at + 4] as number) & 1) === 1 && bytes.readUInt32BE(at + 5) === stream)
      return true
  }
  return false
}

// wire: auth.bearer, auth.case
t.test('any case of "bearer" is good', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port, 'good', { authorization: ['bEARER good'] })
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
})

// wire: error.agent.patience
t.test('a directory that is out of reach keeps the stream open, with one try at a time for a token', async (t) => {
  let tries = 0
  let running = 0
  let most = 0
  const away = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
  const directory = oneAgent()
  const { forward, port } = await startAgentsServer(t, {
    components: {
      directory: {
        ...directory,
        async agentByToken(token, signal) {
          tries++
          if (tries > 10) most = Math.max(most, ++running)
          await new Promise((resolve) => setImmediate(resolve))
          if (tries > 10) running--
          if (tries < 15) throw away
          return directory.agentByToken(token, signal)
        },
      },
    },
  })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  for (let i = 0; i < 10; i++) void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
  t.ok(most <= 1, `${most} tries at once`)
})

// wire: error.agent.rate.tunnels
t.test(
  'the rate of a token: RESOURCE_EXHAUSTED; a Connect that replaces a used-up tunnel does not count',
  async (t) => {
    const { forward, port } = await startAgentsServer(t, { options: { authenticator: { callsPerTokenPerMinute: 2 } } })
    const agent = await FakeAgent.dial(port)
    t.teardown(() => agent.close())
    for (let i = 0; i < 5; i++) {
      const served = agent.open().serveEcho()
      t.same((await callThrough(forward, ['x'])).messages, ['x'])
      await served
    }
    agent.open()
    agent.open()
    const { error } = await agent.open().done
    t.same(error?.grpcCode, Code.RESOURCE_EXHAUSTED)
  },
)

t.test('a directory that changed: idle tunnels show their token again, running calls go on', async (t) => {
  const listeners = new Set<() => void>()
  let revoked = false
  const directory = oneAgent()
  const { forward, port } = await startAgentsServer(t, {
    components: {
      directory: {
        ...directory,
        agentByToken: (token, signal) => directory.agentByToken(revoked ? 'evil' : token, signal),
        onChange(listener) {
          listeners.add(listener)
          return () => void listeners.delete(listener)
        },
      },
    },
  })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const busy = agent.open()
  const reply = await forward(callOf(['still served']))
  const idle = agent.open()
  await agent.session.ping()
  revoked = true
  for (const listener of listeners) listener()
  t.equal((await idle.done).error, undefined)
  t.equal((await agent.open().done).error?.grpcCode, Code.UNAUTHENTICATED)
  void busy.serveEcho()
  t.same((await readReply(reply)).messages, ['still served'])
})

// wire: 8150.GetObjectsToSynchronize, 8150.unknown-method
t.test('unknown methods: UNIMPLEMENTED, and the connection stays', async (t) => {
  const { port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const { error } = await agent.session.open({ method: '/gitlab.agent.gitops.rpc.Gitops/GetObjectsToSynchronize' }).done
  t.equal(error?.grpcCode, Code.UNIMPLEMENTED)
  t.equal(agent.session.draining, false)
})

// wire: http2.get
t.test('a plain GET over HTTP/2 is answered 415', async (t) => {
  const { port } = await startAgentsServer(t)
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const [headers] = await once(session.request({ ':path': '/' }), 'response')
  t.match(headers, { ':status': 415, 'grpc-status': '3' })
})

// wire: age.goaway, age.idle
t.test('age: GOAWAY, then idle tunnels end with OK, and running calls go on', async (t) => {
  const { forward, port } = await startAgentsServer(t, { options: { age: { maxAgeMs: 1000, random: () => 0.5 } } })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const busy = agent.open()
  const reply = await forward(callOf(['still served']))
  const idle = agent.open()
  t.equal((await idle.done).error, undefined)
  t.equal(agent.session.draining, true)
  void busy.serveEcho()
  t.same((await readReply(reply)).messages, ['still served'])
  await agent.session.closed
})

// wire: ping.enforcement
t.test('too many PINGs of a quiet client end its connection; those around data do not', async (t) => {
  const { port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  agent.open()
  for (let i = 0; i < 6; i++) await agent.session.ping().catch(() => undefined) // the first ones come beside SETTINGS
  await agent.session.closed
  t.equal(agent.session.draining, true)
})

t.test('a connection that goes silent beside a living one of the same agent', async (t) => {
  const { delivered, port, server } = await startAgentsServer(t, {
    options: { liveness: { busySilenceMs: 100, suspectMs: 50, busyPingTimeoutMs: 300 } },
  })
  const front = await freezable(port)
  t.teardown(() => front.close())
  const frozen = await FakeAgent.dial(front.port)
  t.teardown(() => frozen.close())
  void frozen.open()
  void frozen.open()
  await frozen.session.ping()
  front.freeze()
  const living = await FakeAgent.dial(port)
  t.teardown(() => living.close())
  const serve = async () => {
    for (let open = true; open; ) {
      await living.open().serveEcho()
      open = !living.session.draining
    }
  }
  void serve()
  void serve()
  await living.session.ping()
  const unsafe = callThrough(delivered, ['unsafe'])
  const safe = await callThrough(delivered, ['safe'], { safety: 'safe' })
  t.same(safe.messages, ['safe'], 'a safe call gets through')
  t.match((await unsafe).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' }, 'an unsafe one is told')
  t.equal(server.connections.size, 1, 'the silent connection was given up')
  t.same((await callThrough(delivered, ['later'])).messages, ['later'])
})

/** A TCP front that can stop passing bytes without a FIN, like a node that lost power. */
async function freezable(port: number) {
  const sockets = new Set<Socket>()
  let frozen = false
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('error', () => undefined)
      from.on('data', (chunk) => void (frozen || to.write(chunk)))
      from.on('close', () => void (frozen || to.destroy()))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    freeze: () => {
      frozen = true
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
