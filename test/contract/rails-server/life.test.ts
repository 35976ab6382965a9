import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, connect as dial } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { Forward } from '../../../src/call/call.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { eventually } from '../../support/eventually.ts'
import { callUnary, connect, createRailsServer, goodMetadata, openBidi, startRailsServer } from './start-server.ts'

const method = '/test.Own/Hello'
const methods = new Map([[method, async (request: Uint8Array) => request]])
const for42 = { 'kas-hop-routing-agent-id': '42' }
const log = createLogger({ level: 'silent' })
const echo: Forward = async ({ messages }) => ({
  metadata: Promise.resolve({}),
  messages,
  done: Promise.resolve({ trailers: {} }),
})

// wire: rails.tls
t.test('TLS, with a certificate that is read again when it changes', async (t) => {
  const folder = t.testdir()
  const authority = await Authority.create('test')
  const [certificateFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const issue = async (dns: string) => {
    const { certificate, key } = await authority.issueServing({ dns: [dns], ip: ['127.0.0.1'] })
    await Promise.all([writeFile(certificateFile, certificate), writeFile(keyFile, key)])
  }
  await issue('first.example.com')
  const certificate = new CertificateFiles({ log }, { certificateFile, keyFile, settleMs: 10 })
  await certificate.start()
  t.teardown(() => certificate.stop())
  const { port } = await startRailsServer(t, { components: { methods, certificate } })
  const ca = Buffer.from(authority.certificate)
  const client = connect(t, port, {}, grpc.credentials.createSsl(ca))
  const hello = async () => (await callUnary(client, method, Buffer.from('hello'), await goodMetadata())).code
  t.equal(await hello(), grpc.status.OK)
  const plain = await callUnary(connect(t, port), method, Buffer.from('x'), await goodMetadata())
  t.equal(plain.code, grpc.status.UNAVAILABLE, 'nothing plain is served')

  const names = async () => {
    const socket = connectTls({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2'] })
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    t.equal(socket.alpnProtocol, 'h2')
    return socket.getPeerCertificate().subjectaltname ?? ''
  }
  t.match(await names(), /first\.example\.com/)
  await issue('second.example.com')
  await eventually(async () => {
    if (!/second\.example\.com/.test(await names())) throw new Error('still the first')
  })
  t.equal(await hello(), grpc.status.OK, 'connections that stand go on')
})

async function running(t: Test, options: Parameters<typeof startRailsServer>[1] = {}) {
  const started = await startRailsServer(t, { ...options, components: { forward: echo, methods } })
  const client = connect(t, started.port)
  const call = openBidi(client, '/test.Agent/Method', await goodMetadata(for42))
  const exchange = async (text: string) => {
    call.stream.write(Buffer.from(text))
    return String((await once(call.stream, 'data'))[0])
  }
  await exchange('first')
  return { ...started, call, exchange }
}

t.test('it leaves: no new calls, those that run end by themselves', async (t) => {
  const { server, port, call, exchange } = await running(t)
  const silent = dial(port, '127.0.0.1')
  t.teardown(() => silent.destroy())
  await once(silent, 'connect')
  const patience = new AbortController()
  const stopped = server.stop(patience.signal)
  await server.leave(patience.signal)
  const other = await callUnary(connect(t, port), method, Buffer.from('x'), await goodMetadata())
  t.equal(other.code, grpc.status.UNAVAILABLE)
  t.equal(await exchange('still'), 'still')
  call.stream.end()
  t.equal((await call.status).code, grpc.status.OK)
  await stopped
  await server.stop()
  t.equal(server.address, null)
})

t.test('impatience cuts what runs', async (t) => {
  const { server, call } = await running(t)
  const patience = new AbortController()
  const stopped = server.stop(patience.signal)
  await server.leave(patience.signal)
  patience.abort()
  await stopped
  t.match((await call.status).code, grpc.status.UNAVAILABLE)
})

t.test('during the grace new calls are still taken', async (t) => {
  const { server, port, call } = await running(t, { options: { listenGraceMs: 60_000 } })
  const patience = new AbortController()
  const stopped = server.stop(patience.signal)
  const other = await callUnary(connect(t, port), method, Buffer.from('x'), await goodMetadata())
  t.equal(other.code, grpc.status.OK)
  patience.abort()
  await stopped
  t.not((await call.status).code, grpc.status.OK)
})

// wire: rails.age
t.test('an aged connection is asked to go: calls that run go on for a while, new ones come by another', async (t) => {
  const { port } = await startRailsServer(t, { components: { forward: echo, methods }, options: { maxAgeMs: 1000 } })
  const client = connect(t, port)
  const old = openBidi(client, '/test.Agent/Method', await goodMetadata(for42))
  old.stream.resume()
  const began = performance.now()
  let calls = 0
  const failed: string[] = []
  const ended = old.status.then(() => performance.now() - began)
  let over = false
  void ended.then(() => {
    over = true
  })
  while (!over) {
    const { code, details } = await callUnary(client, method, Buffer.from('x'), await goodMetadata())
    if (code !== grpc.status.OK) failed.push(details)
    calls++
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok((await ended) >= 1000 * 0.2 * 0.9 + 1000 * 0.65 - 5, 'GOAWAY at a fifth of the age, and the grace')
  t.equal((await old.status).code, grpc.status.UNAVAILABLE)
  t.ok(calls > 1)
  t.strictSame(failed, [])
})

t.test('it does not start with a secret that cannot be, nor where another listens', async (t) => {
  const folder = t.testdir({ short: Buffer.alloc(16).toString('base64'), good: Buffer.alloc(32, 1).toString('base64') })
  const other = createServer()
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const { port } = other.address() as { port: number }
  const create = (secret: string, listenPort: number) => {
    const options = { listen: { port: listenPort, host: '127.0.0.1' } }
    return createRailsServer(join(folder, secret), { options }).server
  }
  for (const name of ['short', 'absent']) {
    const refused = create(name, 0)
    await t.rejects(refused.start(), { code: 'SETTINGS_INVALID', message: /api\.listen\.authentication_secret_file/ })
    await refused.stop()
  }
  const taken = create('good', port)
  await t.rejects(taken.start(), { code: 'EADDRINUSE' })
  await taken.stop()
})
