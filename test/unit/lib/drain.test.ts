import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { Drain, type Drainable, type DrainOptions } from '../../../src/lib/drain.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock, settle } from '../../support/manual-clock.ts'

const patient = new AbortController().signal
const graces = { listenGraceMs: 1000, shutdownGraceMs: 5000, lingerMs: 100 }

/** A server with a client that stays, and the recorded steps of the drain. */
async function start(t: Test, options: DrainOptions = graces, more: Partial<Drainable> = {}) {
  const clock = new ManualClock()
  const steps: string[] = []
  const step = (name: string) => () => void steps.push(name)
  const server = createServer((socket) => socket.on('error', () => undefined))
  const drain = new Drain(
    {
      server,
      log: capturedLog().log,
      announce: async () => step('announce')(),
      close: step('close'),
      drain: step('drain'),
      endStreams: step('endStreams'),
      cut: step('cut'),
      ...more,
    },
    { ...options, clock },
  )
  t.teardown(() => drain.stop())
  await drain.listen({ port: 0, host: '127.0.0.1' })
  const { port } = server.address() as AddressInfo
  /** @returns the socket, and `taken`: true if the server accepted it */
  const dial = async () => {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    const taken = once(server, 'connection').then(() => true)
    const refused = once(socket, 'error').then(() => false)
    socket.resume()
    return { socket, taken: await Promise.race([taken, refused]) }
  }
  const { socket: client } = await dial()
  const closed = once(client, 'close')
  /** Moves the clock after all earlier work has reached its wait. */
  const advance = async (ms: number) => {
    await settle()
    clock.advance(ms)
    await settle()
    await settle() // the server needs one more turn to read from the network
    await settle() // and two turns without a new connection before it closes
    await settle()
  }
  return { drain, steps, clock, dial, client, closed, advance }
}

t.test('each step comes after its grace', async (t) => {
  const { drain, steps, clock, dial, closed, advance } = await start(t)
  t.equal(drain.phase, 'serving')
  const left = drain.leave(patient)
  t.equal(drain.phase, 'leaving')
  t.strictSame(steps, ['announce'])
  await advance(999)
  t.equal((await dial()).taken, true, 'in the listen grace')
  t.equal(drain.phase, 'leaving')
  await advance(1)
  await left
  t.equal(drain.phase, 'draining')
  t.strictSame(steps.splice(0), ['announce', 'close', 'drain'])
  t.equal((await dial()).taken, false, 'after it')
  const stopped = drain.stop(patient)
  await advance(4999)
  t.strictSame(steps, [])
  await advance(1)
  t.strictSame(steps, ['endStreams'])
  await advance(99)
  t.strictSame(steps, ['endStreams'])
  await advance(1)
  t.strictSame(steps, ['endStreams', 'cut'])
  await Promise.all([stopped, closed])
  t.equal(drain.phase, 'ended')
  t.equal(clock.pending, 0)
})

t.test('it ends with its last connection', async (t) => {
  const { drain, steps, clock, client, advance } = await start(t)
  const stopped = drain.stop(patient)
  await advance(1000)
  client.destroy()
  await stopped
  t.strictSame(steps, ['announce', 'close', 'drain'])
  t.equal(drain.phase, 'ended')
  t.equal(clock.pending, 0)
})

t.test('without patience no grace is kept, and what runs is cut', async (t) => {
  for (const end of ['leave', 'stop'] as const) {
    const { drain, steps, clock, closed } = await start(t)
    await Promise.all([drain[end](), closed])
    await drain.stop()
    t.strictSame(steps, ['announce', 'close', 'drain', 'cut'])
    t.equal(clock.pending, 0)
  }
})

t.test('patience that ends cuts the listen grace short, and what drains', async (t) => {
  for (const waitsMs of [500, 1500]) {
    const { drain, steps, closed, advance } = await start(t)
    const patience = new AbortController()
    const stopped = drain.stop(patience.signal)
    await advance(waitsMs)
    t.equal(drain.phase, waitsMs > graces.listenGraceMs ? 'draining' : 'leaving')
    patience.abort()
    await Promise.all([stopped, closed])
    t.strictSame(steps, ['announce', 'close', 'drain', 'cut'])
  }
})

t.test('the patience of any who stops it counts', async (t) => {
  const { drain, closed } = await start(t)
  const left = drain.leave(patient)
  const stopped = drain.stop(patient)
  await drain.stop()
  await Promise.all([left, stopped, closed])
  t.equal(drain.phase, 'ended')
})

t.test('without a shutdown grace it waits as long as there is patience', async (t) => {
  const { drain, steps, clock, advance } = await start(t, {})
  void drain.stop(patient)
  await advance(0)
  t.equal(clock.pending, 0)
  t.strictSame(steps, ['announce', 'close', 'drain'])
})

t.test('what drains in `stop` works until then; its grace counts from the end of the listen grace', async (t) => {
  const { drain, steps, dial, closed, advance } = await start(t, { ...graces, lingerMs: 0, untilStop: 'drain' })
  const left = drain.leave(patient)
  await advance(1000)
  await left
  t.equal((await dial()).taken, false)
  await advance(5000)
  t.strictSame(steps.splice(0), ['announce', 'close'])
  t.equal(drain.phase, 'leaving')
  await Promise.all([drain.stop(patient), closed])
  t.strictSame(steps, ['drain', 'endStreams', 'cut'])
})

t.test('what closes in `stop` takes connections until then', async (t) => {
  const { drain, steps, dial, advance } = await start(t, { ...graces, untilStop: 'close' })
  const left = drain.leave(patient)
  await advance(1000)
  await left
  t.equal((await dial()).taken, true)
  t.strictSame(steps.splice(0), ['announce'])
  await drain.stop()
  t.strictSame(steps, ['close', 'drain', 'cut'])
})

t.test('after the last work connections linger', async (t) => {
  const idle = Promise.withResolvers<void>()
  const { drain, steps, closed, advance } = await start(t, { lingerMs: 100 }, { idle: idle.promise })
  const stopped = drain.stop(patient)
  await advance(100)
  t.strictSame(steps.splice(0), ['announce', 'close', 'drain'])
  idle.resolve()
  await advance(99)
  t.notOk(steps.includes('cut'))
  await advance(1)
  t.ok(steps.includes('cut'))
  await Promise.all([stopped, closed])
})

t.test('who has arrived before it closed is waited for', async (t) => {
  const ended: string[] = []
  const endArrivals = () => void ended.push('endArrivals')
  const { drain, closed, advance } = await start(t, { ...graces, arrivalMs: 500 }, { endArrivals })
  const stopped = drain.stop(patient)
  await advance(1000)
  t.equal(drain.phase, 'draining')
  await advance(499)
  t.strictSame(ended, [])
  await advance(1)
  t.strictSame(ended, ['endArrivals'])
  await drain.stop()
  await Promise.all([stopped, closed])
})

t.test('who is connected at the end of the listen grace is accepted, not reset', async (t) => {
  const { drain, clock, dial } = await start(t)
  const left = drain.leave(patient)
  await settle()
  const dialled = dial()
  await new Promise((resolve) => process.nextTick(resolve)) // the connection is made, but the server has not noticed it
  clock.advance(1000)
  t.equal((await dialled).taken, true)
  await left
})

t.test('one that does not listen has ended', async (t) => {
  const never = new Drain({ server: createServer(), log: capturedLog().log }, graces)
  await Promise.all([never.leave(patient), never.stop(patient)])
  t.equal(never.phase, 'ended')
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const failed = new Drain({ server: createServer(), log: capturedLog().log }, graces)
  await t.rejects(failed.listen({ port, host: '127.0.0.1' }), { code: 'EADDRINUSE' })
  await failed.stop(patient)
  t.equal(failed.phase, 'ended')
})
