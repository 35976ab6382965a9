import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { nextStepToKas } from '../../../src/agentk/tunnels/next-step.ts'
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
const run = promisify(execFile)
const moduleUrl = (name: string) => pathToFileURL(join(import.meta.dirname, '../../../src/agentk/tunnels', name)).href
/** A program of its own, because the environment sets which authorities Node and the system trust. */
const dialler = (port: number, caFile: string | undefined) => `
import { dialKas } from '${moduleUrl('transport.ts')}'
import { parseKasAddress } from '${moduleUrl('kas-address.ts')}'
const address = parseKasAddress('grpcs://127.0.0.1:${port}')
const more = { caFile: ${JSON.stringify(caFile)}, serverName: 'kas.test', headers: [], userAgent: 'test', env: {} }
const dialled = dialKas({ address, authorization: () => '', ...more }, new AbortController().signal)
console.log(await dialled.then((socket) => (socket.destroy(), 'connected'), ({ code }) => code))
`
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
    // a name of this machine would bypass the proxy
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
  await t.rejects(dialKas(optionsFor('grpc://kas.test', { env: { HTTPS_PROXY: 'http://127.0.0.1:1' } }), never), {
    message: /^proxy 127\.0\.0\.1:1 cannot be used: /,
    cause: { code: 'ECONNREFUSED' },
  })
  for (const wrong of ['http://ada:geheim%@127.0.0.1:1', 'http://ada:123/geheim@127.0.0.1:1']) {
    const dialled = dialKas(optionsFor('ws://kas.test', { env: { HTTP_PROXY: wrong } }), never)
    const message = /^proxy of the environment: HTTP_PROXY is no URL of a proxy: %, #, \/ and @ of a password.*%40$/
    const error = await dialled.catch((one: unknown) => one)
    t.match(error, { code: 'UNREACHABLE', message })
    t.match(nextStepToKas(error, optionsFor('ws://kas.test').address), /^Check the proxy that HTTPS_PROXY names/)
  }
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

t.test('authorities of the file are trusted, and those of the system', async (t) => {
  const [ours, other] = await Promise.all([Authority.create('ours'), Authority.create('other')])
  const { certificate, key } = await ours.issueServing({ dns: ['kas.test'], ip: [] })
  let connections = 0
  const server = createTlsServer({ cert: certificate, key, ALPNProtocols: ['h2'] }, (socket) => socket.end())
  server.on('tlsClientError', () => undefined).on('connection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const folder = t.testdir({ 'ours.pem': ours.certificate, 'other.pem': other.certificate, none: {} })
  const dial = async (caFile: string | undefined, system: string) => {
    const env = {
      ...process.env,
      SSL_CERT_DIR: join(folder, system),
      SSL_CERT_FILE: '/nowhere',
      NODE_EXTRA_CA_CERTS: '',
    }
    const file = caFile === undefined ? undefined : join(folder, caFile)
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', dialler(port, file)], { env })
    return stdout.trim()
  }
  t.equal(await dial('ours.pem', 'none'), 'connected')
  t.equal(connections, 1)
  t.equal(await dial('other.pem', '.'), 'connected')
  t.equal(connections, 3, 'the second time')
  t.equal(await dial(undefined, '.'), 'connected')
  t.match(await dial('other.pem', 'none'), /UNABLE_TO/)
  t.match(await dial(undefined, 'none'), /UNABLE_TO/)
})
