import { AsyncLocalStorage } from 'node:async_hooks'
import t from 'tap'
import type { Metadata, Outcome } from '../../../../src/call/call.ts'
import { Lanes, type LanesOptions } from '../../../../src/kas/peers/lanes.ts'
import type { KasError } from '../../../../src/lib/errors.ts'
import type { ClientSession } from '../../../../src/proto/grpc/client-session.ts'
import { encodeHeaders, frameKind } from '../../../../src/proto/grpc/lane-frames.ts'
import { replicaLimits } from '../../../../src/proto/grpc/limits.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const ok = encodeHeaders('trailers', { 'grpc-status': '0' })

/** trace of the caller */
const trace = new AsyncLocalStorage<string>()

/** A stream of a session, with the behavior of its peer. */
class Stream {
  readonly name: string
  isEnded = false
  readonly #metadata = Promise.withResolvers<Metadata | undefined>()
  readonly #done = Promise.withResolvers<Outcome>()
  #read = Promise.withResolvers<IteratorResult<Uint8Array>>()
  readonly metadata = this.#metadata.promise
  readonly done = this.#done.promise
  readonly unsentBytes = 0
  readonly inbox = {
    take: () => undefined,
    next: () => {
      this.#read = Promise.withResolvers()
      return this.#read.promise
    },
  }

  readonly #onCall: (stream: Stream) => void

  constructor(name: string, onCall: (stream: Stream) => void) {
    this.name = name
    this.#onCall = onCall
  }

  limit(): void {}

  chargeTo(): void {}
  receives(): void {}

  send(frame: Uint8Array): undefined {
    if (frame[0] === frameKind.head) this.#onCall(this)
  }

  end(): void {
    this.isEnded = true
    this.finish(undefined)
  }

  /** Ends the call on this stream. */
  answer(): void {
    this.#read.resolve({ value: ok, done: false })
  }

  finish(error: KasError | undefined): void {
    this.#metadata.resolve(undefined)
    this.#done.resolve({ error, trailers: {} })
  }
}

function pool(options: LanesOptions = { maxIdle: 2, idleMs: 1000 }) {
  const clock = new ManualClock()
  const streams: Stream[] = []
  const traces: unknown[] = []
  let last: Stream | undefined
  const onCall = (stream: Stream) => {
    last = stream
  }
  const draining = Promise.withResolvers<void>()
  const session = {
    limits: replicaLimits,
    draining: false,
    open: () => {
      traces.push(trace.getStore())
      const stream = new Stream(`lane ${streams.length}`, onCall)
      streams.push(stream)
      return stream
    },
    onDraining: (listener: () => void) => void draining.promise.then(listener),
  }
  const lanes = new Lanes({ session: session as unknown as ClientSession, clock }, options)
  /** @returns lane that carries the call */
  const call = () => {
    lanes.open({ method: '/a.B/C' })
    return last as Stream
  }
  const drain = () => {
    session.draining = true
    draining.resolve()
    return new Promise(setImmediate)
  }
  return { clock, streams, call, drain, traces, names: () => streams.map(({ name }) => name) }
}

/** Returns a pool with `free` idle lanes. */
async function served(free: number, options?: LanesOptions) {
  const side = pool(options)
  const busy = Array.from({ length: free }, () => side.call())
  for (const lane of busy) lane.answer()
  await settle()
  return side
}

t.test('a call that finds no free lane opens one, and waits for no answer of the peer', async (t) => {
  const { call, names } = pool()
  t.equal(call().name, 'lane 0')
  t.equal(call().name, 'lane 1')
  t.same(names(), ['lane 0', 'lane 1'])
})

t.test('the lane that was used last carries the next call', async (t) => {
  const side = await served(2)
  t.same(side.names(), ['lane 0', 'lane 1'])
  t.equal(side.call().name, 'lane 1')
  t.equal(side.call().name, 'lane 0')
  side.streams[1]?.answer()
  await settle()
  side.streams[0]?.answer()
  await settle()
  t.equal(side.call().name, 'lane 0')
})

t.test('more than some that are free end; those that nobody needs end in time, and no timer is left', async (t) => {
  const { clock, streams, call } = await served(3)
  t.same(
    streams.map(({ isEnded }) => isEnded),
    [false, false, true],
  )
  clock.advance(1000)
  t.same([streams[0]?.isEnded, streams[1]?.isEnded], [false, false], 'they were just used')
  call().answer()
  await settle()
  clock.advance(1000)
  t.same([streams[0]?.isEnded, streams[1]?.isEnded], [true, false])
  clock.advance(1000)
  t.equal(streams[1]?.isEnded, true)
  t.equal(clock.pending, 0)
})

t.test('a lane that its peer has ended carries nothing', async (t) => {
  const { streams, call } = await served(1)
  streams[0]?.finish(undefined)
  await settle()
  t.equal(call().name, 'lane 1')
})

t.test('once the connection drains, lanes end: with their call, or at once', async (t) => {
  const { clock, streams, call, drain } = await served(2)
  call()
  await drain()
  t.same([streams[0]?.isEnded, streams[1]?.isEnded], [true, false])
  streams[1]?.answer()
  await settle()
  t.equal(streams[1]?.isEnded, true)
  t.equal(clock.pending, 0)
})

t.test('a lane, and the timer of those that are free, are of no trace', async (t) => {
  const { clock, streams, call, traces } = pool()
  const after = clock.after.bind(clock)
  clock.after = (ms, action) => {
    traces.push(trace.getStore())
    return after(ms, action)
  }
  trace.run('first', call)
  streams[0]?.answer()
  await settle()
  trace.run('second', () => [call(), call()])
  t.same(traces, [undefined, undefined, undefined])
})
