import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { dialKas, type TransportOptions } from '../../../src/agentk/tunnels/transport.ts'
import { startPool, startSessions } from './agent-side.ts'
import { listen, startRaw } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'

const optionsFor = (address: string, more: Partial<TransportOptions> = {}): TransportOptions => ({
  address: parseKasAddress(address),
  headers: [],
  userAgent: 'test',
  authorization: () => 'Bearer token',
  env: {},
  ...more,
})
const never = new AbortController().signal

t.test('through a proxy by CONNECT, with its credentials', async (t) => {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const proxy = createServer().on('connect', (request, client: Socket) => {
    asked.push(`${request.url} ${request.headers['proxy-authorization']}`)
    const port = Number(request.url?.split(':')[1])
    const target = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      target.pipe(client).pipe(target)
    })
    for (const socket of [client, target]) sockets.add(socket.on('error', () => undefined))
  })
  const port = await listen(proxy)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const url = `http://me:p%40ss@127.0.0.1:${port}`
  const expected = `Basic ${Buffer.from('me:p@ss').toString('base64')}`
  for (const [form, variable] of [
    ['grpc', 'HTTPS_PROXY'],
    ['ws', 'HTTP_PROXY'],
  ] as const) {
    const kas = new FakeKas()
    const kasPort = await listenAs(t, kas, form)
    // a name of this machine itself would be reached directly
    const sessions = await startSessions(t, `${form}://kas.test:${kasPort}`, { env: { [variable]: url } })
    await startPool(t, sessions, {})
    await kas.take()
    t.equal(asked.at(-1), `kas.test:${kasPort} ${expected}`)
  }
})

t.test('what went wrong is said', async (t) => {
  const proxy = createServer().on('connect', (_, socket: Socket) => socket.end('HTTP/1.1 407 No\r\n\r\n'))
  const proxyPort = await listen(proxy)
  const web = createServer((_, response) => void response.writeHead(404).end())
  const webPort = await listen(web)
  t.teardown(() => {
    for (const server of [proxy, web]) {
      server.closeAllConnections()
      server.close()
    }
  })
  const env = { HTTPS_PROXY: `http://127.0.0.1:${proxyPort}` }
  await t.rejects(
    dialKas(optionsFor('grpc://kas.test', { env }), never),
    /proxy .* answered 407 to CONNECT kas.test:80/,
  )
  await t.rejects(
    dialKas(optionsFor(`ws://127.0.0.1:${webPort}/wrong`), never),
    /answered 404 instead of a WebSocket upgrade, is the path \/wrong right\?/,
  )
  const closed = await startRaw(t, (socket) => socket.destroy())
  await t.rejects(dialKas(optionsFor(`grpcs://127.0.0.1:${closed}`), never))
})

t.test('a dial that is not wanted any more ends', async (t) => {
  const silent = await startRaw(t, () => undefined)
  for (const form of ['grpcs', 'ws', 'wss']) {
    const controller = new AbortController()
    const dialled = dialKas(optionsFor(`${form}://127.0.0.1:${silent}`), controller.signal)
    setImmediate(() => controller.abort(new Error('enough')))
    await t.rejects(dialled, { message: 'enough' }, form)
  }
})
