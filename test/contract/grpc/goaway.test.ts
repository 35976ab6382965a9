import { once } from 'node:events'
import { connect as connectHttp2, type ServerHttp2Session } from 'node:http2'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { grpcJs } from './grpc-js.ts'
import { serveOurs } from './ours.ts'
import { framed, gate, goawayIn, rawCall, rawServer } from './raw-peers.ts'
import { bytes, collect, type TestHandler, text } from './sides.ts'

/**
 * A stream that crosses the server's GOAWAY: the client opens it after the server sent GOAWAY and before it read it.
 */

t.setTimeout(30_000)
const path = '/test.Contract/Echo'
const refusedStream = 7
const unavailable = 14

function echoCounting(): { echo: TestHandler; count: () => number } {
  let calls = 0
  return {
    count: () => calls,
    echo: async ({ messages, send }) => {
      calls++
      for await (const message of messages) await send(message)
      return {}
    },
  }
}

t.test('a raw client whose stream crosses GOAWAY hears REFUSED_STREAM at once', async (t) => {
  const { echo, count } = echoCounting()
  const server = await serveOurs({ [path]: echo })
  t.teardown(() => server.close())
  const connection = await gate(t, server.port)
  const session = connectHttp2('http://127.0.0.1', { createConnection: () => connection.duplex })
  session.on('error', () => undefined)
  t.teardown(() => session.destroy())

  const running = session.request(
    { ':method': 'POST', ':path': path, 'content-type': 'application/grpc' },
    { endStream: false },
  )
  running.write(framed(0, bytes('before')))
  const answers = running.iterator({ destroyOnReturn: false })
  t.strictSame((await answers.next()).value, framed(0, bytes('before')))

  connection.hold()
  server.goaway()
  let lastStream: number | undefined
  await connection.waiting((held) => {
    lastStream = goawayIn(held)
    return lastStream !== undefined
  })
  t.equal(lastStream, running.id, 'GOAWAY carries the true last stream id')
  const crossing = rawCall(session, { ':path': path }, framed(0, bytes('crossing')))
  running.write(framed(0, bytes('after')))
  await connection.waiting((held) => held.includes('after'))
  connection.release()

  const { rstCode, headers } = await crossing
  t.equal(rstCode, refusedStream)
  t.equal(headers[':status'], undefined)
  t.equal(count(), 1, 'no handler has seen it')
  t.strictSame((await answers.next()).value, framed(0, bytes('after')), 'the running call goes on')
  running.end()
  t.ok((await answers.next()).done)
  if (!running.closed) await once(running, 'close')
  t.equal(running.rstCode, 0)
})

t.test('our client calls it a loss before delivery, so that it may be tried elsewhere', async (t) => {
  const { echo, count } = echoCounting()
  const server = await serveOurs({ [path]: echo })
  t.teardown(() => server.close())
  const connection = await gate(t, server.port)
  const session = ClientSession.over(connection.duplex, { authority: 'test', scheme: 'http' })
  t.teardown(() => session.destroy())

  const running = session.open({ method: path })
  const answers = running.messages[Symbol.asyncIterator]()
  await running.send(bytes('before'))
  t.equal(text((await answers.next()).value), 'before')
  t.notOk(session.draining)

  connection.hold()
  server.goaway()
  await connection.waiting((held) => goawayIn(held) !== undefined)
  const crossing = session.open({ method: path })
  void crossing.send(bytes('crossing'))
  crossing.end()
  await running.send(bytes('after'))
  await connection.waiting((held) => held.includes('after'))
  connection.release()

  t.strictSame(await collect(crossing.messages), [])
  t.match((await crossing.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'none' })
  t.ok(session.draining)
  t.throws(() => session.open({ method: path }), { code: 'TUNNEL_LOST' })
  t.equal(count(), 1, 'no handler has seen it')
  t.equal(text((await answers.next()).value), 'after')
  running.end()
  t.ok((await answers.next()).done)
  t.equal((await running.done).error, undefined)
  await session.closed
  t.pass('the connection ends with its last call')
})

t.test('calls of grpc-js beside a GOAWAY at any moment all succeed or say that they may be repeated', async (t) => {
  const { echo } = echoCounting()
  const server = await serveOurs({ [path]: echo })
  t.teardown(() => server.close())
  const client = await grpcJs.connect(server.port)
  t.teardown(() => client.close())
  const codes = new Set<number>()
  for (let round = 0; round < 20; round++) {
    const calls = Array.from({ length: 10 }, async () => {
      const call = await client.call(path)
      void call.send(bytes('x'))
      call.end()
      await collect(call.messages)
      codes.add((await call.done).code)
    })
    server.goaway()
    await Promise.all(calls)
  }
  codes.delete(unavailable)
  t.strictSame([...codes], [0])
})

/** Starts a raw echo server. Returns access to its newest session. */
async function rawEcho(t: Test) {
  let session: ServerHttp2Session | undefined
  const port = await rawServer(t, (stream) => {
    session = stream.session as ServerHttp2Session
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.pipe(stream)
  })
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const client = ClientSession.over(socket, { authority: 'test', scheme: 'http' })
  t.teardown(() => client.destroy())
  const running = client.open({ method: path })
  const answers = running.messages[Symbol.asyncIterator]()
  await running.send(bytes('before'))
  t.equal(text((await answers.next()).value), 'before')
  return { client, running, answers, session: session as ServerHttp2Session }
}

t.test('the GOAWAY of grpc-go, which names the last stream of all, drains and cuts nothing', async (t) => {
  const { client, running, answers, session } = await rawEcho(t)
  const draining = new Promise<void>((resolve) => client.onDraining(resolve))
  session.goaway(0, 2 ** 31 - 1, Buffer.from('graceful_stop'))
  await draining
  t.throws(() => client.open({ method: path }), { code: 'TUNNEL_LOST' })
  await running.send(bytes('after'))
  t.equal(text((await answers.next()).value), 'after')
  running.end()
  t.ok((await answers.next()).done)
  t.equal((await running.done).error, undefined)
  await client.closed
})

t.test('a GOAWAY with an error ends the connection and its calls', async (t) => {
  const enhanceYourCalm = 11
  const { client, running, session } = await rawEcho(t)
  session.goaway(enhanceYourCalm, 0, Buffer.from('too_many_pings'))
  const { error } = await running.done
  t.equal(error?.grpcCode, unavailable)
  await client.closed
  t.ok(client.draining)
})

for (const leaver of ['client', 'server'] as const) {
  t.test(`after GOAWAY of the ${leaver} both sides still hear whether the other lives`, async (t) => {
    const { echo } = echoCounting()
    const server = await serveOurs({ [path]: echo })
    t.teardown(() => server.close())
    const socket = connect(server.port, '127.0.0.1')
    const client = ClientSession.over(socket, { authority: 'kas.test', scheme: 'http' })
    t.teardown(() => client.destroy())
    const call = client.open({ method: path })
    const echoes = call.messages[Symbol.asyncIterator]()
    void call.send(bytes('before'))
    await echoes.next()
    const [session] = server.sessions
    if (!session) throw new Error('there is a session')
    const told = new Promise<void>((resolve) =>
      leaver === 'client' ? session.onLeaving(resolve) : client.onDraining(resolve),
    )
    if (leaver === 'client') client.close()
    else session.close()
    await told
    for (const side of [client, session]) {
      const read = side.bytesRead
      t.ok((await side.ping()) < 30_000)
      t.ok(side.bytesRead > read, 'the answer is a sign of life')
    }
    void call.send(bytes('after'))
    t.match(await echoes.next(), { value: Buffer.from('after') })
    client.destroy()
    await t.rejects(client.ping(), { code: 'TUNNEL_LOST' })
    await session.closed
    await t.rejects(session.ping(), { code: 'TUNNEL_LOST' })
  })
}
