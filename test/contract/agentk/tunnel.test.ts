import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Forward, Reply } from '../../../src/call/call.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { patience } from '../../support/slowness.ts'
import { startPool, startSessions } from './agent-side.ts'
import { FakeKas, type KasTunnel, listenAs } from './fake-kas.ts'

const method = '/test.Echo/Do'

function replyOf(messages: AsyncIterable<Uint8Array>, error?: KasError): Reply {
  const outcome = { trailers: { after: ['words'] }, ...(error ? { error } : {}) }
  return {
    metadata: Promise.resolve({ before: ['words'] }),
    messages,
    done: Promise.resolve(outcome),
  }
}

/** Sends back each message. */
const echo: Forward = async (call) => replyOf(call.messages)

async function readAll(tunnel: KasTunnel): Promise<string[]> {
  const seen: string[] = []
  for (let message = await tunnel.next(); message; message = await tunnel.next()) {
    if (message.kind === 'message') seen.push(`message ${Buffer.from(message.data).toString()}`)
    else if (message.kind === 'error') seen.push(`error ${message.status.code} ${message.status.message}`)
    else if (message.kind === 'descriptor') seen.push('descriptor')
    else seen.push(`${message.kind} ${JSON.stringify(message.meta)}`)
  }
  return seen
}

async function start(t: Test, methods: Record<string, Forward>) {
  const kas = new FakeKas()
  const port = await listenAs(t, kas, 'grpc')
  const sessions = await startSessions(t, `grpc://127.0.0.1:${port}`)
  return { kas, sessions, pool: await startPool(t, sessions, methods) }
}

// wire: agentk.order
t.test('header, messages, trailer; then the slot opens the next', async (t) => {
  const { kas, pool } = await start(t, { [method]: echo })
  const tunnel = await kas.take()
  tunnel.begin(method)
  tunnel.message(Buffer.from('one'))
  tunnel.message(Buffer.from('two'))
  tunnel.message(Buffer.alloc(0))
  tunnel.closeSend()
  t.same(await readAll(tunnel), [
    'header {"before":["words"]}',
    'message one',
    'message two',
    'message ',
    'trailer {"after":["words"]}',
  ])
  tunnel.end()
  // two at the start, ten more with the first call, and the next one of the used slot
  await eventually(() => assert.equal(kas.connects, 13))
  t.same(pool.counts, { idle: 12, active: 0, served: 1 })
})

// wire: agentk.error-only
t.test('a call that fails at once has only its error', async (t) => {
  const refuse: Forward = () => Promise.reject(new KasError({ code: 'STATUS', grpc: 14, message: 'no cluster' }))
  const { kas } = await start(t, { [method]: refuse })
  const refused = await kas.take()
  refused.begin(method)
  t.same(await readAll(refused), ['error 14 no cluster'])
  const unknown = await kas.take()
  unknown.begin('/test.Echo/Other')
  t.match(await readAll(unknown), [/^error 12 /])
})

// wire: agentk.order
t.test('a failure after the first message has a trailer before its error', async (t) => {
  const cut: Forward = async () =>
    replyOf(
      (async function* () {
        yield Buffer.from('half')
      })(),
      new KasError({ code: 'STATUS', grpc: 14, message: 'cut' }),
    )
  const { kas } = await start(t, { [method]: cut })
  const tunnel = await kas.take()
  tunnel.begin(method)
  t.same(await readAll(tunnel), [
    'header {"before":["words"]}',
    'message half',
    'trailer {"after":["words"]}',
    'error 14 cut',
  ])
})

t.test('a reply without messages has header and trailer', async (t) => {
  const empty: Forward = async () => replyOf((async function* () {})())
  const { kas } = await start(t, { [method]: empty })
  const tunnel = await kas.take()
  tunnel.begin(method)
  t.same(await readAll(tunnel), ['header {"before":["words"]}', 'trailer {"after":["words"]}'])
})

t.test('a message over the limit fails that call only', async (t) => {
  const large: Forward = async () =>
    replyOf(
      (async function* () {
        yield Buffer.alloc(5 * 1024 * 1024)
      })(),
    )
  const { kas } = await start(t, { [method]: large, '/test.Echo/Small': echo })
  const tunnel = await kas.take()
  tunnel.begin(method)
  t.match(await readAll(tunnel), ['header {"before":["words"]}', 'trailer {}', /^error 8 /])
  const other = await kas.take()
  other.begin('/test.Echo/Small')
  other.closeSend()
  t.equal((await readAll(other)).length, 2)
})

// wire: agentk.kas-ends
t.test('kas ends Connect with an error: the call is cancelled', async (t) => {
  const aborted = Promise.withResolvers<unknown>()
  const hang: Forward = async (call) => {
    call.signal.addEventListener('abort', () => aborted.resolve(call.signal.reason))
    return replyOf(call.messages)
  }
  const { kas } = await start(t, { [method]: hang })
  const tunnel = await kas.take()
  tunnel.begin(method)
  tunnel.message(Buffer.from('hello'))
  await tunnel.next()
  tunnel.fail(new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }))
  t.match(await aborted.promise, { grpcCode: 1 })
})

// wire: tunnel.order.kas
t.test('messages out of order end the tunnel', async (t) => {
  const { kas } = await start(t, { [method]: echo })
  const tunnel = await kas.take()
  tunnel.closeSend() // sent before request_info
  await t.rejects(tunnel.next())
  t.ok(await kas.take(), 'the slot goes on')
})

// wire: agentk.grow
t.test('a burst is served: the pool grows by ten', async (t) => {
  const { kas, pool } = await start(t, { [method]: echo })
  const all = Array.from({ length: 60 }, async () => {
    const tunnel = await kas.take()
    tunnel.begin(method)
    tunnel.message(Buffer.from('x'))
    t.equal((await tunnel.next())?.kind, 'header')
    return tunnel
  })
  const tunnels = await Promise.all(all)
  t.equal(pool.counts.active, 60)
  for (const tunnel of tunnels) tunnel.closeSend()
  await Promise.all(tunnels.map(async (tunnel) => void (await tunnel.next())))
  await eventually(() => assert.equal(pool.counts.active, 0))
  for (const tunnel of tunnels) tunnel.end()
})

t.test('GOAWAY: new tunnels on a fresh connection, the running call ends on the old one', async (t) => {
  const { kas, pool } = await start(t, { [method]: echo })
  const running = await kas.take()
  running.begin(method)
  running.message(Buffer.from('before'))
  t.equal((await running.next())?.kind, 'header')
  await running.next()
  const old = kas.sessions[0]
  kas.idle.length = 0
  old?.close()
  const fresh = await takeOn(kas, () => kas.sessions[1])
  t.not(fresh.stream.session, old)
  running.message(Buffer.from('after'))
  const echoed = await running.next()
  t.equal(echoed?.kind === 'message' && Buffer.from(echoed.data).toString(), 'after')
  running.closeSend()
  t.equal((await running.next())?.kind, 'trailer')
  running.end()
  t.equal(pool.counts.active, 0)
})

t.test('a lost connection is dialled again at once', async (t) => {
  const kas = new FakeKas()
  let passedMs = 0
  const clock = { now: () => Date.now() + passedMs, after: systemClock.after }
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`, { clock })
  await startPool(t, sessions, { [method]: echo })
  await kas.take()
  passedMs = 2000 // a connection that lived for more than a second counts as good
  kas.idle.length = 0
  kas.sessions[0]?.destroy()
  const before = performance.now()
  await takeOn(kas, () => kas.sessions[1])
  t.ok(performance.now() - before < 900, 'without the second of back-off')
})

t.test('stopping ends idle tunnels and lets the running call end', async (t) => {
  const { kas, pool } = await start(t, { [method]: echo })
  const running = await kas.take()
  running.begin(method)
  running.message(Buffer.from('x'))
  await running.next()
  const stopped = pool.stop(AbortSignal.timeout(patience(5000)))
  running.closeSend()
  t.same((await readAll(running)).at(-1), 'trailer {"after":["words"]}')
  running.end()
  await stopped
  t.same(pool.counts, { idle: 0, active: 0, served: 1 })
})

t.test('patience that ends cuts the running call', async (t) => {
  const { kas, pool } = await start(t, { [method]: echo })
  const running = await kas.take()
  running.begin(method)
  running.message(Buffer.from('x'))
  await running.next()
  await pool.stop(AbortSignal.timeout(50))
  t.equal(pool.counts.active, 0)
})

// wire: agentk.flag.kas-address, agentk.upgrade
t.test('all four forms of address', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'agentk-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  const subject = ['-subj', '/CN=kas', '-addext', 'subjectAltName=DNS:kas.test']
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', files.key]
  execFileSync('openssl', ['req', '-x509', ...key, '-out', files.cert, '-days', '2', ...subject], { stdio: 'ignore' })
  const tls = { cert: readFileSync(files.cert, 'utf8'), key: readFileSync(files.key, 'utf8') }
  for (const form of ['grpc', 'grpcs', 'ws', 'wss'] as const) {
    await t.test(form, async (t) => {
      const kas = new FakeKas()
      const upgrade = Promise.withResolvers<IncomingMessage>()
      const port = await listenAs(t, kas, form, { ...tls, onUpgrade: upgrade.resolve })
      const headers = [['X-Extra', 'yes']] as const
      const options = { caFile: files.cert, serverName: 'kas.test', headers }
      const sessions = await startSessions(t, `${form}://127.0.0.1:${port}/some/path?dropped`, options)
      await startPool(t, sessions, { [method]: echo })
      const tunnel = await kas.take()
      t.same(tunnel.stream.metadata.authorization, ['Bearer token'])
      t.match(tunnel.stream.metadata['user-agent'], ['gitlab-agent/v0.0.0/test'])
      tunnel.begin(method)
      const large = Buffer.alloc(3 * 1024 * 1024, 'z')
      tunnel.message(large)
      tunnel.closeSend()
      t.equal((await tunnel.next())?.kind, 'header')
      const echoed = await tunnel.next()
      t.ok(echoed?.kind === 'message' && large.equals(echoed.data))
      if (!form.startsWith('ws')) return
      const request = await upgrade.promise
      t.equal(request.url, '/some/path')
      t.match(request.headers, {
        'sec-websocket-protocol': 'ws-tunnel',
        'user-agent': 'gitlab-agent/v0.0.0/test',
        authorization: 'Bearer token',
        'x-extra': 'yes',
        host: `127.0.0.1:${port}`,
      })
      t.notOk(request.headers['sec-websocket-extensions'])
    })
  }
})

/** Returns the next tunnel on this session. */
async function takeOn(kas: FakeKas, session: () => unknown): Promise<KasTunnel> {
  for (;;) {
    const tunnel = await kas.take()
    if (tunnel.stream.session === session()) return tunnel
  }
}
