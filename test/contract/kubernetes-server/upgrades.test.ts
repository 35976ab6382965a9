import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import { opcodes, serverFrame } from '../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { eventually } from '../../support/eventually.ts'
import { webSocketFrames } from '../../support/websocket-frames.ts'
import { type Cluster, type ClusterRequest, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { agentId, good, startServer } from './start-server.ts'

/** exec, attach and port-forward over upgraded connections (doc/reference/tunnel-protocol.md 6.5). */

type Tap = typeof t | import('tap').Test
async function setUp(t: Tap, cluster: Cluster, options: Parameters<typeof startServer>[1] = {}) {
  const started = await startServer(clusterForward(cluster), options)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, open }
}

const exec = 'GET /k8s-proxy/api/v1/namespaces/d/pods/p/exec?command=a'
const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: k', 'sec-websocket-version: 13']
const spdy = ['Connection: Upgrade', 'Upgrade: SPDY/3.1', 'X-Stream-Protocol-Version: v4.channel.k8s.io']
const switching = head(
  101,
  [
    ['Upgrade', ['websocket']],
    ['Connection', ['Upgrade']],
    ['Sec-Websocket-Accept', ['a']],
  ],
  'Switching Protocols',
)
const up = (bytes: string | Uint8Array) => encodeHttpResponse.upgradeData(Buffer.from(bytes))

/** Sends back each piece of upgraded data in upper case, and a last word after the client's half-close. */
async function* shout({ messages }: ClusterRequest) {
  for (;;) {
    const { done, value } = await messages.next()
    if (done) break
    if (value.kind === 'upgradeData') yield up(Buffer.from(value.data).toString().toUpperCase())
  }
  yield up('bye')
}

// wire: http.connection-upgrade, upgrade.request, upgrade.early, upgrade.client-ends, upgrade.names
// wire: http.length.upgrade, http.trailer
t.test('bytes both ways, also those that came with the request', async (t) => {
  const kinds: string[] = []
  const { open, count } = await setUp(t, async function* (request) {
    const { header, call, messages } = request
    t.equal(header.contentLength, 0)
    t.same(
      header.header.filter(([name]) => name !== 'Via' && name !== 'Audit-Id'),
      [
        ['Sec-Websocket-Key', ['k']],
        ['Sec-Websocket-Version', ['13']],
        ['Upgrade', ['websocket']],
        ['Connection', ['upgrade']],
        ['X-Forwarded-Host', ['kas']],
        ['X-Forwarded-Proto', ['http']],
      ],
    )
    t.equal(call.safety, 'unsafe')
    kinds.push((await messages.next()).value?.kind ?? 'end')
    yield switching
    yield trailer
    yield* shout(request)
  })
  const client = await open()
  client.request(exec, good, ...websocket).write('early')
  const text = await client.until(/EARLY$/)
  t.match(text, /^HTTP\/1\.1 101 Switching Protocols\r\n/)
  t.match(text, /\r\nUpgrade: websocket\r\n/)
  t.match(text, /\r\nConnection: Upgrade\r\n/)
  t.match(text, /\r\nSec-Websocket-Accept: a\r\n/)
  t.notMatch(text, /Transfer-Encoding|Content-Length/)
  t.same(kinds, ['trailer'], 'the trailer, and no half-close')
  await client.write('hello').until(/HELLO$/)
  client.socket.end()
  t.match(await client.toEnd(), /bye$/, 'what is left arrives after the half-close')
  t.equal(client.ended, 'end')
  await eventually(async () => {
    if ((await count('upgraded')) !== 1) throw new Error('not counted yet')
  })
})

// wire: upgrade.spdy, upgrade.agent-ends
t.test('SPDY by POST; the agent ends', async (t) => {
  const { open } = await setUp(t, async function* () {
    yield head(101, [['Upgrade', ['SPDY/3.1']]])
    yield trailer
    yield up('x'.repeat(500_000))
  })
  const client = await open()
  client.request(exec.replace('GET', 'POST'), good, ...spdy, 'Content-Length: 0')
  const text = await client.toEnd()
  t.match(text, /^HTTP\/1\.1 101 .+\r\n(?:.+\r\n)*Upgrade: SPDY\/3\.1\r\n/)
  t.equal(text.length - text.indexOf('\r\n\r\n') - 4, 500_000)
  t.equal(client.ended, 'end')
})

// wire: upgrade.other
t.test('an answer that is no upgrade', async (t) => {
  const ended = Promise.withResolvers<boolean>()
  const { open, count } = await setUp(t, async function* ({ messages }) {
    await messages.next()
    yield head(403, [], 'Forbidden')
    ended.resolve((await messages.next()).done === true)
    yield data('no')
    yield data(' way')
    yield trailer
  })
  const client = await open()
  const text = await client.request(exec, good, ...websocket).toEnd()
  t.match(text, /^HTTP\/1\.1 403 Forbidden\r\n(?:.+\r\n)*Connection: close\r\n/)
  t.match(text, /\r\n\r\n2\r\nno\r\n4\r\n way\r\n0\r\n\r\n$/)
  t.ok(await ended.promise, 'the request is half-closed')
  t.equal(await count('answered'), 1)
})

t.test('errors are HTTP answers', async (t) => {
  const { open } = await setUp(t, async function* () {
    yield* []
    throw new KasError({ code: 'STATUS', grpc: 14, message: 'gRPC -> HTTP: gone' })
  })
  for (const [code, headers] of [
    [401, ['Authorization: Bearer ci:42:bad']],
    [502, [good]],
    [403, ['Origin: https://evil.example.com']],
  ] as const) {
    const client = await open()
    const text = await client.request(exec, ...headers, ...websocket).toEnd()
    t.match(text, new RegExp(`^HTTP/1\\.1 ${code} .+\r\n(?:.+\r\n)*Connection: close\r\n`))
    t.equal(client.ended, 'end')
  }
  const page = ['Origin: https://gitlab.example.com', 'Access-Control-Request-Method: GET']
  const preflight = await open()
  t.match(await preflight.request('OPTIONS /', ...websocket, ...page).toEnd(), /^HTTP\/1\.1 200 OK\r\n/)
})

t.test('HTTP/2 is no protocol to change to: the cluster does not hear of it', async (t) => {
  const { open } = await setUp(t, async function* ({ header }) {
    const names = header.header.map(([name]) => name)
    if (names.some((name) => /^(Upgrade|Connection|Http2-Settings)$/.test(name))) yield switching
    else yield head(200, [['Content-Length', ['0']]])
    yield trailer
  })
  for (const name of ['h2c', 'H2C', 'websocket, h2c', 'h2c,SPDY/3.1', 'h2', 'HTTP/2.0']) {
    const client = await open()
    const lines = ['Connection: Upgrade, HTTP2-Settings', `Upgrade: ${name}`, 'HTTP2-Settings: AAMAAABkAAQAAP__']
    t.match(await client.request(exec, good, ...lines).until(/\r\n\r\n/), /^HTTP\/1\.1 200 OK\r\n/, name)
  }
  for (const name of ['websocket', 'SPDY/3.1', 'h2cx', 'xh2c']) {
    const client = await open()
    const lines = ['Connection: Upgrade', `Upgrade: ${name}`]
    t.match(await client.request(exec, good, ...lines).until(/\r\n\r\n/), /^HTTP\/1\.1 101 /, name)
  }
})

t.test('an Upgrade header that is none', async (t) => {
  const { open } = await setUp(t, async function* ({ header, body, call }) {
    yield head(200)
    yield data(JSON.stringify([header.header.map(([name]) => name), (await body()).toString(), call.safety]))
    yield trailer
  })
  const client = await open()
  await client
    .request('GET /k8s-proxy/', good, 'Upgrade: h2c')
    .until(/\[\["X-Forwarded-Host","X-Forwarded-Proto","Via","Audit-Id"\],"","unsafe"\]/)
  client.text = ''
  client.request('POST /k8s-proxy/', good, 'Connection: upgrade', 'Upgrade: x', 'Content-Length: 3').write('abc')
  await client.until(/\[\["X-Forwarded-Host","X-Forwarded-Proto","Via","Audit-Id"\],"abc","unsafe"\]/)
  t.pass('with a body it is an ordinary request')
})

const execSwitching = head(
  101,
  [
    ['Upgrade', ['websocket']],
    ['Connection', ['Upgrade']],
    ['Sec-Websocket-Protocol', ['v5.channel.k8s.io']],
  ],
  'Switching Protocols',
)
/** Returns a message of stdout in the API server's framing. */
const output = (text: string) => serverFrame(opcodes.binary, Buffer.from(`\x01${text}`))

/**
 * Resolves when the count has not changed for 250 ms: all buffers are full. It uses no timer, which could be a double.
 */
async function settled(count: () => number): Promise<void> {
  let [last, since] = [count(), performance.now()]
  while (performance.now() - since < 250) {
    await nextTurn()
    if (count() === last) continue
    last = count()
    since = performance.now()
  }
}

// wire: upgrade.write-deadline, figure.write
t.test('a client that pauses for hours gets all', async (t) => {
  const hourMs = 3_600_000
  for (const [name, pieces, pieceBytes] of [
    ['in the midst', 400, 32_000],
    ['behind the end', 1, 16_000_000],
  ] as const) {
    await t.test(name, async (t) => {
      let sent = 0
      const { open, count } = await setUp(t, async function* () {
        yield switching
        yield trailer
        for (; sent < pieces; sent++) yield up('x'.repeat(pieceBytes))
      })
      const client = await open()
      mock.timers.enable({ apis: ['setTimeout'] })
      t.teardown(() => mock.timers.reset())
      client.request(exec, good, ...websocket)
      await client.until(/\r\n\r\n/)
      client.socket.pause()
      await settled(() => sent)
      t.ok(sent < pieces || pieces === 1, `${sent} of ${pieces} pieces are on their way`)
      mock.timers.tick(hourMs)
      await nextTurn()
      t.equal(await count('upgraded'), 0, 'it runs')
      mock.timers.reset()
      client.socket.resume()
      const text = await client.toEnd()
      t.equal(client.ended, 'end')
      t.equal(text.length - text.indexOf('\r\n\r\n') - 4, pieces * pieceBytes)
    })
  }
})

t.test('a client that has paused and is ended for room gets what it had, and the reason', async (t) => {
  const full = new KasError({ code: 'TOO_MUCH_UNREAD', limit: 24 })
  const frame = output('x'.repeat(32_000))
  const room = Promise.withResolvers<void>()
  let sent = 0
  const { open } = await setUp(t, async function* () {
    yield execSwitching
    yield trailer
    // each end is in the middle of a frame
    yield up(frame.subarray(0, 20_000))
    for (; sent < 400; sent++) yield up(Buffer.concat([frame.subarray(20_000), frame.subarray(0, 20_000)]))
    await room.promise
    throw full
  })
  const client = await open()
  client.request(exec, good, ...websocket)
  await client.until(/\r\n\r\n/)
  client.socket.pause()
  await settled(() => sent)
  sent = 400
  room.resolve()
  client.socket.resume()
  const text = await client.toEnd()
  t.equal(client.ended, 'end')
  const frames = webSocketFrames(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1'))
  const [error, close] = frames.splice(-2)
  t.ok(frames.length > 1)
  t.ok(
    frames.every(({ payload }) => payload.length === 32_001 && payload[0] === 1),
    'whole messages of stdout',
  )
  t.equal(error?.payload[0], 3)
  t.match(JSON.parse(String(error?.payload.subarray(1))), { message: /More than 24 bytes from this agent/, code: 429 })
  t.equal(close?.opcode, opcodes.close)
})

t.test("what waits of a frame, or for a client, is counted as its caller's", async (t) => {
  const memory = new ReplicaMemory({ unreadBytes: 2 ** 20, callersBytes: 2 ** 30 })
  const total = () => memory.enter('callers', agentId as AgentId, 'nobody').total.bytes
  const started = await startServer(
    clusterForward(async function* () {
      yield execSwitching
      yield trailer
      yield up('x'.repeat(16_000_000))
      await new Promise(() => undefined)
    }),
    {},
    undefined,
    { memory },
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const client = await RawClient.open(started.port)
  client.request(exec, good, ...websocket)
  await client.until(/\r\n\r\n/)
  client.socket.pause()
  await eventually(() => total() > 16_000_000)
  client.close()
  await eventually(() => total() === 0)
})

// wire: answer.left
t.test('clients that leave, before and after the upgrade', async (t) => {
  for (const leave of ['before', 'half before', 'after'] as const) {
    const begun = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<KasError>()
    const { open } = await setUp(t, async function* ({ call, messages }) {
      call.signal.addEventListener('abort', () => aborted.resolve(call.signal.reason))
      await messages.next()
      begun.resolve()
      if (leave !== 'after') await new Promise(() => undefined)
      yield switching
      yield trailer
      await new Promise(() => undefined)
    })
    const client = await open()
    client.request(exec, good, ...websocket)
    if (leave === 'after') await client.until(/\r\n\r\n$/)
    else await begun.promise
    if (leave === 'half before') client.socket.end()
    else client.socket.resetAndDestroy()
    t.equal((await aborted.promise).code, 'CANCELLED', leave)
  }
})

t.test('a failure after the upgrade: the reason follows in place of a message that is not whole', async (t) => {
  const { open, count } = await setUp(t, async function* ({ header }) {
    yield switching
    if (header.query.some(([name]) => name === 'data')) yield data('x')
    yield trailer
    yield up('some')
    throw new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
  })
  const client = await open()
  t.match(
    await client.request(exec, good, ...websocket).toEnd(),
    /^HTTP\/1\.1 101 .+\r\n\r\n\x88.*The connection of the agent was lost/s,
  )
  client.close()
  await eventually(async () => (await count('failed')) === 1)
  const wrong = await open()
  t.match(await wrong.request(`${exec}&data`, good, ...spdy).toEnd(), /^HTTP\/1\.1 502 /, 'before the 101 was sent')
})

t.test('a command that may have run is not answered with an error where kubectl would run it again', async (t) => {
  const { open, count } = await setUp(t, async function* ({ header }) {
    yield* []
    const delivery = header.query.some(([name]) => name === 'unsent') ? 'none' : 'maybe'
    throw new KasError({ code: 'TUNNEL_LOST', delivery })
  })
  const lost = await open()
  t.equal(await lost.request(exec, good, ...websocket).toEnd(), '', 'kubectl falls back to SPDY for any other answer')
  t.equal(await count('cut'), 1)
  const unsent = await open()
  t.match(await unsent.request(`${exec}&unsent`, good, ...websocket).toEnd(), /^HTTP\/1\.1 502 /)
  const bySpdy = await open()
  t.match(await bySpdy.request(exec, good, ...spdy).toEnd(), /^HTTP\/1\.1 502 (?:.+\r\n)*Kas-Delivery: maybe\r\n/)
})

t.test('an upgrade behind a request that runs', async (t) => {
  const { open } = await setUp(t, async function* () {
    await new Promise(() => undefined)
    yield trailer
  })
  const client = await open()
  client.request('GET /k8s-proxy/', good).request(exec, good, ...websocket)
  t.equal(await client.toEnd(), '', 'its answer cannot be told from the first one: cut')
})

t.test('back-pressure both ways', async (t) => {
  let sent = 0
  let taken = 0
  const { open } = await setUp(t, async function* ({ messages }) {
    yield switching
    yield trailer
    for (let i = 0; i < 3; i++) {
      const { value } = await messages.next()
      if (value?.kind === 'upgradeData') taken += value.data.length
    }
    for (; ; sent++) yield up('x'.repeat(60_000))
  })
  const client = await open()
  client.request(exec, good, ...websocket)
  await client.until(/\r\n\r\n$/)
  client.socket.pause()
  for (let i = 0; i < 1000; i++) client.write('y'.repeat(32_768))
  let last = -1
  let same = 0
  await eventually(() => {
    same = sent === last ? same + 1 : 0
    last = sent
    if (same < 10) throw new Error('still moving')
  })
  t.ok(sent > 0 && sent < 300)
  t.ok(client.socket.writableLength > 1_000_000, 'the client is held up')
  t.ok(taken > 0)
})
