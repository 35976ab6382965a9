import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { noSpan, noTracer, type SpanAttributes, type Tracer } from '../../../src/lib/tracing/tracer.ts'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { proxyHeaderV1, proxyHeaderV2 } from '../../support/proxy-headers.ts'
import { clusterForward, data, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { directory, good, startServer } from './start-server.ts'
import { WatchClient } from './watch-client.ts'

/**
 * Client address of a request on 8154 behind trusted fronts (doc/operate/client-address.md). Only 127.0.0.1 is trusted,
 * 127.0.0.2 is not.
 */

const header = { trustedProxies: ['127.0.0.1'], proxyProtocol: false }
const proxyProtocol = { trustedProxies: ['127.0.0.1'], proxyProtocol: true }
const caller = '192.0.2.7'
const forged = '198.51.100.1'
const path = '/k8s-proxy/api/v1/pods'

type Options = Parameters<typeof startServer>[1]
type Components = Parameters<typeof startServer>[3]

async function start(t: Test, options: Options, certificate?: CertificateFiles, more: Components = {}) {
  const access = new AccessLines({ rules: [{ level: 'metadata' }] })
  const asked: (string | undefined)[] = []
  const hears: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob(agent, token, signal, how) {
      asked.push(how?.from)
      if (token !== 'slow') return directory.grantJob(agent, token, signal, how)
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
    grantUser: directory.grantUser,
  }
  const log: string[] = []
  const logger = createLogger({ level: 'warn', destination: { write: (line) => log.push(line) } })
  const components = { directory: hears, accessLog: access.log, log: logger, ...more }
  const started = await startServer(clusterForward(echo), options, certificate, components)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async (localAddress = '127.0.0.1') => {
    const socket = connect({ port: started.port, host: '127.0.0.1', localAddress, allowHalfOpen: true })
    await once(socket, 'connect')
    const client = new RawClient(socket)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, log, access, asked, open }
}

/** Returns the values of a header that the cluster got with the last request. */
const told = (text: string, name: string) => {
  const { header } = JSON.parse(text.slice(text.lastIndexOf('\r\n\r\n'))) as HttpRequestHeader
  return header.filter(([each]) => each === name).flatMap(([, values]) => values)
}

t.test('off: nothing is believed, and goes on as it came', async (t) => {
  const { open, access, asked } = await start(t, {})
  const client = await open()
  const text = await client
    .request(`GET ${path}`, good, `X-Forwarded-For: ${forged}`, `X-Real-Ip: ${forged}`, `Forwarded: for=${forged}`)
    .until(/}$/)
  for (const name of ['X-Forwarded-For', 'X-Real-Ip']) t.strictSame(told(text, name), [forged], name)
  t.strictSame(told(text, 'Forwarded'), [`for=${forged}`])
  t.match(await access.count(1), [{ address: '127.0.0.1' }])
  t.strictSame(asked, ['127.0.0.1'])
  const refused = await open()
  t.match(await refused.write(proxyHeaderV1(caller)).toEnd(), /^HTTP\/1\.1 400 /, 'a PROXY header is no request')
})

t.test('X-Forwarded-For of a front: each request is its client\u2019s', async (t) => {
  const { open, access, asked } = await start(t, { addresses: header })
  const client = await open()
  const cases: [string[], string][] = [
    [[`X-Forwarded-For: ${caller}`], caller],
    [[`X-Forwarded-For: ${forged}, 192.0.2.8`], '192.0.2.8'],
    [[`X-Forwarded-For: ${forged}`, 'X-Forwarded-For: 2001:db8::7'], '2001:db8::7'],
    [[`X-Forwarded-For: ${caller}, 127.0.0.1`, `X-Real-Ip: ${forged}`, `Forwarded: for=${forged}`], caller],
    [[`X-Forwarded-For: ${caller}`, 'Connection: keep-alive, X-Forwarded-For'], caller],
    [[], '127.0.0.1'],
  ]
  for (const [i, [headers, address]] of cases.entries()) {
    client.text = ''
    const text = await client.request(`GET ${path}`, good, ...headers).until(/}$/)
    const name = JSON.stringify(headers)
    t.strictSame(told(text, 'X-Forwarded-For'), [address], `${name}: what the cluster is told`)
    t.strictSame([...told(text, 'X-Real-Ip'), ...told(text, 'Forwarded')], [], 'by no other header')
    t.equal((await access.count(i + 1)).at(-1)?.address, address, name)
    t.equal(asked.at(-1), address, 'what the directory is told')
  }
})

t.test('the span of a request has the address that is believed, beside that of the connection', async (t) => {
  const spans: SpanAttributes[] = []
  const tracer: Tracer = {
    ...noTracer,
    begin(_, { attributes = {} }) {
      spans.push(attributes)
      return noSpan
    },
  }
  const { open } = await start(t, { addresses: header }, undefined, { tracer })
  for (const [from, address] of [
    ['127.0.0.1', caller],
    ['127.0.0.2', '127.0.0.2'],
  ] as const) {
    const client = await open(from)
    await client.request(`GET ${path}`, good, `X-Forwarded-For: ${forged}, ${caller}`).until(/}$/)
    t.match(spans.at(-1), { 'client.address': address, 'network.peer.address': from }, from)
  }
})

const badHeaders: Record<string, string> = {
  '10,000 entries': `${Array<string>(10_000).fill('::1').join(',')}, ${caller}`,
  'IPv6 with a zone': 'fe80::7%eth0',
  'a zone of 10,000 characters': `fe80::7%${'z'.repeat(10_000)}`,
  garbage: '\xff"<script>, ;\t%00',
  'garbage behind an address': `${caller}, unknown`,
  empty: '',
  commas: ','.repeat(50_000),
}
const believed: Record<string, string> = { '10,000 entries': caller, 'IPv6 with a zone': 'fe80::7' }

t.test('bad input: X-Forwarded-For', async (t) => {
  const { open, access } = await start(t, { addresses: header })
  let lines = 0
  for (const [name, value] of Object.entries(badHeaders)) {
    const client = await open()
    const text = await client.request(`GET ${path}`, good, `X-Forwarded-For: ${value}`).until(/}$/)
    const address = believed[name] ?? '127.0.0.1'
    t.strictSame(told(text, 'X-Forwarded-For'), [address], name)
    t.equal((await access.count(++lines)).at(-1)?.address, address, name)
  }
  for (const [name, value] of Object.entries({ ...badHeaders, 'an address': caller })) {
    const client = await open('127.0.0.2')
    const text = await client.request(`GET ${path}`, good, `X-Forwarded-For: ${value}`).until(/}$/)
    t.strictSame(told(text, 'X-Forwarded-For'), ['127.0.0.2'], `from who is not trusted: ${name}`)
    t.equal((await access.count(++lines)).at(-1)?.address, '127.0.0.2', name)
  }
})

t.test('what is refused is that of who sent it', async (t) => {
  const { open, access } = await start(t, { addresses: header })
  const client = await open()
  await client.request(`GET ${path}`, 'Authorization: Bearer ci:42:bad', `X-Forwarded-For: ${caller}`).until(/401 /)
  t.match((await access.count(1)).at(-1), { event: 'refused', address: caller })
  const broken = await open()
  await broken.write('BROKEN\r\n\r\n').toEnd()
  t.match((await access.count(2)).at(-1), { event: 'refused', address: '127.0.0.1' }, 'no head, no client')
})

t.test('exec and pages\u2019 watches tell the cluster, too', async (t) => {
  const headers: HttpRequestHeader[] = []
  const forward = clusterForward(async function* ({ header }) {
    headers.push(header)
    yield head(header.header.some(([name]) => name === 'Upgrade') ? 403 : 200)
    yield data('{}\n')
    yield trailer
  })
  const secret = Buffer.alloc(64, 1)
  const components = { webSocketTokens: new WebSocketTokens({ secret, clock: systemClock }) }
  const { server, port } = await startServer(forward, { addresses: header }, undefined, components)
  t.teardown(() => server.stop(AbortSignal.abort()))
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  const upgrade = ['Connection: Upgrade', 'Upgrade: SPDY/3.1', `X-Forwarded-For: ${caller}`]
  await client.request(`POST ${path}/a/exec?command=id`, good, ...upgrade).until(/403 /)
  const watch = await WatchClient.open(t, port, {
    headers: { authorization: 'Bearer ci:42:good', 'x-forwarded-for': caller },
  })
  await watch.watch('1').next()
  const of = headers.map(({ header }) => header.find(([name]) => name === 'X-Forwarded-For')?.[1])
  t.strictSame(of, [[caller], [caller]])
})

t.test('bounds are those of clients: who floods through a front is refused alone', async (t) => {
  const unauthenticated = {
    maxIdlePerAddress: 4,
    maxIdle: 8,
    maxChecked: 8,
    maxCheckedPerConnection: 1,
    graceMs: 0,
    maxSilenceMs: 60_000,
  }
  const { open } = await start(t, { addresses: header, limits: { unauthenticated } })
  const flood = await Promise.all(
    Array.from({ length: 30 }, async () => {
      const client = await open()
      return client.request(`GET ${path}`, 'Authorization: Bearer ci:42:slow', `X-Forwarded-For: ${forged}`)
    }),
  )
  await Promise.any(flood.map((client) => client.until(/^HTTP\/1\.1 429 /)))
  const good7 = await open()
  for (let i = 0; i < 5; i++) {
    good7.text = ''
    t.match(await good7.request(`GET ${path}`, good, `X-Forwarded-For: ${caller}`).until(/}$/), /^HTTP\/1\.1 200 /)
  }
  const answered = flood.filter(({ text }) => text !== '')
  t.ok(
    answered.every(({ text }) => text.startsWith('HTTP/1.1 429 ')),
    'who floods is told',
  )
  t.ok(answered.length >= 22, `${answered.length} of 30`)
})

t.test('PROXY: the connection is its client\u2019s, whatever he writes', async (t) => {
  const { open, access } = await start(t, { addresses: proxyProtocol })
  const more = Buffer.alloc(500, 4)
  const cases: [string, string | Buffer, string][] = [
    ['version 1', proxyHeaderV1(caller), caller],
    ['version 1, IPv6', proxyHeaderV1('2001:db8::7'), '2001:db8::7'],
    ['version 2', proxyHeaderV2({ from: caller, more }), caller],
    ['version 2, IPv6', proxyHeaderV2({ from: '2001:db8::7' }), '2001:db8::7'],
    ['UNKNOWN', 'PROXY UNKNOWN\r\n', '127.0.0.1'],
    ['LOCAL', proxyHeaderV2({ from: caller, command: 0 }), '127.0.0.1'],
  ]
  let lines = 0
  for (const [name, bytes, address] of cases) {
    const client = await open()
    client.socket.write(bytes)
    for (let i = 0; i < 2; i++) {
      client.text = ''
      const text = await client.request(`GET ${path}`, good, `X-Forwarded-For: ${forged}`).until(/}$/)
      t.strictSame(told(text, 'X-Forwarded-For'), [address], `${name}: what the cluster is told`)
      t.equal((await access.count(++lines)).at(-1)?.address, address, name)
    }
  }
  const client = await open('127.0.0.2')
  await client.request(`GET ${path}`, good).until(/}$/)
  t.equal((await access.count(++lines)).at(-1)?.address, '127.0.0.2', 'who is no front needs none')
})

t.test('PROXY: byte by byte, with a request behind it in one piece, and before TLS', async (t) => {
  const authority = await Authority.create('test')
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = t.testdir({ crt: serving.certificate, key: serving.key })
  const log = createLogger({ level: 'silent' })
  const files = { certificateFile: `${folder}/crt`, keyFile: `${folder}/key` }
  const certificate = new CertificateFiles({ log }, files)
  await certificate.start()
  t.teardown(() => certificate.stop())
  for (const bytes of [Buffer.from(proxyHeaderV1(caller)), proxyHeaderV2({ from: caller })]) {
    const { open, access } = await start(t, { addresses: proxyProtocol })
    const client = await open()
    client.socket.setNoDelay(true)
    for (const byte of bytes) {
      client.socket.write(Buffer.of(byte))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await client.request(`GET ${path}`, good).until(/}$/)
    const other = await open()
    other.socket.write(Buffer.concat([bytes, Buffer.from(`GET ${path} HTTP/1.1\r\nHost: kas\r\n${good}\r\n\r\n`)]))
    await other.until(/}$/)
    t.match(await access.count(2), [{ address: caller }, { address: caller }])
    const tls = await start(t, { addresses: proxyProtocol }, certificate)
    const { socket } = await tls.open()
    socket.write(bytes)
    const secure = connectTls({ socket, ca: authority.certificate, servername: 'localhost' })
    await once(secure, 'secureConnect')
    const inside = new RawClient(secure)
    await inside.request(`GET ${path}`, good, `X-Forwarded-For: ${forged}`).until(/}$/)
    t.match(await tls.access.count(1), [{ address: caller }])
  }
})

t.test('bad input: PROXY headers', async (t) => {
  const { open, access, log, count } = await start(t, { addresses: proxyProtocol })
  const request = `GET ${path} HTTP/1.1\r\nHost: kas\r\n${good}\r\n\r\n`
  const v2 = proxyHeaderV2({ from: caller })
  const silent: Record<string, Buffer> = {
    'none where one must be': Buffer.from(request),
    'TLS where one must be': Buffer.from('\x16\x03\x01\x02\x00', 'latin1'),
    malformed: Buffer.from(`PROXY TCP4 ${caller}\r\n${request}`),
    'too long, version 1': Buffer.from(`PROXY UNKNOWN ${'x'.repeat(200)}\r\n${request}`),
    'too long, version 2': proxyHeaderV2({ from: caller, more: Buffer.alloc(60_000) }),
    'an unknown version': proxyHeaderV2({ from: caller, version: 3 }),
  }
  for (const [name, bytes] of Object.entries(silent)) {
    const client = await open()
    client.socket.write(bytes)
    t.equal(await client.toEnd(), '', `${name}: closed without an answer`)
  }
  for (const bytes of [v2.subarray(0, 20), Buffer.from(proxyHeaderV1(caller)).subarray(0, 20)]) {
    const client = await open()
    client.socket.end(bytes)
    t.equal(await client.toEnd(), '', 'cut')
  }
  t.equal(await count('BAD_REQUEST'), 8)
  t.match(
    log.join(''),
    /"net_address":"127\.0\.0\.1","msg":"A front did not begin with a PROXY header that can be read"/,
  )
  t.equal(log.length, 1, 'a line a minute')
  const check = await open()
  check.socket.end()
  await check.toEnd()
  t.equal(await count('BAD_REQUEST'), 8, 'who only asks whether somebody listens')
  for (const bytes of [v2, Buffer.from(proxyHeaderV1(caller))]) {
    const twice = await open()
    twice.socket.write(Buffer.concat([bytes, bytes, Buffer.from(request)]))
    t.match(await twice.toEnd(), /^HTTP\/1\.1 400 /, 'twice')
    const notAllowed = await open('127.0.0.2')
    notAllowed.socket.write(Buffer.concat([bytes, Buffer.from(request)]))
    t.match(await notAllowed.toEnd(), /^HTTP\/1\.1 400 /, 'where none is allowed')
  }
  t.ok(
    access.lines.every(({ event, class: name }) => event === 'refused' && name === 'refusal'),
    'none was served',
  )
})

t.test('PROXY: who has not sent it holds up no end', async (t) => {
  const { open, server } = await start(t, { addresses: proxyProtocol, limits: { arrivalMs: 0 } })
  const client = await open()
  client.socket.write('PROXY ')
  await server.stop(new AbortController().signal)
  t.equal(await client.toEnd(), '')
})

t.test('silent connections of fronts are bounded by themselves', async (t) => {
  const { open } = await start(t, {
    addresses: header,
    limits: { unauthenticated: { maxIdlePerAddress: 1, maxIdle: 2, maxChecked: 2, graceMs: 0, maxSilenceMs: 60_000 } },
  })
  const kept = await Promise.all(Array.from({ length: 20 }, () => open()))
  const one = kept[0] as RawClient
  t.match(await one.request(`GET ${path}`, good).until(/}$/), /^HTTP\/1\.1 200 /)
  t.ok(
    kept.every(({ ended }) => ended === undefined),
    'a front may hold more than a caller',
  )
})
