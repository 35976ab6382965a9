import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { AgentId } from '../../../src/call/call.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import { bytesOfCall } from '../../../src/kas/servers/kubernetes/http/call-memory.ts'
import { defaultUnauthenticated } from '../../../src/kas/servers/unauthenticated-connections.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { readOnAfterFailedWrite } from '../../../src/lib/failed-write.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { agentId, good, startServer } from './start-server.ts'

/** The last bytes before kas closes a connection arrive, even while the client still writes (RFC 9112, 9.6). */

type Tap = typeof t | import('tap').Test

const ways = ['plain', 'TLS'] as const
const authority = await Authority.create('test')

async function setUp(t: Tap, way: (typeof ways)[number], cluster: Cluster, options = {}, components = {}) {
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = t.testdir({ 'c.pem': serving.certificate, 'k.pem': serving.key })
  const files = { certificateFile: `${folder}/c.pem`, keyFile: `${folder}/k.pem` }
  const certificate = new CertificateFiles({ log: createLogger({ level: 'silent' }) }, files)
  await certificate.start()
  t.teardown(() => certificate.stop())
  const started = await startServer(
    clusterForward(cluster),
    options,
    way === 'TLS' ? certificate : undefined,
    components,
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const dial = async (): Promise<Socket> => {
    const to = { port: started.port, host: '127.0.0.1', allowHalfOpen: true }
    const socket = way === 'TLS' ? connectTls({ ...to, ca: authority.certificate }) : connect(to)
    t.teardown(() => socket.destroy())
    await once(socket, way === 'TLS' ? 'secureConnect' : 'connect')
    return socket
  }
  return { ...started, dial }
}

const request = (line: string, ...headers: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: kas', ...headers].join('\r\n')}\r\n\r\n`

/** @returns all further bytes, and the error code unless the connection ended in order */
async function readToEnd(socket: Socket): Promise<{ bytes: Buffer; fault: string | undefined }> {
  const chunks: Buffer[] = []
  let fault: string | undefined
  socket.on('error', (error: NodeJS.ErrnoException) => {
    fault = error.code ?? error.message
  })
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  if (!socket.closed) await Promise.race([once(socket, 'end'), once(socket, 'close')]).catch(() => undefined)
  return { bytes: Buffer.concat(chunks), fault }
}

const exec = 'GET /k8s-proxy/api/v1/namespaces/d/pods/p/exec?command=a'
const spdy = ['Connection: Upgrade', 'Upgrade: SPDY/3.1', 'X-Stream-Protocol-Version: v4.channel.k8s.io']
const up = (bytes: Uint8Array) => encodeHttpResponse.upgradeData(bytes)

for (const way of ways) {
  t.test(`${way}: the tail of a command, whose client pauses and goes on writing`, async (t) => {
    const said = randomBytes(8_000_000)
    const { dial, count } = await setUp(t, way, async function* () {
      yield head(101, [['Upgrade', ['SPDY/3.1']]])
      yield trailer
      for (let at = 0; at < said.length; at += 64_000) yield up(said.subarray(at, at + 64_000))
    })
    const socket = await dial()
    readOnAfterFailedWrite(socket) // bytes that have arrived count, even after a failed write
    socket.write(request(exec, good, ...spdy))
    const before: Buffer[] = []
    // kas has ended the call, so the system has the remaining bytes
    while (!socket.closed && (await count('upgraded')) !== 1) {
      const chunk = socket.read() as Buffer | null
      if (chunk) before.push(chunk)
      await nextTurn()
    }
    for (let ping = 0; ping < 3; ping++)
      await new Promise((resolve) => socket.write('a ping of a window that grows', resolve))
    const { bytes, fault } = await readToEnd(socket)
    const got = Buffer.concat([...before, bytes])
    const body = got.subarray(got.indexOf('\r\n\r\n') + 4)
    t.equal(fault, undefined)
    t.ok(body.equals(said), `${body.length} bytes of ${said.length}`)
  })
}

const bad = 'Authorization: Bearer ci:42:bad'
const post = 'POST /k8s-proxy/api/v1/pods'

/** Answers by the kind of request. kas reads less from strangers than from callers. */
const answers: Record<string, { head: string; bytes: number; answer: RegExp }> = {
  'nobody knows the caller': {
    head: request(post, bad, 'Content-Length: 1500000'),
    bytes: 1_500_000,
    answer: /^HTTP\/1\.1 401 .*}\s*$/s,
  },
  'the caller may not': {
    head: request(post, 'Authorization: Bearer ci:42:refused', 'Content-Length: 1500000'),
    bytes: 1_500_000,
    answer: /^HTTP\/1\.1 403 .*}\s*$/s,
  },
  'the method is none': {
    head: request(post.replace('POST', 'TRACE'), good, 'Content-Length: 1500000'),
    bytes: 1_500_000,
    answer: /^HTTP\/1\.1 405 .*}\s*$/s,
  },
  'its chunks are none': {
    head: request(post, good, 'Transfer-Encoding: chunked'),
    bytes: 1_500_000,
    answer: /^HTTP\/1\.1 400 .*}\s*$/s,
  },
  'no upgrade is granted': {
    head: request(exec, bad, ...spdy),
    bytes: 1_500_000,
    answer: /^HTTP\/1\.1 401 .*}\s*$/s,
  },
  'the cluster refuses it': {
    head: request(post, good, 'Content-Length: 12000000'),
    bytes: 12_000_000,
    answer: /^HTTP\/1\.1 413 .*\r\n\r\n3\r\nbig\r\n0\r\n\r\n$/s,
  },
}

for (const way of ways) {
  for (const [name, { head: sent, bytes, answer }] of Object.entries(answers)) {
    t.test(`${way}: a client that writes all before it reads: ${name}`, async (t) => {
      const { dial } = await setUp(t, way, async function* ({ body }) {
        if (name === 'its chunks are none') await body()
        yield head(413, [], 'Too Large')
        yield data('big')
        yield trailer
      })
      const socket = await dial()
      const gone = Promise.withResolvers<void>()
      socket.on('error', () => gone.resolve())
      socket.write(sent)
      for (let left = bytes; left > 0; left -= 50_000) {
        const taken = new Promise((resolve) => socket.write('x'.repeat(50_000), resolve))
        await Promise.race([taken, gone.promise])
      }
      const { bytes: text, fault } = await readToEnd(socket)
      t.equal(fault, undefined)
      t.match(text.toString(), answer)
    })
  }

  t.test(`${way}: a long last answer, whose client has sent more behind its request`, async (t) => {
    const said = randomBytes(8_000_000)
    const { dial, count } = await setUp(t, way, async function* () {
      yield head(200, [['Content-Length', [String(said.length)]]])
      for (let at = 0; at < said.length; at += 64_000) yield data(said.subarray(at, at + 64_000))
      yield trailer
    })
    const socket = await dial()
    readOnAfterFailedWrite(socket)
    socket.write(request(post.replace('POST', 'GET'), good, 'Connection: close'))
    const before: Buffer[] = []
    while (!socket.closed && (await count('answered')) !== 1) {
      const chunk = socket.read() as Buffer | null
      if (chunk) before.push(chunk)
      await nextTurn()
    }
    for (let i = 0; i < 3; i++) await new Promise((resolve) => socket.write(request(post, good), resolve))
    const { bytes, fault } = await readToEnd(socket)
    const got = Buffer.concat([...before, bytes])
    t.equal(fault, undefined)
    t.ok(got.subarray(got.indexOf('\r\n\r\n') + 4).equals(said), `${got.length} bytes`)
  })
}

/** @returns true if the system still sees a peer after a write */
async function isOpen(socket: Socket): Promise<boolean> {
  await new Promise((resolve) => socket.write('ping', resolve))
  return !socket.destroyed
}

async function closed(socket: Socket): Promise<void> {
  while (await isOpen(socket)) await nextTurn()
}

t.test('who has got all and does not close holds a place for kept connections, and for an hour', async (t) => {
  const { dial, count } = await setUp(
    t,
    'plain',
    async function* () {
      yield head(101, [['Upgrade', ['SPDY/3.1']]])
      yield trailer
    },
    { limits: { maxKeptPerAgent: 2 } },
  )
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const run = async () => {
    const socket = await dial()
    socket.on('error', () => undefined).resume()
    socket.write(request(exec, good, ...spdy))
    await once(socket, 'end')
    return socket
  }
  const [first, second, third] = [await run(), await run(), await run()]
  await closed(first)
  t.equal(await count('TOO_MANY_STREAMS'), 1, 'the one that is idle for longest makes room')
  mock.timers.tick(3_599_000)
  for (let turn = 0; turn < 100; turn++) t.ok((await isOpen(second)) && (await isOpen(third)))
  mock.timers.tick(1000)
  await closed(second)
  await closed(third)
})

t.test('a replica that leaves waits for them no longer than for other answers to be taken', async (t) => {
  const { server, dial } = await setUp(
    t,
    'plain',
    async function* () {
      yield head(101, [['Upgrade', ['SPDY/3.1']]])
      yield trailer
    },
    { shutdownGraceMs: 60_000 },
  )
  const socket = await dial()
  socket.resume().write(request(exec, good, ...spdy))
  await once(socket, 'end')
  await server.stop(new AbortController().signal)
  t.pass('before the grace is over')
})

t.test('a call whose upgrade was refused ends with its answer, though its client does not close', async (t) => {
  const memory = new ReplicaMemory({ unreadBytes: 2 ** 20, callersBytes: 2 ** 30 })
  const { total } = memory.enter('callers', agentId as AgentId, 'nobody')
  const none = total.bytes
  const cluster: Cluster = async function* () {
    yield head(403, [['Content-Length', ['2']]])
    yield data('no')
    yield trailer
  }
  const { dial } = await setUp(t, 'plain', cluster, {}, { memory })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const socket = await dial()
  socket.resume().write(request(exec, good, ...spdy))
  await once(socket, 'end')
  while (total.bytes - none > bytesOfCall(0)) await nextTurn()
  t.ok(total.bytes > none, 'its connection counts')
})

t.test('strangers who were refused and do not close are counted as strangers', async (t) => {
  const unauthenticated = { ...defaultUnauthenticated, maxIdlePerAddress: 2, graceMs: 0 }
  const none: Cluster = async function* () {
    yield* []
  }
  const { dial, count } = await setUp(t, 'plain', none, { limits: { unauthenticated } })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const refused = async () => {
    const socket = await dial()
    socket.on('error', () => undefined).resume()
    socket.write(request(post, bad, 'Content-Length: 1500000'))
    await once(socket, 'end')
    return socket
  }
  const [first, second, third] = [await refused(), await refused(), await refused()]
  await closed(first)
  t.ok((await isOpen(second)) && (await isOpen(third)))
  t.ok((await count('HEAD_TOO_SLOW')) > 0)
  mock.timers.tick(1000)
  await closed(second)
  await closed(third)
})
