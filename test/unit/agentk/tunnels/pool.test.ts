import { pino } from 'pino'
import t, { type Test } from 'tap'
import { TunnelPool, type TunnelSession } from '../../../../src/agentk/tunnels/pool.ts'
import { type Forward, noMetadata, type Outcome } from '../../../../src/call/call.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import type { ClientStream } from '../../../../src/proto/grpc/client-session.ts'
import { decodeConnectRequest, encodeConnectResponse } from '../../../../src/proto/reverse-tunnel.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const log = pino({ level: 'silent' })
const ok: Outcome = { trailers: noMetadata }
const failed = (grpc: number): Outcome => ({
  trailers: noMetadata,
  error: new KasError({ code: 'STATUS', grpc, message: 'told by the test' }),
})

/** A Connect stream; the test is its other side. */
class FakeStream {
  readonly sent: Uint8Array[] = []
  readonly #messages: Uint8Array[] = []
  readonly #done = Promise.withResolvers<Outcome>()
  readonly done = this.#done.promise
  readonly metadata = Promise.resolve(noMetadata)
  halfClosed = false
  #reader: ((result: IteratorResult<Uint8Array>) => void) | undefined
  #over = false
  readonly messages = { [Symbol.asyncIterator]: () => ({ next: () => this.#next() }) }

  send(payload: Uint8Array): undefined {
    this.sent.push(payload)
  }

  receives(): void {}

  end(): void {
    this.halfClosed = true
  }

  cancel(): void {
    this.finish(failed(Code.CANCELLED))
  }

  receive(message: Uint8Array): void {
    this.#messages.push(message)
    this.#wake()
  }

  finish(outcome: Outcome): void {
    this.#over = true
    this.#done.resolve(outcome)
    this.#wake()
  }

  #next(): Promise<IteratorResult<Uint8Array>> {
    return new Promise((resolve) => {
      this.#reader = resolve
      this.#wake()
    })
  }

  #wake(): void {
    const reader = this.#reader
    if (!reader || (this.#messages.length === 0 && !this.#over)) return
    this.#reader = undefined
    const value = this.#messages.shift()
    reader(value ? { value, done: false } : { value: undefined, done: true })
  }
}

class FakeSession implements TunnelSession {
  readonly streams: FakeStream[] = []
  draining = false
  readonly #listeners: (() => void)[] = []

  open(): ClientStream {
    const stream = new FakeStream()
    this.streams.push(stream)
    return stream as unknown as ClientStream
  }

  onDraining(listener: () => void): void {
    this.#listeners.push(listener)
  }

  drain(): void {
    this.draining = true
    for (const listener of this.#listeners) listener()
  }
}

class FakeSessions {
  current = new FakeSession()
  readonly #listeners: ((session: TunnelSession) => void)[] = []

  async session(): Promise<TunnelSession> {
    return this.current
  }

  onSession(listener: (session: TunnelSession) => void): void {
    this.#listeners.push(listener)
  }

  connect(session: FakeSession): void {
    this.current = session
    for (const listener of this.#listeners) listener(session)
  }
}

const method = '/test.Echo/Do'
const hang: Forward = async (call) => ({
  metadata: Promise.resolve(noMetadata),
  messages: call.messages,
  done: Promise.resolve(ok),
})

async function start(
  t: Test,
  options = {},
  { served = new Map([[method, hang]]), isReused = (): boolean => false } = {},
) {
  const clock = new ManualClock()
  const sessions = new FakeSessions()
  const pool = new TunnelPool(
    { sessions, methods: () => new Map(served), metadata: () => noMetadata, isReused, log, clock, random: () => 0 },
    { minIdle: 2, max: 500, step: 10, idleMs: 60_000, ...options },
  )
  await pool.start()
  t.teardown(() => pool.stop())
  sessions.connect(sessions.current)
  await settle()
  const take = async (index: number) => {
    sessions.current.streams[index]?.receive(encodeConnectResponse.requestInfo(method, noMetadata))
    await settle()
  }
  return { clock, sessions, pool, take, streams: sessions.current.streams }
}

/** Methods that a Connect stream has announced. */
function announcedOn(stream: FakeStream | undefined): string[] {
  const message = decodeConnectRequest(stream?.sent[0] as Uint8Array)
  if (message.kind !== 'descriptor') return []
  return message.descriptor.services.flatMap(({ name, methods }) => methods.map((each) => `/${name}/${each.name}`))
}

// wire: agentk.idle, agentk.descriptor
t.test('two tunnels, each with its descriptor', async (t) => {
  const { streams } = await start(t)
  t.equal(streams.length, 2)
  const first = decodeConnectRequest(streams[0]?.sent[0] as Uint8Array)
  t.match(first, { kind: 'descriptor', descriptor: { services: [{ name: 'test.Echo', methods: [{ name: 'Do' }] }] } })
})

// wire: agentk.grow
t.test('ten more when fewer than two are idle, up to the maximum', async (t) => {
  const { streams, take, pool } = await start(t, { max: 15 })
  await take(0)
  t.equal(streams.length, 12)
  t.same(pool.counts, { idle: 11, active: 1, served: 1 })
  for (let i = 1; i < 11; i++) await take(i)
  t.equal(streams.length, 15, 'the maximum counts idle and active')
  for (let i = 11; i < 15; i++) await take(i)
  t.same(pool.counts, { idle: 0, active: 15, served: 15 })
})

t.test('a used slot opens its next at once', async (t) => {
  const { streams, take, pool } = await start(t)
  await take(0)
  streams[0]?.receive(encodeConnectResponse.closeSend())
  await settle()
  t.ok(streams[0]?.halfClosed)
  t.equal(streams.length, 13, 'before kas has ended the old one')
  t.same(pool.counts, { idle: 12, active: 0, served: 1 })
})

// wire: agentk.again, agentk.back-off
t.test('OK, Canceled and DeadlineExceeded: at once; other codes: 1 s, growing to 20 s', async (t) => {
  const { clock, streams } = await start(t)
  for (const outcome of [ok, failed(Code.CANCELLED), failed(Code.DEADLINE_EXCEEDED)]) {
    const before = streams.length
    streams.at(-1)?.finish(outcome)
    await settle()
    t.equal(streams.length, before + 1)
  }
  const pauses: number[] = []
  for (let i = 0; i < 9; i++) {
    streams.at(-1)?.finish(failed(Code.UNAVAILABLE))
    await settle()
    const [pause = 0] = clock.waits
    pauses.push(Math.round(pause))
    await clock.pass(pause)
  }
  t.same(pauses, [1000, 1600, 2560, 4096, 6554, 10_486, 16_777, 20_000, 20_000])
  await clock.pass(26_000)
  streams.at(-1)?.finish(failed(Code.UNAVAILABLE))
  await settle()
  t.same(clock.waits, [1000], 'after 25 s without a failure it begins again')
})

// wire: agentk.shrink
t.test('an idle tunnel over the minimum stops after a minute, when its Connect ends', async (t) => {
  const { clock, streams, take, pool } = await start(t)
  await take(0)
  streams[0]?.receive(encodeConnectResponse.closeSend())
  await settle()
  t.equal(pool.counts.idle, 12)
  streams[5]?.finish(ok)
  await settle()
  t.equal(pool.counts.idle, 12, 'sooner it is opened again')
  await clock.pass(60_000)
  t.equal(pool.counts.idle, 12, 'nothing happens by itself')
  for (const stream of [...streams]) stream.finish(ok)
  await settle()
  t.equal(pool.counts.idle, 2)
})

t.test('a draining connection: idle tunnels are replaced on the next, and may still be used', async (t) => {
  const { sessions, pool, take, streams } = await start(t)
  await take(0)
  const old = sessions.current
  const fresh = new FakeSession()
  sessions.connect(fresh)
  old.drain()
  await settle()
  t.equal(fresh.streams.length, 2)
  t.same(pool.counts, { idle: 2, active: 1, served: 1 })
  streams[1]?.receive(encodeConnectResponse.requestInfo(method, noMetadata))
  await settle()
  t.same(pool.counts, { idle: 2, active: 2, served: 2 }, 'a call that crossed the GOAWAY is served')
  for (const stream of streams.slice(2)) stream.finish(ok)
  await settle()
  t.equal(fresh.streams.length, 2, 'those that end unused are not opened again')
})

t.test('a lost connection costs no back-off: the sessions have their own', async (t) => {
  const { sessions, clock, streams } = await start(t)
  const fresh = new FakeSession()
  const old = sessions.current
  sessions.connect(fresh)
  old.drain()
  for (const stream of streams) stream.finish(failed(Code.UNAVAILABLE))
  await settle()
  t.equal(fresh.streams.length, 2)
  t.same(clock.waits, [])
})

t.test('stop ends idle tunnels and those that wait, opens no more', async (t) => {
  const { pool, streams, clock } = await start(t)
  streams[0]?.finish(failed(Code.UNAVAILABLE))
  await settle()
  await pool.stop()
  await pool.stop()
  t.same(pool.counts, { idle: 0, active: 0, served: 0 })
  t.same(clock.waits, [])
  t.equal(streams.length, 2)
})

const leadMethod = '/test.Views/Follow'

t.test('other methods: new tunnels announce them, in place of idle ones that take one more call each', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, streams, take } = await start(t, {}, { served, isReused: () => true })
  pool.announce()
  await settle()
  t.equal(streams.length, 2, 'nothing has changed')
  served.set(leadMethod, hang)
  pool.announce()
  await settle()
  t.equal(streams.length, 4)
  t.strictSame(streams.map(announcedOn), [[method], [method], [method, leadMethod], [method, leadMethod]])
  t.same(pool.counts, { idle: 2, active: 0, served: 0 }, 'those of before are not counted')
  t.notOk(
    streams.some(({ halfClosed }) => halfClosed),
    'and not ended: a call may be on its way to them',
  )
  await take(0)
  t.same(pool.counts, { idle: 2, active: 1, served: 1 })
  streams[0]?.receive(encodeConnectResponse.closeSend())
  await settle()
  t.ok(streams[0]?.halfClosed, 'it does not go on, though kas would')
  t.same(pool.counts, { idle: 2, active: 0, served: 1 })
  streams[1]?.finish(ok)
  await settle()
  t.equal(streams.length, 4, 'neither is opened again')
})

t.test('methods that come and go a thousand times leave no more tunnels than both kinds need', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, streams } = await start(t, {}, { served })
  for (let i = 0; i < 1000; i++) {
    if (!served.delete(leadMethod)) served.set(leadMethod, hang)
    pool.announce()
    await settle()
  }
  t.equal(streams.length, 4)
  t.same(pool.counts, { idle: 2, active: 0, served: 0 })
})

t.test('nor do they with calls in between', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, streams, take } = await start(t, {}, { served, isReused: () => true })
  const living = () => streams.flatMap((stream, i) => (stream.halfClosed ? [] : [i]))
  for (let i = 0; i < 50; i++) {
    if (!served.delete(leadMethod)) served.set(leadMethod, hang)
    pool.announce()
    await settle()
    for (const index of living()) {
      await take(index)
      streams[index]?.receive(encodeConnectResponse.closeSend())
      await settle()
    }
  }
  t.ok(living().length <= 24, `as many as two and ten more of each kind: ${living().length}`)
})

t.test('a call that runs while methods change is not touched, and its tunnel is not used again', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, streams, take } = await start(t, {}, { served, isReused: () => true })
  await take(0)
  served.set(leadMethod, hang)
  pool.announce()
  await settle()
  t.notOk(streams[0]?.halfClosed)
  streams[0]?.receive(encodeConnectResponse.closeSend())
  await settle()
  t.ok(streams[0]?.halfClosed)
  t.strictSame(announcedOn(streams.at(-1)), [method, leadMethod])
})

t.test('a tunnel that waits for its connection announces what is served then', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, streams, clock } = await start(t, {}, { served })
  streams[0]?.finish(failed(Code.UNAVAILABLE))
  await settle()
  served.set(leadMethod, hang)
  pool.announce()
  await settle()
  t.equal(streams.length, 3, 'in place of the one that is open')
  await clock.pass(1000)
  t.equal(streams.length, 4)
  t.strictSame(announcedOn(streams[3]), [method, leadMethod])
})

t.test('what a connection that goes away has announced is no longer counted, whatever is served', async (t) => {
  const served = new Map([[method, hang]])
  const { pool, sessions } = await start(t, {}, { served })
  const [old, fresh] = [sessions.current, new FakeSession()]
  sessions.connect(fresh)
  old.drain()
  served.set(leadMethod, hang)
  pool.announce()
  served.delete(leadMethod)
  pool.announce()
  await settle()
  t.same(pool.counts, { idle: 2, active: 0, served: 0 })
  t.equal(old.streams.length, 2)
})
