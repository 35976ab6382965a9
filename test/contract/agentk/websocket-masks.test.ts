import { createServer } from 'node:http'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { TransportOptions } from '../../../src/agentk/tunnels/transport.ts'
import type { Forward } from '../../../src/call/call.ts'
import { webSocketFrames } from '../../support/websocket-frames.ts'
import { startPool, startSessions } from './agent-side.ts'
import { listen } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'

const authority = await Authority.create('masks')
const serving = await authority.issueServing({ dns: ['kas.test'], ip: ['127.0.0.1'] })
const folder = t.testdir({ 'ca.pem': authority.certificate })
const caFile = join(folder, 'ca.pem')
const method = '/test.Echo/Do'
const echo: Forward = async (call) => ({
  metadata: Promise.resolve({}),
  messages: call.messages,
  done: Promise.resolve({ trailers: {} }),
})

const behindUpgrade = (sent: Buffer) => webSocketFrames(sent.subarray(sent.indexOf('\r\n\r\n') + 4))

/** Starts a front that ends TLS if there is any, and records the bytes that agentk sends. */
async function startFront(t: Test, kasPort: number, secure: boolean) {
  const sent: Buffer[] = []
  const sockets = new Set<Socket>()
  const onConnection = (client: Socket) => {
    const kas = connect(kasPort, '127.0.0.1')
    client.on('data', (bytes: Buffer) => sent.push(bytes))
    client.pipe(kas).pipe(client)
    for (const socket of [client, kas]) sockets.add(socket.on('error', () => undefined))
  }
  const server = secure
    ? createTlsServer({ cert: serving.certificate, key: serving.key }, onConnection)
    : createTcpServer(onConnection)
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port, frames: () => behindUpgrade(Buffer.concat(sent)) }
}

/** Plays echo calls over a WebSocket to a kas whose receiver accepts only what RFC 6455 allows. */
async function play(t: Test, scheme: 'ws' | 'wss', host: string, options: Partial<TransportOptions>) {
  const kas = new FakeKas()
  const front = await startFront(t, await listenAs(t, kas, 'ws'), scheme === 'wss')
  const sessions = await startSessions(t, `${scheme}://${host}:${front.port}`, { caFile, ...options })
  await startPool(t, sessions, { [method]: echo })
  // empty, small, a length of 16 bits, one of 64 bits, and more than all windows
  for (const bytes of [0, 5, 1000, 100_000, 3_500_000]) {
    const message = Buffer.alloc(bytes, 'large or small')
    const tunnel = await kas.take()
    tunnel.begin(method)
    tunnel.message(message)
    tunnel.closeSend()
    await tunnel.next()
    const echoed = await tunnel.next()
    t.ok(echoed?.kind === 'message' && message.equals(echoed.data), `${bytes} bytes came back`)
    await tunnel.next()
    tunnel.end()
  }
  const frames = front.frames()
  t.notOk(
    frames.some(({ mask }) => mask === undefined),
    'each frame says that it is masked',
  )
  const payload = Buffer.concat(frames.filter(({ opcode }) => opcode < 8).map((frame) => frame.payload))
  t.match(payload.subarray(0, 24).toString(), 'PRI * HTTP/2.0')
  return new Set(frames.map(({ mask }) => mask))
}

t.test('over TLS to a certificate that was checked every mask is zero', async (t) => {
  t.strictSame([...(await play(t, 'wss', '127.0.0.1', {}))], [0])
})

t.test('through a proxy too, inside of which the TLS is', async (t) => {
  const sockets = new Set<Socket>()
  const seen: Buffer[] = []
  const proxy = createServer().on('connect', ({ url }, client: Socket) => {
    const target = connect(Number(url?.split(':')[1]), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      client.on('data', (bytes: Buffer) => seen.push(bytes))
      target.pipe(client).pipe(target)
    })
    for (const socket of [client, target]) sockets.add(socket.on('error', () => undefined))
  })
  const port = await listen(proxy)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const env = { HTTPS_PROXY: `http://127.0.0.1:${port}` }
  t.strictSame([...(await play(t, 'wss', 'kas.test', { env }))], [0])
  t.ok(seen.length > 0)
  t.notOk(Buffer.concat(seen).includes('large or small'), 'the proxy reads nothing of it')
})

t.test('without TLS, or where TLS may end at anybody, each has a mask of its own', async (t) => {
  for (const [scheme, options] of [
    ['ws', {}],
    ['wss', { skipVerify: true }],
  ] as const) {
    const keys = await play(t, scheme, '127.0.0.1', options)
    t.ok(keys.size > 10, `${scheme} ${JSON.stringify(options)}: ${keys.size} masks`)
  }
})
