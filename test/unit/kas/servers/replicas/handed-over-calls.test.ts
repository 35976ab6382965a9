import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../../../../src/call/call.ts'
import { type Caller, kasCaller } from '../../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../../src/call/known-messages.ts'
import { ReplicaMemory } from '../../../../../src/kas/memory/replica-memory.ts'
import { go, readOutcome, tunnelKey, writeHandOver } from '../../../../../src/kas/peers/hand-over-metadata.ts'
import { HandedOverCalls } from '../../../../../src/kas/servers/replicas/handed-over-calls.ts'
import { TunnelRegistry } from '../../../../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../../../../src/lib/clock.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { noTracer } from '../../../../../src/lib/tracing/tracer.ts'
import type { ServerStream } from '../../../../../src/proto/grpc/server-stream.ts'
import { agentId } from '../../../../support/agents-server.ts'
import { idleTunnel } from '../../../../support/idle-tunnel.ts'

const method = '/test.Echo/Echo'

interface Messages extends Partial<AsyncIterable<Uint8Array>> {
  take(): Uint8Array | undefined
  next?(): Promise<unknown>
}

interface HandOverOptions {
  readonly eager?: boolean
  readonly forward?: (call: Call) => Reply
  readonly memory?: ReplicaMemory
  readonly caller?: Caller
}

/** A handed-over call with the test's messages, at a replica with one idle tunnel. */
function handOver(
  messages: Messages,
  { eager = false, forward = neverCalled, memory = new ReplicaMemory(), caller: by = kasCaller }: HandOverOptions = {},
) {
  const tunnels = new TunnelRegistry({ clock: monotonicClock })
  const tunnel = idleTunnel(method, forward)
  tunnels.add(agentId, tunnel)
  const interim: Metadata[] = []
  const sent: Metadata[] = []
  let trailers: Metadata = noMetadata
  const caller = new AbortController()
  const stream = {
    method,
    metadata: writeHandOver({ agentId, waitMs: 0, eager, caller: by, isWatch: false, isLog: false }, {}),
    signal: caller.signal,
    messages,
    chargeTo: () => undefined,
    onClosed: () => undefined,
    sendInterim: (metadata: Metadata) => void interim.push(metadata),
    sendMetadata: (metadata: Metadata) => void sent.push(metadata),
    addTrailers: (metadata: Metadata) => {
      trailers = { ...trailers, ...metadata }
    },
  }
  const served = new HandedOverCalls({ tunnels, memory, tracer: noTracer }).serve(stream as unknown as ServerStream)
  /** Returns the error that the entry replica gets. */
  const failure = async (t: Test) => {
    const error = KasError.from(await t.rejects(served).then(() => served.catch((cause: unknown) => cause)))
    const status = new KasError({ code: 'STATUS', grpc: error.grpcCode, message: '' })
    return readOutcome({ error: status, trailers }).error?.spec
  }
  return { tunnel, interim, sent, served, trailers: () => trailers, failure, caller }
}

const neverCalled = () => {
  throw new Error('nothing of it may reach the agent')
}

/** Returns an agent's reply with the given metadata and outcome. */
function replyOf(metadata: Promise<Metadata | undefined>, outcome: Outcome): Reply {
  const messages = (async function* (): AsyncGenerator<Uint8Array> {})()
  return { metadata, messages, done: Promise.resolve(outcome) }
}

/** Messages of an eager call: they are all there at once. */
function allAtOnce(count = 2): Messages {
  const all = Array.from({ length: count }, (_, i) => Buffer.from([i]))
  return Object.assign(new KnownMessages(all), { take: () => undefined })
}

t.test('a caller that has left most unread here is refused before the agent is called', async (t) => {
  const memory = new ReplicaMemory({ unreadBytes: 1000, callersBytes: 1000 })
  const holder = { bufferedBytes: 990, drop: () => t.fail('it was dropped') }
  const share = memory.enter('unread', agentId, 'greedy')
  share.add(990)
  share.holders.add(holder)
  const { tunnel, failure, trailers } = handOver({ take: () => go }, { memory, caller: { key: 'greedy' } })
  t.same(await failure(t), { code: 'REPLICA_MEMORY_FULL', share: 'unread', limit: 1000 })
  t.same(trailers()[tunnelKey], ['refused'])
  t.equal(tunnel.state, 'idle')
})

t.test('a tunnel that is lost between ready and the sign to use it is an error, and nothing was sent', async (t) => {
  const take = () => {
    tunnel.state = 'ended'
    return go
  }
  const { tunnel, interim, failure } = handOver({ take })
  t.same(await failure(t), { code: 'TUNNEL_LOST', delivery: 'none' })
  t.same(interim, [{ [tunnelKey]: ['ready'] }])
})

t.test('an entry that gets ready and does not decide: the tunnel goes back, and nothing was sent', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const asked = Promise.withResolvers<void>()
  const next = () => {
    asked.resolve()
    return new Promise(() => undefined)
  }
  const { tunnel, failure } = handOver({ take: () => undefined, next })
  await asked.promise
  mock.timers.tick(3000)
  t.same(await failure(t), { code: 'TUNNEL_LOST', delivery: 'none' })
  t.equal(tunnel.state, 'idle')
})

t.test('an entry that leaves right after ready: nothing of the call reaches the agent', async (t) => {
  const take = () => {
    caller.abort(new KasError({ code: 'CANCELLED' }))
    return go
  }
  const { tunnel, failure, caller } = handOver({ take })
  t.match(await failure(t), { code: 'CANCELLED' })
  t.equal(tunnel.state, 'idle')
})

t.test('a message in the place of the sign is none', async (t) => {
  const { tunnel, failure } = handOver({ take: () => Buffer.from('a') })
  t.match(await failure(t), { code: 'INVALID_MESSAGE' })
  t.equal(tunnel.state, 'idle')
})

t.test('an eager call: its reply says ready, and one that is late is announced', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const prompt = handOver(allAtOnce(), {
    eager: true,
    forward: ({ messages }) => {
      t.same((messages as KnownMessages).all, [Buffer.from([0]), Buffer.from([1])], 'so they leave in one write')
      return replyOf(Promise.resolve({ served: ['yes'] }), { trailers: noMetadata })
    },
  })
  await prompt.served
  t.same([prompt.interim, prompt.sent, prompt.trailers()], [[], [{ served: ['yes'] }], {}])
  mock.timers.tick(1000)
  t.same(prompt.interim, [], 'nor is it said later')

  const head = Promise.withResolvers<Metadata>()
  const forwarded = Promise.withResolvers<void>()
  const late = handOver(allAtOnce(), {
    eager: true,
    forward: () => {
      forwarded.resolve()
      return replyOf(head.promise, { trailers: noMetadata })
    },
  })
  await forwarded.promise
  mock.timers.tick(20)
  t.same(late.interim, [{ [tunnelKey]: ['ready'] }])
  head.resolve({ served: ['yes'] })
  await late.served
})

t.test(
  'an eager call that fails before its headers: its end says ready, so that it is not asked elsewhere',
  async (t) => {
    const error = new KasError({ code: 'STATUS', grpc: 7, message: 'not you' })
    const forward = () => replyOf(Promise.resolve(undefined), { error, trailers: noMetadata })
    const refused = handOver(allAtOnce(), { eager: true, forward })
    await t.rejects(refused.served, { message: 'not you' })
    t.match(refused.trailers(), { [tunnelKey]: ['ready'] })

    const lost = handOver(allAtOnce(), { eager: true })
    lost.tunnel.state = 'ended'
    t.same(await lost.failure(t), { code: 'TUNNEL_LOST', delivery: 'none' })
    t.match(lost.trailers(), { [tunnelKey]: ['ready'] })
  },
)

t.test('an eager call whose messages are too many, or do not come: nothing of it reaches the agent', async (t) => {
  const many = handOver(allAtOnce(17), { eager: true })
  t.match(await many.failure(t), { code: 'INVALID_MESSAGE' })
  t.equal(many.tunnel.state, 'idle')

  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { promise: asked, resolve } = Promise.withResolvers<void>()
  const next = () => {
    resolve()
    return new Promise<never>(() => undefined)
  }
  const silent = { take: () => undefined, [Symbol.asyncIterator]: () => ({ next }) }
  const { failure, tunnel } = handOver(silent, { eager: true })
  await asked
  mock.timers.tick(3000)
  t.same(await failure(t), { code: 'TUNNEL_LOST', delivery: 'none' })
  t.equal(tunnel.state, 'idle')
})
