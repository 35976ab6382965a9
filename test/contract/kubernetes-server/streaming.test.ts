import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { good, startServer } from './start-server.ts'

/** Long and large answers and bodies: sent at once, at the pace of the reader, and either whole or visibly cut. */

type Tap = typeof t | import('tap').Test
async function setUp(t: Tap, cluster: Cluster) {
  const started = await startServer(clusterForward(cluster))
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, open }
}

/** Returns the count when it no longer changes. */
async function settled(read: () => number): Promise<number> {
  let last = -1
  let same = 0
  await eventually(() => {
    const now = read()
    same = now === last ? same + 1 : 0
    last = now
    if (same < 10) throw new Error(`still moving at ${now}`)
  })
  return last
}

const chunk = randomBytes(64 * 1024)

// wire: answer.flush, answer.content-type, answer.left
t.test('a watch: its head and each event arrive while it is open', async (t) => {
  let tell = Promise.withResolvers<string>()
  const aborted = Promise.withResolvers<KasError>()
  const { open, count } = await setUp(t, async function* ({ call }) {
    call.signal.addEventListener('abort', () => aborted.resolve(call.signal.reason))
    yield head(200, [['Content-Type', ['application/json']]])
    for (;;) yield data(await tell.promise)
  })
  const client = await open()
  client.request('GET /k8s-proxy/api/v1/pods?watch=1', good)
  const text = await client.until(/\r\n\r\n$/)
  t.match(text, /\r\nContent-Type: application\/json\r\n(?:.+\r\n)*Transfer-Encoding: chunked\r\n/, 'byte for byte')
  for (const event of ['{"type":"ADDED"}\n', '{"type":"DELETED"}\n']) {
    const { resolve } = tell
    tell = Promise.withResolvers()
    resolve(event)
    await client.until(new RegExp(`${event.trim()}\n\r\n$`))
  }
  t.equal(await count('answered'), 0)
  client.close()
  t.equal((await aborted.promise).code, 'CANCELLED', 'the browser closes, the call ends')
  await eventually(async () => {
    if ((await count('left')) !== 1) throw new Error('not counted yet')
  })
})

t.test('a reader that stops holds little, and slows nobody', async (t) => {
  let sent = 0
  const { open } = await setUp(t, async function* ({ header }) {
    yield head(200)
    while (header.urlPath === '/endless') {
      sent++
      yield data(chunk)
    }
    yield data('quick')
    yield trailer
  })
  const stopped = await open()
  stopped.socket.pause()
  stopped.request('GET /k8s-proxy/endless', good)
  const reached = await settled(() => sent)
  t.ok(reached > 0 && reached * chunk.length < 16 * 1024 * 1024, `${reached} chunks went to the sockets`)
  const other = await open()
  t.match(await other.request('GET /k8s-proxy/', good).until(/\r\n0\r\n\r\n$/), /quick/)
  stopped.socket.resume()
  await eventually(() => {
    if (sent < reached + 50) throw new Error('it does not go on')
  })
  stopped.close()
})

t.test('a cluster that does not take a body stops its sender', async (t) => {
  const read = Promise.withResolvers<void>()
  let total = 0
  const { open } = await setUp(t, async function* ({ body }) {
    await read.promise
    total = (await body()).length
    yield head(200, [['Content-Length', ['0']]])
    yield trailer
  })
  const client = await open()
  const bytes = 64 * 1024 * 1024
  client.request('PUT /k8s-proxy/', good, `Content-Length: ${bytes}`)
  let written = 0
  const write = () => {
    while (written < bytes) {
      written += chunk.length
      if (!client.socket.write(chunk)) return
    }
  }
  client.socket.on('drain', write)
  write()
  t.ok((await settled(() => written)) < bytes / 2)
  read.resolve()
  await client.until(/\r\n\r\n$/)
  t.equal(total, bytes)
})

// wire: limit.body
t.test('large bodies arrive whole, both ways', async (t) => {
  const { port } = await setUp(t, async function* ({ messages }) {
    yield head(200)
    for (;;) {
      const { done, value } = await messages.next()
      if (done) break
      if (value.kind === 'data') yield data(value.data)
    }
    yield trailer
  })
  const body = randomBytes(24 * 1024 * 1024)
  for (const headers of [{ 'Content-Length': body.length }, { 'Transfer-Encoding': 'chunked' }]) {
    const client = request({
      port,
      method: 'POST',
      path: '/k8s-proxy/',
      headers: { ...headers, Authorization: good.slice(15) },
    })
    client.end(body)
    const [answer] = await once(client, 'response')
    const hash = createHash('sha256')
    for await (const part of answer) hash.update(part)
    t.equal(hash.digest('hex'), createHash('sha256').update(body).digest('hex'), JSON.stringify(headers))
  }
})

t.test('an answer before the body has come', async (t) => {
  const { open, count } = await setUp(t, async function* () {
    yield head(413, [['Content-Length', ['3']]], 'Too Large')
    yield data('big')
    yield trailer
  })
  const client = await open()
  client.request('POST /k8s-proxy/', good, 'Content-Length: 1000').write('x')
  const text = await client.until(/big$/)
  t.match(text, /^HTTP\/1\.1 413 Too Large\r\n(?:.+\r\n)*Connection: close\r\n/)
  client.write('x'.repeat(999))
  await client.toEnd()
  t.equal(client.ended, 'end')
  t.equal(await count('answered'), 1)
})

t.test('bytes that are no text pass unchanged in headers and bodies', async (t) => {
  const { open } = await setUp(t, async function* ({ header }) {
    const value = header.header.find(([name]) => name === 'X-Bytes')?.[1] ?? []
    yield head(200, [
      ['X-Bytes', value],
      ['Content-Length', ['3']],
    ])
    yield data(Uint8Array.of(0, 255, 10))
    yield trailer
  })
  const client = await open()
  const bytes = Buffer.from('é☃').toString('latin1')
  const text = await client.request('GET /k8s-proxy/', good, `X-Bytes: ${bytes}`).until(/\xff\n$/)
  t.ok(text.includes(`\r\nX-Bytes: ${bytes}\r\n`))
  t.ok(text.endsWith('\x00\xff\n'))
})

t.test('a call whose client has left is told so in time', async (t) => {
  const reasons: unknown[] = []
  const { open } = await setUp(t, async function* ({ call }) {
    call.signal.addEventListener('abort', () => reasons.push(call.signal.reason))
    await new Promise(() => undefined)
    yield trailer
  })
  const client = await open()
  client.request('GET /k8s-proxy/', good).request('GET /k8s-proxy/', good)
  await eventually(() => {
    client.socket.resetAndDestroy()
    if (reasons.length !== 2) throw new Error(`${reasons.length} aborts`)
  })
  t.ok(reasons.every((reason) => reason instanceof KasError))
})
