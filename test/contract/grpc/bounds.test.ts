import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type IncomingHttpHeaders,
} from 'node:http2'
import { type AddressInfo, connect, createServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { maxUnreadBytesPerAgent } from '../../../src/kas/memory/unread-by-agent.ts'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { prefixBytes } from '../../../src/proto/grpc/frames.ts'
import {
  defaultLimits,
  maxUnpackedBytes,
  maxUnreadBytes,
  maxUnsentBytes,
  narrowWindowBytes,
  pressureBytes,
  unreadMessageBytes,
  wideUnsentBytes,
} from '../../../src/proto/grpc/limits.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler } from '../../../src/proto/grpc/server-stream.ts'
import { UnreadBytes } from '../../../src/proto/grpc/unread-bytes.ts'
import { eventually } from '../../support/eventually.ts'
import { grpcJs } from './grpc-js.ts'
import { ours, serveOurs } from './ours.ts'
import { framed, rawCall, rawClient } from './raw-peers.ts'
import {
  bytes,
  type Client,
  collect,
  type Server,
  type Side,
  type SideOptions,
  type TestHandler,
  text,
} from './sides.ts'

/** Compression, sizes of messages, and readers that stop. */

t.setTimeout(60_000)
const pairs: [client: Side, server: Side][] = [
  [grpcJs, ours],
  [ours, grpcJs],
  [ours, ours],
]
const maxBytes = defaultLimits.maxMessageBytes

const echo: TestHandler = async ({ messages, send }) => {
  for await (const message of messages) await send(message)
  return {}
}
const length: TestHandler = async ({ messages, send }) => {
  for await (const message of messages) await send(bytes(`${message.length}`))
  return {}
}
const fill: TestHandler = async ({ messages, send }) => {
  for await (const message of messages) await send(Buffer.alloc(Number(text(message)), 'x'))
  return {}
}

async function start(
  t: Test,
  [client, server]: [Side, Side],
  handlers: Record<string, TestHandler>,
  options: { client?: SideOptions; server?: SideOptions } = {},
): Promise<{ serving: Server; client: Client }> {
  const serving = await server.serve(handlers, options.server)
  t.teardown(() => serving.close())
  const connected = await client.connect(serving.port, options.client)
  t.teardown(() => connected.close())
  return { serving, client: connected }
}

async function roundTrip(client: Client, message = bytes('alive')): Promise<Uint8Array[]> {
  const call = await client.call('/test.Contract/Echo')
  await call.send(message)
  call.end()
  return collect(call.messages)
}

for (const pair of pairs) {
  const name = `${pair[0].name} calls ${pair[1].name}`

  // wire: grpc.gzip
  t.test(`${name}: gzip is read`, async (t) => {
    const options = { client: { gzip: true }, server: { gzip: true } }
    const { client } = await start(t, pair, { '/test.Contract/Echo': echo }, options)
    for (const size of [0, 1, 100_000]) {
      const message = Buffer.alloc(size, 'compressible ')
      t.ok((await roundTrip(client, message))[0]?.length === size, `${size} bytes`)
    }
    const zeros = Buffer.alloc(maxBytes)
    t.ok(zeros.equals((await roundTrip(client, zeros))[0] ?? new Uint8Array(0)), '4 MiB once unpacked')
  })

  // wire: grpc.max-message
  t.test(`${name}: a request of exactly 4 MiB passes, one byte more is refused on that call only`, async (t) => {
    const handlers = { '/test.Contract/Length': length, '/test.Contract/Echo': echo }
    const { client } = await start(t, pair, handlers, { client: { sendAnything: true } })
    const beside = await client.call('/test.Contract/Echo')
    const good = await client.call('/test.Contract/Length')
    await good.send(Buffer.alloc(maxBytes))
    good.end()
    t.strictSame((await collect(good.messages)).map(text), [`${maxBytes}`])
    const bad = await client.call('/test.Contract/Length')
    void bad.send(Buffer.alloc(maxBytes + 1))
    bad.end()
    t.strictSame(await collect(bad.messages), [])
    t.match(await bad.done, { code: Code.RESOURCE_EXHAUSTED, message: /received message larger than max/i })
    await beside.send(bytes('beside'))
    beside.end()
    t.strictSame((await collect(beside.messages)).map(text), ['beside'])
  })

  // wire: grpc.max-message
  t.test(`${name}: an answer of exactly 4 MiB passes, one byte more is refused on that call only`, async (t) => {
    const handlers = { '/test.Contract/Fill': fill, '/test.Contract/Echo': echo }
    const { client } = await start(t, pair, handlers, { server: { sendAnything: true } })
    const beside = await client.call('/test.Contract/Echo')
    const good = await client.call('/test.Contract/Fill')
    await good.send(bytes(`${maxBytes}`))
    good.end()
    t.strictSame(
      (await collect(good.messages)).map((one) => one.length),
      [maxBytes],
    )
    const bad = await client.call('/test.Contract/Fill')
    await bad.send(bytes(`${maxBytes + 1}`))
    bad.end()
    t.strictSame(await collect(bad.messages), [])
    t.equal((await bad.done).code, Code.RESOURCE_EXHAUSTED)
    await beside.send(bytes('beside'))
    beside.end()
    t.strictSame((await collect(beside.messages)).map(text), ['beside'])
  })
}

// wire: grpc.bomb
t.test('a packed message that is larger than 4 MiB once unpacked is refused', async (t) => {
  const pair: [Side, Side] = [grpcJs, ours]
  const { client } = await start(
    t,
    pair,
    { '/test.Contract/Length': length, '/test.Contract/Echo': echo },
    { client: { gzip: true } },
  )
  const call = await client.call('/test.Contract/Length')
  void call.send(Buffer.alloc(maxBytes + 1))
  call.end()
  t.strictSame(await collect(call.messages), [])
  t.equal((await call.done).code, Code.RESOURCE_EXHAUSTED)
  t.strictSame((await roundTrip(client)).map(text), ['alive'])
})

t.test('what is too large is refused at its sender, before it leaves', async (t) => {
  const { client } = await start(t, [ours, ours], { '/test.Contract/Fill': fill, '/test.Contract/Echo': echo })
  const call = await client.call('/test.Contract/Echo')
  t.throws(() => call.send(Buffer.alloc(maxBytes + 1)), { code: 'MESSAGE_TOO_LARGE' })
  await call.send(bytes('still good'))
  call.end()
  t.strictSame((await collect(call.messages)).map(text), ['still good'])
  const answer = await client.call('/test.Contract/Fill')
  await answer.send(bytes(`${maxBytes + 1}`))
  answer.end()
  t.strictSame(await collect(answer.messages), [])
  t.equal((await answer.done).code, Code.RESOURCE_EXHAUSTED)
})

/** bytes that a stopped reader may keep at our side; `slackBytes`: room for one more message and for both sockets */
const heldByUs = defaultLimits.streamWindowBytes + maxUnsentBytes + maxUnreadBytes
const slackBytes = 512 * 1024
const piece = Buffer.alloc(32 * 1024, 'x')

for (const pair of pairs) {
  const name = `${pair[0].name} calls ${pair[1].name}`

  // grpc-js as a client reads on without a reader, with its own server too
  if (pair[0] !== grpcJs)
    // wire: tunnel.flow
    t.test(`${name}: a client that stops reading holds a window and slows nobody`, async (t) => {
      let sent = 0
      const flood: TestHandler = async ({ send, left }) => {
        let gone = false
        void left.then(() => {
          gone = true
        })
        while (!gone) {
          const room = send(piece)
          sent += piece.length
          if (room) await Promise.race([room, left])
        }
        return {}
      }
      const { client } = await start(t, pair, { '/test.Contract/Flood': flood, '/test.Contract/Echo': echo })
      const stopped = await client.call('/test.Contract/Flood')
      stopped.end()
      await stopped.metadata
      const held = await settled(t, client, () => sent)
      t.ok(held <= heldByUs + slackBytes, `${held} bytes left the handler`)
      stopped.cancel()
      await stopped.done
    })

  t.test(`${name}: a server that stops reading holds a window and slows nobody`, async (t) => {
    const deaf: TestHandler = async ({ left, sendMetadata }) => {
      sendMetadata({})
      await left
      return {}
    }
    const { client } = await start(t, pair, { '/test.Contract/Deaf': deaf, '/test.Contract/Echo': echo })
    const call = await client.call('/test.Contract/Deaf')
    let sent = 0
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const sending = (async () => {
      let done = false
      void call.done.then(() => {
        done = true
        resolve()
      })
      while (!done) {
        const room = call.send(piece)
        sent += piece.length
        if (room) await Promise.race([room, over])
      }
    })()
    const held = await settled(t, client, () => sent)
    t.ok(held <= heldByUs + slackBytes, `${held} bytes left the sender`)
    call.cancel()
    await sending
  })
}

for (const server of [grpcJs, ours]) {
  t.test(`${ours.name} calls ${server.name}: where much waits, a stopped reader holds a narrow window`, async (t) => {
    const sent: number[] = []
    const flood: TestHandler = async ({ send, left }) => {
      const call = sent.push(0) - 1
      let gone = false
      void left.then(() => {
        gone = true
      })
      while (!gone) {
        const room = send(piece)
        sent[call] = (sent[call] ?? 0) + piece.length
        if (room) await Promise.race([room, left])
      }
      return {}
    }
    const { client } = await start(t, [ours, server], { '/test.Contract/Flood': flood, '/test.Contract/Echo': echo })
    const stopOne = async () => {
      const call = await client.call('/test.Contract/Flood')
      call.end()
      await call.metadata
      const number = sent.length - 1
      await settled(t, client, () => sent[number] ?? 0)
      return { call, held: sent[number] ?? 0 }
    }
    const stopped = []
    const room = Math.floor(pressureBytes / (defaultLimits.streamWindowBytes + 2 * maxUnreadBytes))
    for (let i = 0; i < room; i++) stopped.push(await stopOne())
    t.ok(
      stopped.every(({ held }) => held >= defaultLimits.streamWindowBytes),
      'the first have a wide window',
    )
    const most = pressureBytes / defaultLimits.streamWindowBytes + 1
    while (stopped.length < most) stopped.push(await stopOne()) // the window narrows as the buffers fill
    const narrow = await stopOne()
    t.ok(narrow.held <= narrowWindowBytes + maxUnsentBytes + maxUnreadBytes + slackBytes / 2, `${narrow.held} bytes`)
    for (const { call } of [...stopped, narrow]) {
      call.cancel()
      await call.done
    }
    await roundTrip(client)
    const { call, held } = await stopOne()
    t.ok(held >= defaultLimits.streamWindowBytes, `${held} bytes: wide again`)
    call.cancel()
    await call.done
  })
}

/** Returns the value when it stays the same for 30 round trips of another call on the same connection. */
async function settled(t: Test, client: Client, value: () => number): Promise<number> {
  let last = -1
  let still = 0
  for (let trips = 0; still < 30 && trips < 2000; trips++) {
    if ((await roundTrip(client)).length !== 1) return t.fail('the other call got no answer') as never
    still = value() === last ? still + 1 : 0
    last = value()
  }
  t.ok(still >= 30 && last > 0, 'the flood stands still')
  return last
}

t.test('a raw client that never reads is sent its window and no more', async (t) => {
  let sent = 0
  const flood: TestHandler = async ({ send, left }) => {
    let gone = false
    void left.then(() => {
      gone = true
    })
    while (!gone) {
      const room = send(piece)
      sent += piece.length
      if (room) await Promise.race([room, left])
    }
    return {}
  }
  const serving = await ours.serve({ '/test.Contract/Flood': flood, '/test.Contract/Echo': echo })
  t.teardown(() => serving.close())
  const session = await rawClient(t, serving.port)
  const stream = session.request({
    ':method': 'POST',
    ':path': '/test.Contract/Flood',
    'content-type': 'application/grpc',
  })
  stream.on('error', () => undefined)
  await once(stream, 'response')
  const client = await ours.connect(serving.port)
  t.teardown(() => client.close())
  const held = await settled(t, client, () => sent)
  t.ok(held <= defaultLimits.streamWindowBytes + maxUnsentBytes + slackBytes, `${held} bytes left the handler`)
  stream.close(8)
})

t.test('empty messages that nobody reads fill a window too', async (t) => {
  const reading = Promise.withResolvers<void>()
  const idle: TestHandler = async ({ messages }) => {
    await reading.promise
    let count = 0
    for await (const _ of messages) count++
    return { count: [String(count)] }
  }
  const server = await serveOurs({ '/test.Contract/Idle': idle }, { readAhead: true })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const stream = session.request(
    { ':method': 'POST', ':path': '/test.Contract/Idle', 'content-type': 'application/grpc' },
    { endStream: false },
  )
  stream.on('error', () => undefined)
  const total = 1_000_000 // 5 MB: more than the windows of a stream and its buffers
  stream.end(Buffer.alloc(5 * total))
  const [serving] = server.sessions
  const received = () => [...(serving?.streams ?? [])][0]?.counts.received ?? 0
  let most = -1
  for (let still = 0; still < 30; ) {
    await new Promise((resolve) => session.ping(resolve))
    still = received() === most && most > 0 ? still + 1 : 0
    most = received()
  }
  t.ok(most < total / 4, `${most} messages were taken in`)
  const answered = once(stream, 'response') // a reply without messages is trailers-only
  reading.resolve()
  t.match((await answered)[0], { 'grpc-status': '0', count: String(total) })
})

/** Opens calls with grpc-encoding gzip. Each sends these messages and does not end. */
function sendPacked(session: ClientHttp2Session, calls: number, messages: readonly Uint8Array[]) {
  const body = Buffer.concat(messages.map((message) => framed(1, message)))
  const headers = { ':path': '/test.Contract/Read', 'grpc-encoding': 'gzip', 'content-type': 'application/grpc' }
  return Array.from({ length: calls }, () => {
    const stream = session.request({ ':method': 'POST', ...headers }, { endStream: false })
    stream.on('error', () => undefined)
    stream.write(body)
    return stream
  })
}

/** Resolves when the server has read everything sent on the session before. */
async function sent(session: ClientHttp2Session): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => session.ping(resolve))
}

const megabytes = (count: number) => gzipSync(Buffer.alloc(count << 20), { level: 9 })
const bufferedBytes = () => process.memoryUsage().arrayBuffers + process.memoryUsage().external

t.test('what is packed costs what was sent, until a handler takes it', async (t) => {
  const admitted = Promise.withResolvers<void>()
  const received = new Map<number, number>()
  const read: TestHandler = async ({ messages }) => {
    await admitted.promise
    for await (const { length } of messages) received.set(length, (received.get(length) ?? 0) + 1)
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Read': read })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const calls = 50
  const bombs = [megabytes(4), megabytes(4)] // twenty times the bound over all calls; more only takes longer
  const before = bufferedBytes()
  const streams = sendPacked(session, calls, bombs)
  await sent(session)
  const [serving] = server.sessions
  t.equal(serving?.streams.size, calls)
  t.ok(bufferedBytes() - before < 16 << 20, 'of 400 MiB nothing is there')
  for (const { counts } of serving?.streams ?? []) t.equal(counts.received, 0)
  admitted.resolve()
  for (const stream of streams) stream.end()
  await Promise.all(streams.map((stream) => once(stream, 'response')))
  t.same([...received], [[4 << 20, calls * bombs.length]])
})

t.test(
  'large packed messages whose readers wait are bounded over their connection, and hold up no other',
  async (t) => {
    const done = Promise.withResolvers<void>()
    let taken = 0
    const hold: TestHandler = async ({ messages }) => {
      const { value } = await messages[Symbol.asyncIterator]().next()
      taken += value?.length ?? 0
      await done.promise
      return {}
    }
    const server = await serveOurs({ '/test.Contract/Read': hold, '/test.Contract/Echo': echo })
    t.teardown(() => server.close())
    const evil = await rawClient(t, server.port)
    const streams = sendPacked(evil, 40, [megabytes(4)])
    const client = await grpcJs.connect(server.port, { gzip: true })
    t.teardown(() => client.close())
    const large = Buffer.alloc(1 << 20, 'large ')
    for (let i = 0; i < 20; i++) t.ok(large.equals((await roundTrip(client, large))[0] ?? new Uint8Array(0)))
    t.ok(taken > 0 && taken <= maxUnpackedBytes, `${taken} bytes`)
    for (const stream of streams.slice(0, 20)) stream.close(8)
    await Promise.all(streams.slice(0, 20).map((stream) => once(stream, 'close')))
    done.resolve()
    for (const stream of streams.slice(20)) stream.end()
    await Promise.all(streams.slice(20).map((stream) => once(stream, 'response')))
    t.ok(taken >= 20 * (4 << 20), 'each that stayed had its turn')
  },
)

t.test('a packed message that says it is small, and is not, is as large as it is', async (t) => {
  const lengths: number[] = []
  const read: TestHandler = async ({ messages }) => {
    for await (const { length } of messages) lengths.push(length)
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Read': read })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const twoMembers = Buffer.concat([megabytes(1), gzipSync(Buffer.alloc(10))])
  const [stream] = sendPacked(session, 1, [twoMembers, gzipSync(''), gzipSync('x'), twoMembers])
  stream?.end()
  await once(stream as ClientHttp2Stream, 'response')
  t.same(lengths, [(1 << 20) + 10, 0, 1, (1 << 20) + 10])
})

t.test('packed messages come in their order, with those that are not', async (t) => {
  const seen: string[] = []
  const read: TestHandler = async ({ messages }) => {
    for await (const message of messages) seen.push(`${text(message.subarray(0, 1))}${message.length}`)
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Read': read })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  const sizes = [200_000, 1, 100_000, 3, 65_536, 65_537, 1000, 300_000]
  const headers = { ':path': '/test.Contract/Read', 'grpc-encoding': 'gzip' }
  const frames = letters.map((letter, i) => {
    const message = Buffer.alloc(sizes[i] as number, letter)
    return i % 3 === 1 ? framed(0, message) : framed(1, gzipSync(message))
  })
  const answer = await rawCall(session, headers, Buffer.concat(frames))
  t.equal(answer.headers['grpc-status'], '0')
  t.same(
    seen,
    letters.map((letter, i) => `${letter}${sizes[i]}`),
  )
})

t.test('packed data that cannot be read ends its call, behind what came before it', async (t) => {
  const seen: number[] = []
  const read: TestHandler = async ({ messages }) => {
    for await (const { length } of messages) seen.push(length)
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Read': read })
  t.teardown(() => server.close())
  const session = await rawClient(t, server.port)
  const headers = { ':path': '/test.Contract/Read', 'grpc-encoding': 'gzip' }
  const large = gzipSync(Buffer.alloc(100_000, 'x'))
  for (const [name, bad] of Object.entries({
    'no gzip': bytes('no gzip at all, but long enough'),
    nothing: new Uint8Array(0),
    cut: large.subarray(0, large.length - 9),
  })) {
    seen.length = 0
    const { headers: answer } = await rawCall(session, headers, Buffer.concat([framed(1, large), framed(1, bad)]))
    t.equal(answer['grpc-status'], String(Code.INVALID_ARGUMENT), name)
    t.same(seen, [100_000], name)
  }
  t.equal((await rawCall(session, headers, framed(1, large))).headers['grpc-status'], '0', 'the connection lives')
})

/** Serves streams that are all charged to one agent. */
async function serveCharged(t: Test, unread: UnreadBytes, readAhead: boolean) {
  const reading = Promise.withResolvers<void>()
  const sessions = new Set<ServerSession>()
  const handler: Handler = async (stream) => {
    stream.session.chargeTo(unread)
    stream.chargeTo(unread)
    if (readAhead) stream.messages.begin()
    const first = stream.messages.next() // resolves only with a whole message
    await Promise.race([reading.promise, first])
    let bytes = (await first).value?.length ?? 0
    await reading.promise
    for await (const message of stream.messages) bytes += message.length
    return { bytes: [String(bytes)] }
  }
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    sessions.add(serveSession(socket, () => handler))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, reading }
}

t.test('what waits of one agent is bounded over its streams, whole messages or not', async (t) => {
  const unread = new UnreadBytes(1 << 20)
  const { port, reading } = await serveCharged(t, unread, true)
  const session = await rawClient(t, port)
  const half = framed(0, Buffer.alloc(100_000), 4 << 20) // the beginning of 4 MiB
  const whole = Buffer.concat([framed(0, bytes('first')), framed(0, Buffer.alloc(99_000))])
  const streams = Array.from({ length: 20 }, (_, i) => {
    const stream = session.request(
      { ':method': 'POST', ':path': '/a.B/C', 'content-type': 'application/grpc' },
      { endStream: false },
    )
    stream.on('error', () => undefined)
    stream.write(i % 2 ? half : whole)
    return stream
  })
  const refusals = streams
    .slice(10)
    .map(async (stream) => ((await once(stream, 'response')) as [IncomingHttpHeaders])[0])
  const refused = await Promise.race(refusals)
  t.match(refused, {
    'grpc-status': String(Code.RESOURCE_EXHAUSTED),
    'grpc-message': /More than 1048576 bytes from this/,
  })
  await sent(session)
  t.ok(unread.bytes > 900_000 && unread.bytes <= 1 << 20, `${unread.bytes} bytes are unread`)
  for (const [i, stream] of streams.entries()) if (i % 2) stream.close(8)
  await Promise.all(streams.filter((_, i) => i % 2).map((stream) => stream.closed || once(stream, 'close')))
  reading.resolve()
  const living = streams.filter((stream, i) => i % 2 === 0 && !stream.closed)
  const ends = living.map(async (stream) => {
    stream.end()
    return ((await once(stream, 'response')) as [IncomingHttpHeaders])[0].bytes
  })
  t.ok(living.length > 0)
  t.same(new Set(await Promise.all(ends)), new Set(['99005']), 'those that had room go on')
  await sent(session)
  t.equal(unread.bytes, 0, 'all is given back')
})

t.test('readers of one agent that stopped on many connections leave one another room', async (t) => {
  const unread = new UnreadBytes(maxUnreadBytesPerAgent)
  const { port, reading } = await serveCharged(t, unread, true)
  const sessions = await Promise.all(Array.from({ length: 3 }, () => rawClient(t, port)))
  const large = Buffer.concat(Array.from({ length: 40 }, () => framed(0, Buffer.alloc(32 * 1024))))
  const answers = []
  for (let i = 0; i < 60; i++) {
    const session = sessions[i % sessions.length] as ClientHttp2Session
    answers.push(rawCall(session, { ':path': '/a.B/C' }, large))
    for (const each of sessions) await sent(each)
  }
  t.ok(unread.bytes > wideUnsentBytes, `${unread.bytes} bytes are unread`)
  reading.resolve()
  const bytes = (await Promise.all(answers)).map(({ headers }) => headers.bytes)
  t.same(new Set(bytes), new Set([String(40 * 32 * 1024)]), 'none has been cut')
})

t.test('an answer that nobody has read yet is counted also when its call is over', async (t) => {
  const unread = new UnreadBytes(1 << 20)
  const charged: Handler = async (stream) => {
    stream.chargeTo(ofServer)
    stream.messages.begin()
    await quiet(session)
    stream.send(Buffer.alloc(30_000))
  }
  const ofServer = new UnreadBytes(1 << 20)
  const server = createServer((socket) => {
    serveSession(socket, () => charged)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: 'kas.test', scheme: 'http' })
  t.teardown(() => session.destroy())
  const answered = async () => {
    const stream = session.open({ method: '/a.B/C', unread })
    stream.send(Buffer.alloc(20_000))
    stream.end()
    t.notOk((await stream.done).error)
    await quiet(session)
    t.equal(session.streams.size, 0)
    t.equal(unread.bytes, 30_000 + prefixBytes + unreadMessageBytes)
    return stream
  }
  const { messages } = await answered()
  t.equal((await collect(messages))[0]?.length, 30_000)
  t.equal(unread.bytes, 0, 'read')
  const unwanted = await answered()
  unwanted.cancel()
  t.equal(unread.bytes, 0, 'not wanted')
  for await (const _ of (await answered()).messages) break
  t.equal(unread.bytes, 0, 'left')
  t.equal(ofServer.bytes, 0, 'what a handler has not read, nobody will')
})

t.test('many senders that wait for one agent keep less each', async (t) => {
  const unread = new UnreadBytes(1 << 30)
  const deaf: TestHandler = ({ left }) => left.then(() => ({}))
  const server = await serveOurs({ '/test.Contract/Deaf': deaf })
  t.teardown(() => server.close())
  const socket = connect({ port: server.port, host: '127.0.0.1' })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: 'kas.test', scheme: 'http' })
  t.teardown(() => session.destroy())
  const unsent = async () => {
    const stream = session.open({ method: '/test.Contract/Deaf', unread })
    let written = 0
    for (;;) {
      written += 8192
      const full = stream.send(Buffer.alloc(8187))
      if (!full) continue
      if (!(await comes(full, session))) return { stream, written }
    }
  }
  const all = []
  while (unread.unsent <= wideUnsentBytes) all.push(await unsent())
  const late = await unsent()
  const [first] = all as [(typeof all)[0]]
  t.ok(first.written - late.written > maxUnsentBytes / 2, `${first.written} bytes of the first, ${late.written} later`)
  for (const { stream } of [...all, late]) stream.cancel()
  await Promise.all([...all, late].map(({ stream }) => stream.done))
  await quiet(session)
  t.equal(unread.unsent, 0)
})

/** Opens streams of one client, charged to `unread`, to a server that reads everything and answers nothing. */
async function senders(t: Test, unread: UnreadBytes) {
  const read: TestHandler = async ({ messages }) => {
    for await (const _ of messages);
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Read': read })
  t.teardown(() => server.close())
  const socket = connect({ port: server.port, host: '127.0.0.1' })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: 'kas.test', scheme: 'http' })
  t.teardown(() => session.destroy())
  return { session, open: () => session.open({ method: '/test.Contract/Read', unread }) }
}

t.test('a sender that waits for less goes on once it has left, whatever its size', async (t) => {
  const unread = new UnreadBytes(1 << 30)
  const { session, open } = await senders(t, unread)
  const others = wideUnsentBytes + 1
  unread.unsent = others
  const stream = open()
  let waits = 0
  for (const kilobytes of [17, 20, 30, 48, 60, 63, 64, 65, 100, 20]) {
    const full = stream.send(Buffer.alloc(kilobytes * 1024))
    if (!full) continue
    waits++
    t.ok(await comes(full, session), `room behind ${kilobytes} KiB that have left`)
  }
  t.equal(waits, 10)
  await quiet(session)
  t.equal(unread.unsent, others)
  stream.end()
  t.notOk((await stream.done).error)
})

t.test('what has left is not counted as unsent, also where nothing follows', async (t) => {
  const unread = new UnreadBytes(1 << 30)
  const { session, open } = await senders(t, unread)
  const streams = Array.from({ length: 110 }, open)
  for (const stream of streams) stream.send(Buffer.alloc(20_000))
  t.ok(unread.unsent > wideUnsentBytes, `${unread.unsent} bytes are on their way`)
  await quiet(session)
  t.equal(unread.unsent, 0)
  for (const stream of streams) stream.end()
  await Promise.all(streams.map(({ done }) => done))
  await quiet(session)
  t.equal(unread.unsent, 0)
})

/** True if there is room by the time the connection is idle. */
async function comes(room: Promise<void>, session: ClientSession): Promise<boolean> {
  let came = false
  void room.then(() => {
    came = true
  })
  await quiet(session)
  return came
}

/** Resolves when nothing moves on the connection. */
async function quiet(session: ClientSession): Promise<void> {
  for (let i = 0; i < 10; i++) await session.ping()
}

for (const end of ['ok', 'error', 'half an answer']) {
  t.test(`what a sender still sends once its call is over (${end}) is given back`, async (t) => {
    const unread = new UnreadBytes(maxUnreadBytesPerAgent)
    const closed = Promise.withResolvers<void>()
    const handler: Handler = async (stream) => {
      stream.chargeTo(unread)
      stream.onClosed(closed.resolve)
      await stream.messages.next()
      await eventually(() => unread.bytes > 500_000) // more than the read-ahead: node buffers the rest
      if (end === 'half an answer') await stream.send(Buffer.from('x'))
      if (end === 'error') throw new KasError({ code: 'NOT_SERVED', what: 'it' })
    }
    const server = createServer((socket) => void serveSession(socket, () => handler)).listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    t.teardown(() => client.destroy())
    client.on('error', () => undefined)
    const stream = client.request({ ':method': 'POST', ':path': '/a.B/C', 'content-type': 'application/grpc' })
    stream.on('error', () => undefined)
    stream.resume()
    for (let i = 0; i < 200; i++) stream.write(framed(0, Buffer.alloc(5000)))
    await closed.promise
    t.equal(unread.bytes, 0)
  })
}
