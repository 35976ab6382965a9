import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { defaultLanes, Lanes, type LanesOptions } from '../../../src/kas/peers/lanes.ts'
import { KasError } from '../../../src/lib/errors.ts'
import type { ClientCall } from '../../../src/proto/grpc/client-lane-call.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import {
  encodeCall,
  encodeHeaders,
  endFrame,
  frameKind,
  laneMethod,
  messageHead,
} from '../../../src/proto/grpc/lane-frames.ts'
import { replicaLimits } from '../../../src/proto/grpc/limits.ts'
import { type CallHandler, ServerLanes } from '../../../src/proto/grpc/server-lane.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler, ServerStream } from '../../../src/proto/grpc/server-stream.ts'
import { UnreadBytes } from '../../../src/proto/grpc/unread-bytes.ts'
import { joinSockets } from '../../support/joined-sockets.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const method = '/test.Lanes/Call'
const largest = replicaLimits.maxMessageBytes

interface SideOptions {
  readonly options?: Partial<LanesOptions>
  /** handler in place of our own */
  readonly lane?: Handler
}

/** Starts two sides that make calls over one connection, as two replicas do. */
async function sides(t: Test, handler: CallHandler, { options = {}, lane }: SideOptions = {}) {
  const lanes = new ServerLanes()
  const streams: ServerStream[] = []
  const sessions: ServerSession[] = []
  const serveLane: Handler = (stream) => lanes.serve(stream, handler)
  const handlerFor = (path: string) => (path === laneMethod ? (lane ?? serveLane) : undefined)
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => undefined)
    const events = { started: (stream: ServerStream) => void streams.push(stream) }
    sessions.push(serveSession(socket, handlerFor, { limits: replicaLimits, events }))
  })
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port, sockets } = await relay(t, (server.address() as AddressInfo).port)
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, {
    authority: 'peer',
    scheme: 'http',
    bodyTrailers: true,
    limits: replicaLimits,
  })
  t.teardown(() => session.destroy())
  const clock = new ManualClock()
  const pool = new Lanes({ session, clock }, { ...defaultLanes, ...options })
  const paths = () => streams.map((stream) => stream.method)
  /** Resets the stream in the name of the other side, on both sides. */
  const reset = (id: number) => {
    for (const to of sockets) to.write(resetFrame(id))
  }
  return { pool, session, lanes, clock, streams, paths, sessions, reset }
}

/** Starts a relay between the two sides; a test may insert frames. */
async function relay(t: Test, to: number) {
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (near) => {
    joinSockets(near, connect({ port: to, host: '127.0.0.1', noDelay: true }), sockets)
  })
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, sockets }
}

const resetType = 3
const internalError = 2

/** Returns an RST_STREAM frame of HTTP/2. */
function resetFrame(id: number): Buffer {
  const frame = Buffer.alloc(13)
  frame[2] = 4
  frame[3] = resetType
  frame.writeUInt32BE(id, 5)
  frame.writeUInt32BE(internalError, 9)
  return frame
}

type Sides = Awaited<ReturnType<typeof sides>>

async function read(call: ClientCall) {
  const messages: string[] = []
  for await (const message of call.messages) messages.push(Buffer.from(message).toString())
  const { error, trailers } = await call.done
  return { metadata: await call.metadata, messages, error, trailers }
}

/** Makes one call from beginning to end. */
function ask({ pool }: Pick<Sides, 'pool'>, messages: readonly string[], unread?: UnreadBytes) {
  const call = pool.open({ method, metadata: { 'x-one': ['1', '2'], 'a-bin': ['AAE='] }, unread })
  for (const message of messages) void call.send(Buffer.from(message))
  call.end()
  return read(call)
}

/** Returns the same side with one idle lane. */
async function warm(side: Sides): Promise<Sides> {
  const call = side.pool.open({ method })
  call.end()
  await read(call)
  return side
}

const frameOf = ({ value }: IteratorResult<Uint8Array>) => (value as Uint8Array | undefined)?.[0]

const echo: CallHandler = async (call) => {
  call.sendMetadata({ served: ['yes'] })
  for await (const message of call.messages) await call.send(message)
  return { ended: ['yes'] }
}

t.test('one call after another goes over one lane, with all that belongs to it', async (t) => {
  const seen: unknown[] = []
  const side = await sides(t, async (call) => {
    seen.push([call.method, { ...call.metadata }])
    return await echo(call)
  })
  await warm(side)
  const before = side.streams.length
  seen.length = 0
  for (let i = 0; i < 50; i++) {
    const { metadata, messages, error, trailers } = await ask(side, [`a${i}`, '', `b${i}`])
    t.strictSame({ ...metadata }, { served: ['yes'] })
    t.strictSame({ ...trailers }, { ended: ['yes'] })
    t.same([messages, error], [[`a${i}`, '', `b${i}`], undefined])
  }
  t.equal(side.streams.length, before, 'no stream was opened')
  t.same(seen[49], [method, { 'x-one': ['1', '2'], 'a-bin': ['AAE='] }])
})

t.test('many at once have a lane each, of which some are kept, and those that nobody needs end', async (t) => {
  const side = await warm(await sides(t, echo, { options: { maxIdle: 5, idleMs: 1000 } }))
  const before = side.streams.length
  const all = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(side, [`${i}`])))
  t.same(
    all.map(({ messages }) => messages[0]),
    all.map((_, i) => `${i}`),
  )
  t.equal(side.streams.length, before + 19)
  t.ok(
    side
      .paths()
      .slice(before)
      .every((path) => path === laneMethod),
  )
  const open = () => side.session.streams.size
  while (open() > 5) await new Promise(setImmediate)
  side.clock.advance(1000)
  await ask(side, ['one'])
  t.equal(open(), 5, 'they were just used')
  side.clock.advance(1000)
  while (open() > 1) await new Promise(setImmediate)
  side.clock.advance(1000)
  while (open() > 0) await new Promise(setImmediate)
  t.equal(side.clock.pending, 0)
  t.same((await ask(side, ['again'])).messages, ['again'])
  t.equal(open(), 1)
})

t.test('a side that does not know us yet refuses a lane, and the call on it was not delivered', async (t) => {
  let isKnown = false
  const refuse: Handler = async (stream) => {
    stream.addTrailers({ why: ['no row'] })
    throw new KasError({ code: 'UNAUTHENTICATED' })
  }
  const lanes = new ServerLanes()
  const lane: Handler = (stream) => (isKnown ? lanes.serve(stream, echo) : refuse(stream))
  const side = await sides(t, echo, { lane })
  const { messages, error, trailers } = await ask(side, ['x'])
  t.same([messages, error?.spec, trailers.why], [[], { code: 'TUNNEL_LOST', delivery: 'none' }, ['no row']])
  isKnown = true
  for (let i = 0; i < 2; i++) t.same((await ask(side, ['x'])).messages, ['x'])
  t.same(side.paths(), [laneMethod, laneMethod])
})

t.test('a call that is cancelled, or whose reader leaves, costs its own lane alone', async (t) => {
  const left: string[] = []
  const side = await sides(t, async (call) => {
    call.signal.addEventListener('abort', () => left.push(call.metadata.name?.[0] ?? ''), { once: true })
    return await echo(call)
  })
  await warm(side)
  const open = (name: string) => side.pool.open({ method, metadata: { name: [name] } })
  const long = open('long')
  const replies = long.messages[Symbol.asyncIterator]()
  void long.send(Buffer.from('a'))
  t.match(await replies.next(), { value: Buffer.from('a') })
  const cancelled = open('cancelled')
  await cancelled.metadata
  cancelled.cancel(new KasError({ code: 'DEADLINE_EXCEEDED' }))
  t.match((await read(cancelled)).error, { code: 'DEADLINE_EXCEEDED' })
  const unread = open('unread')
  void unread.send(Buffer.from('x'))
  const reader = unread.messages[Symbol.asyncIterator]()
  t.match(await reader.next(), { done: false })
  await reader.return?.()
  t.match((await unread.done).error, { code: 'CANCELLED' })
  while (left.length < 2) await new Promise(setImmediate)
  t.same(left.sort(), ['cancelled', 'unread'])
  void long.send(Buffer.from('b'))
  t.match(await replies.next(), { value: Buffer.from('b') })
  long.end()
  t.match(await replies.next(), { done: true })
  t.match(await long.done, { error: undefined, trailers: { ended: ['yes'] } })
  t.same((await ask(side, ['next'])).messages, ['next'])
})

t.test('an error that comes before the caller has said all: the lane goes on', async (t) => {
  const side = await sides(t, async (call) => {
    if (call.metadata.refused) throw new KasError({ code: 'STATUS', grpc: 7, message: 'not you: 100 %' })
    return await echo(call)
  })
  await warm(side)
  const before = side.streams.length
  for (let i = 0; i < 5; i++) {
    const call = side.pool.open({ method, metadata: { refused: ['yes'] } })
    void call.send(Buffer.from('x'))
    const { error, metadata, messages } = await read(call)
    t.match(error, { code: 'STATUS', grpcCode: 7, message: 'not you: 100 %' })
    t.same([metadata, messages], [undefined, []])
    t.equal(call.send(Buffer.from('more')), undefined)
    call.end()
    t.same((await ask(side, ['next'])).messages, ['next'], 'nothing of the one before is taken for its own')
  }
  t.equal(side.streams.length, before)
})

t.test('with much unsent it does not: nobody wants that', async (t) => {
  const answer = Promise.withResolvers<void>()
  const side = await sides(t, async (call) => {
    if (!call.metadata.refused) return await echo(call)
    call.sendMetadata({})
    await answer.promise
    throw new KasError({ code: 'FORBIDDEN' })
  })
  await warm(side)
  const call = side.pool.open({ method, metadata: { refused: ['yes'] } })
  await call.metadata
  const closed = new Promise<void>((resolve) => call.onClosed(resolve))
  while (!call.send(Buffer.alloc(100_000))) await new Promise(setImmediate) // until the window is full
  answer.resolve()
  t.match((await read(call)).error, { grpcCode: 7 })
  await closed
  t.same((await ask(side, ['next'])).messages, ['next'])
})

t.test('messages of the largest size pass both ways; a larger one fails its call alone', async (t) => {
  const side = await warm(await sides(t, echo))
  const call = side.pool.open({ method })
  void call.send(Buffer.alloc(largest, 'x'))
  call.end()
  const [message] = (await read(call)).messages
  t.equal(message?.length, largest)
  const refused = side.pool.open({ method })
  t.throws(() => refused.send(Buffer.alloc(largest + 1)), { message: /4194305 vs. 4194304/ })
  refused.end()
  t.same((await read(refused)).error, undefined)

  const large = await warm(
    await sides(t, async (asked) => {
      asked.sendMetadata({})
      if (asked.metadata.large) await asked.send(Buffer.alloc(largest + 1))
    }),
  )
  const before = large.streams.length
  const failed = await read(large.pool.open({ method, metadata: { large: ['yes'] } }))
  t.match(failed.error, { grpcCode: 8, message: /4194305 vs. 4194304/ })
  t.match((await ask(large, [])).error, undefined)
  t.equal(large.streams.length, before)
})

t.test('a reader that stops holds its sender back, on its own lane alone', async (t) => {
  let sent = 0
  const side = await sides(t, async (call) => {
    if (!call.metadata.endless) return await echo(call)
    call.sendMetadata({})
    for (const piece = Buffer.alloc(32 * 1024); !call.signal.aborted; sent++) {
      await (call.send(piece) ?? new Promise(setImmediate)) // the call may end in a later turn
    }
  })
  await warm(side)
  const stopped = side.pool.open({ method, metadata: { endless: ['yes'] } })
  await stopped.metadata
  let before = -1
  while (before !== sent) {
    before = sent
    for (let i = 0; i < 50; i++) t.same((await ask(side, ['x'])).messages, ['x'])
  }
  t.ok(sent * 32 * 1024 < 2 * replicaLimits.streamWindowBytes, `${sent} pieces`)
  const reader = stopped.messages[Symbol.asyncIterator]()
  for (let i = 0; i < before; i++) await reader.next()
  t.ok(sent > before)
  stopped.cancel()
})

t.test('what waits is counted while a call runs, and nothing of it once it is over', async (t) => {
  const holder = new UnreadBytes(1 << 24)
  const entry = new UnreadBytes(1 << 24)
  const closed: string[] = []
  const side = await sides(t, async (call) => {
    call.chargeTo(holder)
    call.onClosed(() => closed.push('holder'))
    call.sendMetadata({})
    await call.send(Buffer.alloc(150_000))
    for await (const message of call.messages) await call.send(message)
  })
  await warm(side)
  closed.length = 0
  for (const how of ['in order', 'cancelled', 'in order']) {
    const call = side.pool.open({ method, unread: entry })
    call.onClosed(() => closed.push('entry'))
    void call.send(Buffer.alloc(150_000))
    while (entry.bytes < 50_000) await new Promise(setImmediate)
    if (how === 'cancelled') call.cancel()
    call.end()
    await read(call)
    while (closed.length < 2) await new Promise(setImmediate)
    t.same(closed.splice(0).sort(), ['entry', 'holder'])
    t.same([entry.bytes, entry.unsent, holder.bytes, holder.unsent], [0, 0, 0, 0], how)
  }
})

t.test('a reader that has stopped is told that there is no room for what it leaves unread', async (t) => {
  const side = await sides(t, async (call) => {
    call.sendMetadata({})
    if (call.metadata.long) for (let i = 0; i < 20; i++) await call.send(Buffer.alloc(30_000))
  })
  await warm(side)
  const closed = Promise.withResolvers<void>()
  const unread = new UnreadBytes(200_000)
  const call = side.pool.open({ method, metadata: { long: ['yes'] }, unread })
  call.onClosed(closed.resolve)
  t.match((await call.done).error, { code: 'TOO_MUCH_UNREAD' })
  await closed.promise
  t.equal(unread.bytes, 0)
  t.match((await ask(side, [])).error, undefined)
})

t.test('a server that leaves: idle lanes end at once, others with their call; so does the connection', async (t) => {
  const side = await warm(await sides(t, echo))
  const running = side.pool.open({ method })
  void running.send(Buffer.from('a'))
  const replies = running.messages[Symbol.asyncIterator]()
  t.match(await replies.next(), { value: Buffer.from('a') })
  await Promise.all([ask(side, ['b']), ask(side, ['c'])])
  side.lanes.close()
  for (const session of side.sessions) session.close()
  while (side.session.streams.size > 1) await new Promise(setImmediate)
  void running.send(Buffer.from('d'))
  t.match(await replies.next(), { value: Buffer.from('d') })
  running.end()
  t.match(await replies.next(), { done: true })
  t.match(await running.done, { error: undefined, trailers: { ended: ['yes'] } })
  await side.session.closed
})

t.test('a server that leaves while nobody reads what it has said: all of that comes', async (t) => {
  const pieces = 60
  const said = Promise.withResolvers<void>()
  const side = await sides(t, async (call) => {
    call.sendMetadata({})
    if (!call.metadata.long) return
    for (let i = 0; i < pieces; i++) void call.send(Buffer.alloc(50_000, `${i % 10}`))
    said.resolve()
    return { ended: ['yes'] }
  })
  await warm(side)
  const call = side.pool.open({ method, metadata: { long: ['yes'] } })
  call.end()
  await said.promise
  await new Promise(setImmediate)
  side.lanes.close()
  for (const session of side.sessions) session.close()
  for (let i = 0; i < 20; i++) await side.session.ping()
  const { messages, error, trailers } = await read(call)
  t.same([messages.length, error, { ...trailers }], [pieces, undefined, { ended: ['yes'] }])
  t.ok(messages.every((message, i) => message === `${i % 10}`.repeat(50_000)))
  await side.session.closed
})

t.test('a call that no lane can carry leaves it as it was', async (t) => {
  const side = await warm(await sides(t, echo))
  const before = side.streams.length
  t.throws(() => side.pool.open({ method: '/a\r\nb' }), { code: 'INVALID_MESSAGE' })
  t.same((await ask(side, ['next'])).messages, ['next'])
  t.equal(side.streams.length, before)
})

t.test('a client that leaves: the connection ends with its last call', async (t) => {
  const side = await warm(await sides(t, echo))
  const running = side.pool.open({ method })
  await running.metadata
  await ask(side, ['b'])
  side.session.close()
  t.throws(() => side.pool.open({ method }), { code: 'TUNNEL_LOST', spec: { delivery: 'none' } })
  running.end()
  t.match((await read(running)).trailers, { ended: ['yes'] })
  await side.session.closed
})

t.test('a call that crosses the end of its lane was not begun', async (t) => {
  const calls: string[] = []
  const side = await sides(t, async (call) => {
    calls.push(call.method)
  })
  await warm(side)
  calls.length = 0
  side.lanes.close() // in the same turn, before the client can know
  const { error } = await ask(side, ['x'])
  t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'none' })
  t.same(calls, [])
})

t.test('a lane says at its end how many calls have begun on it', async (t) => {
  const calls: unknown[] = []
  const side = await warm(
    await sides(t, async (call) => {
      calls.push({ ...call.metadata })
      for await (const _ of call.messages); // the head of the next call is not a message
    }),
  )
  calls.length = 0
  const lane = side.session.open({ method: laneMethod })
  void lane.send(encodeCall(method, { name: 'first' }))
  void lane.send(encodeCall(method, { name: 'second' })) // within the first call, so the server ends the lane
  t.match(await lane.done, { error: { grpcCode: 3 }, trailers: { 'kas-begun': ['1'] } })
  t.same(calls, [{ name: ['first'] }])
})

t.test('so does one that ends since there is no room for what came on it', async (t) => {
  const side = await warm(
    await sides(t, async (call) => {
      if (!call.metadata.full) return
      call.chargeTo(new UnreadBytes(1000))
      await once(call.signal, 'abort')
    }),
  )
  const lane = side.session.open({ method: laneMethod })
  void lane.send(encodeCall(method, { full: 'yes' }))
  for (let i = 0; i < 3; i++) void lane.send(Buffer.concat([messageHead, Buffer.alloc(1000)]))
  t.match(await lane.done, { error: { grpcCode: 8 }, trailers: { 'kas-begun': ['1'] } })
})

for (const [begun, spec] of [
  [undefined, { code: 'STATUS', grpc: 8 }],
  ['1', { code: 'TUNNEL_LOST', delivery: 'none' }],
  ['2', { code: 'STATUS', grpc: 8 }],
] as const) {
  t.test(`a lane that ends with a status, and says that ${begun} calls had begun: the second is told`, async (t) => {
    const lane: Handler = async (stream) => {
      stream.sendMetadata({})
      await stream.messages.next()
      void stream.send(encodeHeaders('trailers', { 'grpc-status': '0' }))
      while (frameOf(await stream.messages.next()) !== frameKind.head);
      if (begun) stream.addTrailers({ 'kas-begun': [begun] })
      throw new KasError({ code: 'TOO_MUCH_UNREAD', limit: 1 })
    }
    const side = await sides(t, echo, { lane })
    t.match((await ask(side, [])).error, undefined)
    t.match((await ask(side, [])).error?.spec, spec)
  })
}

const step = {
  nothing: async () => undefined,
  interim: async (call) => call.sendInterim({ 'kas-tunnel': ['ready'] }),
  head: async (call) => call.sendMetadata({ served: ['yes'] }),
  message: async (call) => {
    call.sendMetadata({})
    await call.send(Buffer.from('a'))
  },
} satisfies Record<string, CallHandler>

for (const [name, say] of Object.entries(step)) {
  t.test(
    `a lane that is cut after ${name}: the call may have arrived, and the next one has another lane`,
    async (t) => {
      const said = Promise.withResolvers<void>()
      const side = await sides(t, async (call) => {
        if (!call.metadata.cut) return await echo(call)
        await say(call)
        said.resolve()
        await once(call.signal, 'abort')
      })
      await warm(side)
      const interims: unknown[] = []
      const onInterim = (metadata: object) => void interims.push({ ...metadata })
      const call = side.pool.open({ method, metadata: { cut: ['yes'] }, onInterim })
      await said.promise
      const other = side.pool.open({ method })
      await other.metadata
      if (name === 'interim') while (interims.length === 0) await new Promise(setImmediate)
      if (name === 'head' || name === 'message') await call.metadata
      side.reset(1 + 2 * side.paths().indexOf(laneMethod))
      const { messages, error } = await read(call)
      t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
      t.same(
        [messages, interims],
        [name === 'message' ? ['a'] : [], name === 'interim' ? [{ 'kas-tunnel': ['ready'] }] : []],
      )
      other.end()
      t.match((await read(other)).error, undefined)
      t.same((await ask(side, ['next'])).messages, ['next'])
    },
  )
}

t.test('a lane that ends before its last reply is read carries nothing more', async (t) => {
  let finished = Promise.withResolvers<void>()
  const side = await warm(
    await sides(t, async (call) => {
      const trailers = await echo(call)
      finished.resolve()
      return trailers
    }),
  )
  finished = Promise.withResolvers()
  const late = side.pool.open({ method })
  void late.send(Buffer.from('late'))
  late.end()
  await finished.promise
  await new Promise(setImmediate)
  await side.session.ping() // the whole reply has arrived
  side.reset(1)
  while (side.session.streams.size > 0) await new Promise(setImmediate)
  t.match(await read(late), { messages: ['late'], error: undefined })
  t.match(await ask(side, ['next']), { messages: ['next'], error: undefined })
})

t.test('a lost connection says so to each call', async (t) => {
  const side = await warm(await sides(t, echo))
  const calls = Array.from({ length: 3 }, () => side.pool.open({ method }))
  await Promise.all(calls.map(({ metadata }) => metadata))
  side.session.destroy()
  for (const call of calls) {
    t.match((await call.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' }, 'also while nobody reads')
    t.same((await read(call)).messages, [])
  }
})

const head = encodeCall(method, {})
const message = Buffer.from([frameKind.message, 1])

for (const [name, frames] of [
  ['a message before a call', [message]],
  ['an end before a call', [endFrame]],
  ['a call inside a call', [head, message, head]],
  ['headers inside a call', [head, encodeHeaders('interim', {})]],
  ['a frame of no kind', [head, Buffer.from([77])]],
  ['an empty frame', [head, Buffer.alloc(0)]],
  ['an end with something in it', [head, Buffer.from([frameKind.end, 1])]],
  ['a call without a method', [encodeHeaders('head', { a: 'b' })]],
  ['a call with a head that is too large', [Buffer.concat([head, Buffer.from(`a: ${'x'.repeat(70_000)}\r\n`)])]],
  ['a call with too many lines', [Buffer.concat([head, Buffer.from('a: b\r\n'.repeat(200))])]],
  ['a half-close inside a call', [head, message]],
] as const) {
  t.test(`${name} ends the lane, and no other`, async (t) => {
    const side = await warm(await sides(t, echo))
    const other = side.pool.open({ method })
    await other.metadata
    const raw = side.session.open({ method: laneMethod })
    for (const frame of frames) void raw.send(frame)
    raw.end()
    t.match(await raw.done, { error: { grpcCode: 3 } })
    other.end()
    t.match((await read(other)).trailers, { ended: ['yes'] })
    t.same((await ask(side, ['next'])).messages, ['next'])
  })
}

for (const [name, frames] of [
  ['a message before its headers', [message]],
  ['headers twice', [encodeHeaders('head', {}), encodeHeaders('head', {})]],
  ['interim headers behind the headers', [encodeHeaders('head', {}), encodeHeaders('interim', {})]],
  ['a frame of no kind', [Buffer.from([77])]],
  ['lines that are none', [Buffer.from([frameKind.trailers, 65])]],
] as const) {
  t.test(`a server that says ${name} ends the call, and its lane`, async (t) => {
    let isSound = true
    const lanes = new ServerLanes()
    const lane: Handler = async (stream) => {
      if (isSound) return await lanes.serve(stream, echo)
      stream.sendMetadata({})
      await stream.messages.next()
      for (const frame of frames) void stream.send(frame)
      await once(stream.signal, 'abort')
    }
    const side = await warm(await sides(t, echo, { lane }))
    const first = side.pool.open({ method }) // uses the sound lane
    isSound = false
    const call = side.pool.open({ method })
    t.match((await read(call)).error, { code: 'INVALID_MESSAGE' })
    first.end()
    t.match((await read(first)).trailers, { ended: ['yes'] })
  })
}

t.test('what comes on an idle lane ends it', async (t) => {
  let current: ServerStream | undefined
  const lanes = new ServerLanes()
  const lane: Handler = (stream) => {
    current = stream
    return lanes.serve(stream, echo)
  }
  const side = await warm(await sides(t, echo, { lane }))
  await current?.send(message)
  while (side.session.streams.size > 0) await new Promise(setImmediate)
  t.same((await ask(side, ['next'])).messages, ['next'])
})
