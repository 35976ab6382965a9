import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import { Authority } from '../../../dev/certificates.ts'
import { createRefusalMetrics, type RefusalReason, refusalReasons } from '../../../src/kas/servers/agents/refusals.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { Code, type ErrorCode, KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { createRegistry } from '../../../src/lib/metrics.ts'
import { connectMethod, encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { anyRate } from '../../support/method-rate.ts'

/** Refusals on 8150 are counted by reason. A peer cannot make up new reasons. */

type Overrides = NonNullable<Parameters<typeof startAgentsServer>[1]>

async function counting(t: Test, { components, ...overrides }: Overrides = {}) {
  const register = createRegistry()
  const onRefused = createRefusalMetrics(register)
  const { port } = await startAgentsServer(t, { ...overrides, components: { ...components, onRefused } })
  /** counters above zero */
  const refused = async () => {
    const { values } = (await register.getSingleMetric('kas_agents_refused_total')?.get()) ?? { values: [] }
    return Object.fromEntries(
      values.filter(({ value }) => value > 0).map(({ labels, value }) => [labels.reason, value]),
    )
  }
  return { port, refused, register }
}

async function callWith(t: Test, port: number, token: string, method = connectMethod): Promise<void> {
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  await agent.session.open({ method, metadata: { authorization: [`Bearer ${token}`] } }).done
}

/** Sends the bytes and waits for the end of the connection. */
async function say(t: Test, port: number, bytes: string | Uint8Array): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  socket.resume()
  socket.write(bytes)
  await closed
}

t.test('calls: by what the directory says of their token', async (t) => {
  const codes: Partial<Record<ErrorCode, RefusalReason>> = {
    UNAUTHENTICATED: 'unauthenticated',
    FORBIDDEN: 'forbidden',
    AGENT_NOT_FOUND: 'agent_not_found',
    CREDENTIAL_NOT_CHECKED: 'not_checked',
  }
  const directory = oneAgent((code) => new KasError({ code: code as 'FORBIDDEN' }))
  const { port, refused } = await counting(t, { components: { directory } })
  for (const code of Object.keys(codes)) await callWith(t, port, code)
  await callWith(t, port, 'good token')
  t.strictSame(await refused(), { unauthenticated: 2, forbidden: 1, agent_not_found: 1, not_checked: 1 })
})

// wire: 8150.unknown-method
t.test('calls: a directory that is away, a rate, a method that is not served', async (t) => {
  const directory = oneAgent(() => new KasError({ code: 'DIRECTORY_UNAVAILABLE' }))
  const serve = async () => undefined
  const { port, refused } = await counting(t, {
    components: { directory, methods: { '/test.Unary/Call': { type: 'unary', patient: false, rate: anyRate, serve } } },
    options: { authenticator: { callsPerTokenPerMinute: 1 } },
  })
  await callWith(t, port, 'x', '/test.Unary/Call')
  await callWith(t, port, 'x', '/test.Unary/Call')
  await callWith(t, port, 'x', '/made.up/Name')
  t.strictSame(await refused(), { directory_unavailable: 1, rate_exceeded: 1, unknown_method: 1 })
})

t.test('tunnels: a descriptor beyond its bounds, or none', async (t) => {
  const { port, refused } = await counting(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const long = 's'.repeat(29_000)
  const { error } = await agent.open([`/${long}/1`, `/${long}/2`]).done
  t.match(error, { grpcCode: Code.INVALID_ARGUMENT, message: /a method of 29003 bytes, allowed: 512/ })
  const header = agent.openSilently()
  header.send(encodeConnectRequest.header({}))
  await header.done
  t.strictSame(await refused(), { invalid_message: 2 })
  agent.open().stream.cancel()
  await agent.session.ping()
  t.strictSame(await refused(), { invalid_message: 2 }, 'one that leaves is not refused')
})

t.test('connections: bytes that are no protocol, HTTP that is no upgrade', async (t) => {
  const { port, refused } = await counting(t)
  await say(t, port, '\x16\x03\x01 hello\r\n\r\n')
  t.strictSame(await refused(), { protocol: 1 })
  await say(t, port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await say(t, port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n')
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}`, 'another')
  t.teardown(() => webSocket.terminate())
  webSocket.on('error', () => undefined) // the ws library rejects an answer without a protocol
  await new Promise((resolve) => webSocket.once('close', resolve))
  t.strictSame(await refused(), { protocol: 1, upgrade: 3 })
})

t.test('connections: a client that writes all before it reads gets why it is refused', async (t) => {
  const { port } = await counting(t)
  for (const [head, answer] of [
    ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\n', /^HTTP\/1\.1 405 .*method not allowed\n/s],
    [
      'POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
      /^HTTP\/1\.1 405 .*not GET\n$/s,
    ],
    ['\x16\x03\x01 hello\r\n\r\n', /^HTTP\/1\.1 400 /],
  ] as const) {
    const socket = connect({ port, host: '127.0.0.1' })
    t.teardown(() => socket.destroy())
    let fault: Error | undefined
    socket.on('error', (error) => {
      fault = error
    })
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(head)
    for (let i = 0; i < 30; i++) {
      const taken = new Promise((resolve) => socket.write('x'.repeat(50_000), resolve))
      await Promise.race([taken, closed])
    }
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    await closed
    t.match(text, answer)
    t.equal(fault, undefined)
  }
})

t.test('connections: HTTP where WebSockets are off, PINGs in a flood', async (t) => {
  const { port, refused } = await counting(t, { options: { websocket: false } })
  await say(t, port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  agent.open()
  for (let i = 0; i < 6; i++) await agent.session.ping().catch(() => undefined)
  await agent.session.closed
  t.strictSame(await refused(), { protocol: 1, too_many_pings: 1 })
})

t.test('connections: plain bytes where TLS is spoken; one that only opens and closes is not counted', async (t) => {
  const serving = await (await Authority.create('test')).issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = t.testdir({ 'c.pem': serving.certificate, 'k.pem': serving.key })
  const files = { certificateFile: `${folder}/c.pem`, keyFile: `${folder}/k.pem` }
  const certificate = new CertificateFiles({ log: createLogger({ level: 'silent' }) }, files)
  await certificate.start()
  t.teardown(() => certificate.stop())
  const { port, refused } = await counting(t, { components: { certificate } })
  const visitor = connect({ port, host: '127.0.0.1' })
  await once(visitor, 'connect')
  visitor.end()
  await once(visitor, 'close')
  await say(t, port, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  t.strictSame(await refused(), { tls: 1 })
})

t.test('all reasons stand in the metric from the start, and in the doc', async (t) => {
  const { register } = await counting(t)
  const text = await register.metrics()
  for (const reason of refusalReasons) t.match(text, `kas_agents_refused_total{reason="${reason}"} 0`)
})

t.test('the directory gets the address from which a token comes, without the port', async (t) => {
  const asked: (string | undefined)[] = []
  const { agentByToken, ...others } = oneAgent()
  const directory = {
    ...others,
    agentByToken: (token: string, signal: AbortSignal, from?: string) => {
      asked.push(from)
      return agentByToken(token, signal)
    },
  }
  const methods = { '/a.B/C': { type: 'unary', patient: false, rate: anyRate, serve: async () => undefined } } as const
  const { port } = await startAgentsServer(t, { components: { directory, methods } })
  await callWith(t, port, 'unknown')
  await callWith(t, port, 'unknown', '/a.B/C')
  t.strictSame(asked, ['127.0.0.1', '127.0.0.1'])
})
