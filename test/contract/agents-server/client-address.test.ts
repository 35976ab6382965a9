import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { dialKas } from '../../../src/agentk/tunnels/transport.ts'
import type { ClientAddressesOptions } from '../../../src/kas/servers/addresses/client-addresses.ts'
import type { AgentsServerOptions } from '../../../src/kas/servers/agents/agents-server.ts'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { type AgentsDirectory, callThrough, oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { proxyHeaderV1, proxyHeaderV2 } from '../../support/proxy-headers.ts'
import { patience } from '../../support/slowness.ts'

/**
 * Client address of a stream on 8150 behind trusted fronts (doc/operate/client-address.md). Only 127.0.0.1 is trusted,
 * 127.0.0.2 is not.
 */

const header = { trustedProxies: ['127.0.0.1'], proxyProtocol: false }
const proxyProtocol = { trustedProxies: ['127.0.0.1'], proxyProtocol: true }
const caller = '192.0.2.7'
const forged = '198.51.100.1'

async function start(t: Test, addresses: ClientAddressesOptions, options: Partial<AgentsServerOptions> = {}) {
  const access = new AccessLines()
  const asked: (string | undefined)[] = []
  const refused: string[] = []
  const known = oneAgent((code) => new KasError({ code: code as 'FORBIDDEN' }))
  const directory: AgentsDirectory = {
    ...known,
    agentByToken(token, signal, from) {
      asked.push(from)
      if (token !== 'slow') return known.agentByToken(token, signal, from)
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  }
  const started = await startAgentsServer(t, {
    components: { directory, accessLog: access.log, onRefused: (reason) => refused.push(reason) },
    options: { addresses, ...options },
  })
  const dial = async ({ token = 'good', forwarded, localAddress = '127.0.0.1', first }: Dialled = {}) => {
    const socket = connect({ port: started.port, host: '127.0.0.1', localAddress, noDelay: true })
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    if (first) socket.write(first)
    const metadata = forwarded === undefined ? {} : { 'x-forwarded-for': [forwarded] }
    return new FakeAgent(socket, { authorization: [`Bearer ${token}`], ...metadata })
  }
  return { ...started, access, asked, refused, dial }
}

interface Dialled {
  readonly token?: string
  /** value of X-Forwarded-For */
  readonly forwarded?: string
  readonly localAddress?: string
  /** bytes before all others */
  readonly first?: string | Buffer
}

t.test('X-Forwarded-For of a front: each stream is its client\u2019s', async (t) => {
  const { dial, access, asked } = await start(t, header)
  const cases: [Dialled, string][] = [
    [{ forwarded: caller }, caller],
    [{ forwarded: `${forged}, 2001:db8::7` }, '2001:db8::7'],
    [{ forwarded: `${Array<string>(2000).fill('::1').join(',')},${caller}` }, caller],
    [{ forwarded: 'fe80::7%eth0' }, 'fe80::7'],
    [{ forwarded: `${caller}, unknown` }, '127.0.0.1'],
    [{}, '127.0.0.1'],
    [{ forwarded: forged, localAddress: '127.0.0.2' }, '127.0.0.2'],
  ]
  for (const [i, [dialled, address]] of cases.entries()) {
    const agent = await dial(dialled)
    agent.open()
    const name = JSON.stringify(dialled).slice(0, 80)
    t.equal((await access.count(2 * i + 1)).at(-1)?.address, address, name)
    t.equal(asked.at(-1), address, 'what the directory is told')
    agent.session.destroy()
    t.match((await access.count(2 * i + 2)).at(-1), { event: 'agent_disconnected', address })
  }
})

t.test('what is refused is that of who sent it', async (t) => {
  const { dial, access } = await start(t, header)
  const agent = await dial({ token: 'UNAUTHENTICATED', forwarded: `${forged}, ${caller}` })
  t.equal((await agent.openSilently().done).error?.grpcCode, Code.UNAUTHENTICATED)
  t.match((await access.count(1)).at(-1), { event: 'agent_refused', address: caller })
})

t.test('a WebSocket is its client\u2019s, whatever comes inside', async (t) => {
  const { port, access, asked } = await start(t, header)
  const dialled = {
    address: parseKasAddress(`ws://127.0.0.1:${port}/`),
    headers: [['X-Forwarded-For', `${forged}, ${caller}`]] as const,
    userAgent: 'test',
    authorization: () => 'Bearer good',
    env: {},
  }
  const duplex = await dialKas(dialled, AbortSignal.timeout(patience(10_000)))
  const agent = new FakeAgent(duplex, { authorization: ['Bearer good'], 'x-forwarded-for': [forged] })
  t.teardown(() => agent.close())
  agent.open()
  t.match((await access.count(1)).at(-1), { event: 'agent_connected', address: caller })
  t.strictSame(asked, [caller])
})

t.test('PROXY: the connection is its client\u2019s, whatever he writes', async (t) => {
  const { dial, access } = await start(t, proxyProtocol)
  const cases: [string | Buffer, string][] = [
    [proxyHeaderV1(caller), caller],
    [proxyHeaderV2({ from: '2001:db8::7' }), '2001:db8::7'],
    ['PROXY UNKNOWN\r\n', '127.0.0.1'],
    [proxyHeaderV2({ from: caller, command: 0 }), '127.0.0.1'],
  ]
  for (const [i, [first, address]] of cases.entries()) {
    const agent = await dial({ first, forwarded: forged })
    agent.open()
    t.equal((await access.count(i + 1)).at(-1)?.address, address, JSON.stringify(String(first)))
  }
})

t.test('bad input: PROXY headers', async (t) => {
  const { port, refused, access } = await start(t, proxyProtocol)
  const answerTo = async (bytes: string | Buffer, localAddress = '127.0.0.1') => {
    const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined) // a reset, because the server had more to read
    socket.end(bytes)
    return await text(socket).catch(() => '')
  }
  const v1 = proxyHeaderV1(caller)
  const v2 = proxyHeaderV2({ from: caller })
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  for (const bytes of [preface, v1.slice(0, 20), v2.subarray(0, 20), `PROXY TCP4 ${caller}\r\n`])
    t.equal(await answerTo(bytes), '', JSON.stringify(String(bytes)))
  t.strictSame(refused.splice(0), Array(4).fill('proxy_header'))
  for (const bytes of [v1, v2]) {
    t.match(await answerTo(Buffer.concat([Buffer.from(bytes), Buffer.from(bytes)])), /^HTTP\/1\.1 400 /, 'twice')
    t.match(await answerTo(bytes, '127.0.0.2'), /^HTTP\/1\.1 400 /, 'where none is allowed')
  }
  t.strictSame(refused, Array(4).fill('protocol'))
  t.strictSame(access.lines, [])
})

t.test('bounds are those of clients: who floods through a front is refused alone', async (t) => {
  const { dial, forward } = await start(t, header, {
    unauthenticated: { maxIdlePerAddress: 4, maxIdle: 8, maxCheckedAlone: 8, graceMs: 0 },
  })
  const flood = await Promise.all(
    Array.from({ length: 30 }, async () => (await dial({ token: 'slow', forwarded: forged })).openSilently()),
  )
  const { error } = await Promise.race(flood.map(({ done }) => done))
  t.match(error, { grpcCode: Code.RESOURCE_EXHAUSTED })
  const agent = await dial({ forwarded: caller })
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
  const other = await dial({ token: 'UNAUTHENTICATED', forwarded: '192.0.2.8' })
  t.equal((await other.openSilently().done).error?.grpcCode, Code.UNAUTHENTICATED, 'others are asked about')
})
