import { once } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, connect, createServer } from 'node:net'
import { type Duplex, PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { Code } from '../../../src/lib/errors.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { serveSession } from '../../../src/proto/grpc/server-session.ts'
import { ours, serveOurs } from './ours.ts'
import { framed, rawCall, rawClient, rawServer } from './raw-peers.ts'
import { bytes, collect, type TestHandler, text } from './sides.ts'

/** Peers that break the protocol: each fault ends its own call and no other one. */

t.setTimeout(30_000)

const path = '/test.Contract/Echo'
const echo: TestHandler = async ({ messages, send }) => {
  for await (const message of messages) await send(message)
  return {}
}

// wire: grpc.identity, http2.get
t.test('a server refuses what is no gRPC, on that call only', async (t) => {
  const server = await serveOurs({ [path]: echo })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const call = (headers: Record<string, string>, body: Uint8Array = framed(0, bytes('x'))) =>
    rawCall(session, { ':path': path, ...headers }, body)
  const status = async (...args: Parameters<typeof call>) => (await call(...args)).headers['grpc-status']

  t.match((await call({ ':method': 'GET' })).headers, { ':status': 415 }, 'another method')
  t.match((await call({ 'content-type': 'application/json' })).headers, { ':status': 415 }, 'another content type')
  t.match((await call({ 'content-type': 'application/grpcx' })).headers, { ':status': 415 }, 'nearly the content type')
  t.equal(await status({ 'content-type': 'application/grpc+json' }), '0', 'any message format passes as bytes')
  t.equal(await status({ 'grpc-encoding': 'snappy' }), `${Code.UNIMPLEMENTED}`, 'an unknown encoding')
  t.equal(await status({}, framed(1, gzipSync('x'))), `${Code.INVALID_ARGUMENT}`, 'compressed without an encoding')
  t.equal(await status({ 'grpc-encoding': 'identity' }, framed(1, gzipSync('x'))), `${Code.INVALID_ARGUMENT}`)
  t.equal(await status({ 'grpc-encoding': 'gzip' }, framed(1, bytes('no gzip'))), `${Code.INVALID_ARGUMENT}`)
  t.equal(
    await status({ 'grpc-encoding': 'gzip' }, framed(0, bytes('plain'))),
    '0',
    'an uncompressed message beside an encoding',
  )
  t.equal(await status({}, framed(2, bytes('x'))), `${Code.INVALID_ARGUMENT}`, 'an unknown flag')
  t.equal(await status({}, framed(0, bytes('x'), 100)), `${Code.INVALID_ARGUMENT}`, 'ended inside a message')
  t.equal(await status({}, Buffer.from([0, 0, 0])), `${Code.INVALID_ARGUMENT}`, 'ended inside a prefix')
  t.equal(
    await status({}, framed(0, bytes('x'), 0xffff_ffff)),
    `${Code.RESOURCE_EXHAUSTED}`,
    'a length of 4 GiB is refused at once',
  )
  t.equal(await status({}, new Uint8Array(0)), '0', 'no message at all is the method’s affair')

  const { body, headers } = await call({}, Buffer.concat([framed(0, bytes('one')), framed(0, bytes('two'))]))
  t.equal(headers['grpc-status'], '0', 'the connection lived through all of it')
  t.strictSame(body, Buffer.concat([framed(0, bytes('one')), framed(0, bytes('two'))]))
})

t.test('messages are cut right whatever the DATA frames', async (t) => {
  const server = await serveOurs({ [path]: echo })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const sent = Buffer.concat(['', 'a', 'bc', 'x'.repeat(70_000), 'end'].map((one) => framed(0, bytes(one))))
  for (const size of [1, 2, 3, 5, 7, 4096]) {
    const stream = session.request(
      { ':method': 'POST', ':path': path, 'content-type': 'application/grpc' },
      { endStream: false },
    )
    const answer = stream.toArray()
    const part = size < 8 ? sent.subarray(0, 60) : sent
    const complete =
      size < 8 ? Buffer.concat(['', 'a', 'bc', 'x'.repeat(30)].map((one) => framed(0, bytes(one)))) : sent
    for (let at = 0; at < complete.length; at += size)
      if (!stream.write(complete.subarray(at, at + size))) await once(stream, 'drain')
    stream.end()
    t.ok(Buffer.concat(await answer).equals(complete), `${size} bytes at a time (${part.length})`)
  }
})

t.test('a server keeps the deadline that a client told and does not keep itself', async (t) => {
  const left = Promise.withResolvers<void>()
  const hang: TestHandler = async (call) => {
    await call.left
    left.resolve()
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Hang': hang })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const { headers } = await rawCall(
    session,
    { ':path': '/test.Contract/Hang', 'grpc-timeout': '50m' },
    framed(0, bytes('x')),
    { open: true },
  )
  t.equal(headers['grpc-status'], `${Code.DEADLINE_EXCEEDED}`)
  await left.promise
})

t.test('a caller that resets its stream is told to the handler', async (t) => {
  const left = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const hang: TestHandler = async (call) => {
    begun.resolve()
    await call.left
    left.resolve()
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Hang': hang, [path]: echo })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const stream = session.request(
    { ':method': 'POST', ':path': '/test.Contract/Hang', 'content-type': 'application/grpc' },
    { endStream: false },
  )
  stream.on('error', () => undefined)
  await begun.promise
  stream.close(8)
  await left.promise
  t.equal((await rawCall(session, { ':path': path }, framed(0, bytes('x')))).headers['grpc-status'], '0')
})

t.test('a client turns each broken answer into a status', async (t) => {
  const grpcHead = { ':status': 200, 'content-type': 'application/grpc' }
  const trailers = (stream: ServerHttp2Stream, status = '0') => {
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status }))
  }
  const withBody =
    (body: Uint8Array, head = {}) =>
    (stream: ServerHttp2Stream) => {
      trailers(stream)
      stream.respond({ ...grpcHead, ...head }, { waitForTrailers: true })
      stream.end(body)
    }
  const only = (headers: object) => (stream: ServerHttp2Stream) => stream.respond(headers as never, { endStream: true })
  const cases: [name: string, code: number, answer: (stream: ServerHttp2Stream) => void][] = [
    ['HTTP 401', Code.UNAUTHENTICATED, only({ ':status': 401 })],
    ['HTTP 404', Code.UNIMPLEMENTED, only({ ':status': 404 })],
    ['HTTP 503', Code.UNAVAILABLE, only({ ':status': 503 })],
    ['HTTP 500', Code.UNKNOWN, only({ ':status': 500 })],
    ['a page', Code.UNKNOWN, only({ ':status': 200, 'content-type': 'text/html' })],
    ['a status that is no number', Code.UNKNOWN, only({ ...grpcHead, 'grpc-status': 'x' })],
    ['malformed percent signs', Code.NOT_FOUND, only({ ...grpcHead, 'grpc-status': '5', 'grpc-message': '100%zz' })],
    ['an unknown flag', Code.INVALID_ARGUMENT, withBody(framed(7, bytes('x')))],
    ['compressed without an encoding', Code.INVALID_ARGUMENT, withBody(framed(1, gzipSync('x')))],
    ['no gzip', Code.INVALID_ARGUMENT, withBody(framed(1, bytes('x')), { 'grpc-encoding': 'gzip' })],
    ['an end inside a message', Code.INVALID_ARGUMENT, withBody(framed(0, bytes('x'), 9))],
    ['a length of 4 GiB', Code.RESOURCE_EXHAUSTED, withBody(framed(0, bytes('x'), 0xffff_ffff))],
    ['reset with CANCEL', Code.CANCELLED, (stream) => stream.close(8)],
    ['reset with REFUSED_STREAM', Code.UNAVAILABLE, (stream) => stream.close(7)],
    ['reset with INTERNAL_ERROR', Code.INTERNAL, (stream) => stream.close(2)],
    ['reset with ENHANCE_YOUR_CALM', Code.RESOURCE_EXHAUSTED, (stream) => stream.close(11)],
    [
      'no status at all',
      Code.INTERNAL,
      (stream) => {
        stream.respond(grpcHead)
        stream.end(framed(0, bytes('x')))
      },
    ],
    ['a lost connection', Code.UNAVAILABLE, (stream) => stream.session?.destroy()],
  ]
  for (const [name, code, answer] of cases) {
    await t.test(name, async (t: Test) => {
      const port = await rawServer(t, answer)
      const client = await ours.connect(port)
      t.teardown(() => client.close())
      const call = await client.call(path)
      void call.send(bytes('x'))
      call.end()
      await collect(call.messages)
      t.equal((await call.done).code, code)
    })
  }
})

t.test('percent-encoded messages are read as gRPC writes them', async (t) => {
  const port = await rawServer(t, (stream) =>
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5', 'grpc-message': 'na%C3%AFve%20100%25' },
      { endStream: true },
    ),
  )
  const client = await ours.connect(port)
  t.teardown(() => client.close())
  const call = await client.call(path)
  call.end()
  t.match(await call.done, { code: Code.NOT_FOUND, message: 'naïve 100%' })
  t.equal(text(bytes('naïve')), 'naïve')
})

t.test('keys that every object has are keys like others', async (t) => {
  const keys = { constructor: 'a', __proto: 'b', 'to-string': 'c', hasownproperty: 'd' }
  const server = await serveOurs({
    [path]: async ({ metadata, sendMetadata }) => {
      sendMetadata(metadata)
      return { constructor: metadata.constructor as unknown as string[] }
    },
  })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const { headers } = await rawCall(session, { ':path': path, ...keys }, new Uint8Array(0))
  t.match(headers, { ...keys, 'grpc-status': '0' })

  const port = await rawServer(t, (stream) => {
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', constructor: 'y' }))
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', constructor: 'x' }, { waitForTrailers: true })
    stream.end()
  })
  const client = await ours.connect(port)
  t.teardown(() => client.close())
  const call = await client.call(path)
  call.end()
  await collect(call.messages)
  t.equal((await call.done).code, Code.OK)
})

t.test('a connection that has ended before it is used is a lost one', async (t) => {
  const server = createServer((socket) => void socket.destroy())
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const kinds = [() => connect({ port, host: '127.0.0.1' }).resume(), () => new PassThrough().destroy()]
  const ended = async (open: () => Duplex) => {
    const duplex = open()
    await once(duplex, 'close')
    return duplex
  }
  for (const kind of kinds) {
    const session = ClientSession.over(await ended(kind), { authority: 'kas.test:8150', scheme: 'http' })
    await session.closed
    t.equal(session.draining, true)
    t.throws(() => session.open({ method: path }), { code: 'TUNNEL_LOST', spec: { delivery: 'none' } })
    await serveSession(await ended(kind), () => undefined).closed
  }
})
