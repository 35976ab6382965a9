import { once } from 'node:events'
import http2 from 'node:http2'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { Call, Forward, Metadata, Outcome, Reply } from '../../../src/call/call.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { eventually } from '../../support/eventually.ts'
import { callUnary, connect, goodMetadata, openBidi, startRailsServer } from './start-server.ts'

const method = '/test.Agent/Method'
const for42 = { 'kas-hop-routing-agent-id': '42' }
const gzip = { 'grpc.default_compression_algorithm': 2 }

/** Returns a reply from the parts that the test gives. */
function replyOf(init: {
  metadata?: Metadata
  messages?: AsyncIterable<Uint8Array>
  outcome?: Outcome | Promise<Outcome>
}): Reply {
  return {
    metadata: Promise.resolve(init.metadata ?? {}),
    messages: init.messages ?? (async function* () {})(),
    done: Promise.resolve(init.outcome ?? { trailers: {} }),
  }
}

/** Sends each message back. */
const echo: Forward = async (call) => replyOf({ messages: call.messages })

/** Makes a call by plain HTTP/2. */
async function rawCall(t: Test, port: number, headers: Record<string, string> = {}) {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const authorization = (await goodMetadata()).get('authorization')[0] as string
  return session.request({
    ':method': 'POST',
    ':path': method,
    'content-type': 'application/grpc',
    authorization,
    ...for42,
    ...headers,
  })
}

async function start(t: Test, forward: Forward, options: grpc.ChannelOptions = {}) {
  const calls: Call[] = []
  const seen: Forward = (call) => {
    calls.push(call)
    return forward(call)
  }
  const { port, log, server } = await startRailsServer(t, { components: { forward: seen } })
  const client = connect(t, port, {
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
    ...options,
  })
  return { calls, client, log, server, port }
}

// wire: 8153.agent-call, find.any-method
t.test('a unary call for an agent, of whatever method, goes there as bytes and comes back', async (t) => {
  const { calls, client } = await start(t, async (call) =>
    replyOf({
      metadata: { served: ['yes'], 'data-bin': [Buffer.from([0, 255]).toString('base64')] },
      messages: call.messages,
      outcome: { trailers: { ended: ['one', 'two'] } },
    }),
  )
  const bytes = Buffer.from([0, 1, 2, 253, 254, 255])
  for (const path of [method, '/gitlab.agent.kubernetes_api.rpc.KubernetesApi/WatchGraph', '/x/constructor']) {
    const { code, response, headers, trailers } = await callUnary(client, path, bytes, await goodMetadata(for42))
    t.equal(code, grpc.status.OK, path)
    t.strictSame(response, bytes)
    t.strictSame(headers?.get('served'), ['yes'])
    t.strictSame(headers?.get('data-bin'), [Buffer.from([0, 255])])
    t.strictSame(trailers.get('ended').join(', '), 'one, two')
    t.strictSame(trailers.get('kas-delivery'), [], 'only errors need it')
    t.match(calls.at(-1), { agentId: 42n, method: path, safety: 'unsafe' })
  }
})

// wire: tunnel.metadata.hop, tunnel.metadata.jwt, tunnel.metadata.reserved, jwt.feature
t.test('metadata passes, but for hop keys, the JWT, and what belongs to gRPC', async (t) => {
  const { calls, client } = await start(t, async (call) =>
    replyOf({
      metadata: {
        kept: ['a'],
        'kas-hop-x': ['b'],
        'kas-tunnel': ['ready'],
        'content-type': ['text/plain'],
        'content-length': ['5'],
        connection: ['close'],
        te: ['gzip'],
        etag: ['1', '2'],
        'UPPER key': ['x'],
        line: ['a\nb', 'fine'],
        'grpc-encoding': ['nonsense'],
      },
      messages: call.messages,
      outcome: {
        trailers: {
          'grpc-status': ['7'],
          'grpc-message': ['forged'],
          'kas-delivery': ['none'],
          'transfer-encoding': ['chunked'],
          location: ['a', 'b'],
          end: ['here'],
        },
      },
    }),
  )
  const sent = await goodMetadata({
    ...for42,
    'kas-hop-anything': 'x',
    'kas-agent-id': '7',
    'kas-wait': '0',
    traceparent: '00-1-2-01',
    'kas-feature-kas-x': 'true',
    'id-bin': Buffer.from([1, 2, 200]),
  })
  const { code, headers, trailers } = await callUnary(client, method, Buffer.from('m'), sent)
  t.equal(code, grpc.status.OK)
  t.strictSame(
    { ...calls[0]?.metadata },
    {
      traceparent: ['00-1-2-01'],
      'kas-feature-kas-x': ['true'],
      'id-bin': [Buffer.from([1, 2, 200]).toString('base64')],
    },
  )
  const { kept, etag, line, ...more } = headers?.getMap() ?? {}
  t.strictSame({ kept, etag, line }, { kept: 'a', etag: '1', line: 'fine' })
  t.strictSame(
    Object.keys(more).filter((key) => key !== 'date' && key !== 'content-type'),
    [],
  )
  t.equal(trailers.getMap().end, 'here')
  t.equal(trailers.getMap()['kas-delivery'], undefined)
})

// wire: error.find.routing, 8153.EnsureEnvironment
t.test('a call must name its agent', async (t) => {
  const { calls, client } = await start(t, echo)
  const refused: [path: string, metadata: Record<string, string>, code: number, details: RegExp][] = [
    [method, {}, grpc.status.UNIMPLEMENTED, /unknown method \/test\.Agent\/Method/],
    [kubernetesApiMethod, {}, grpc.status.INVALID_ARGUMENT, /kas-hop-routing-agent-id is required/],
    ['/kas.replica.v1.Replica/PushEvent', for42, grpc.status.UNIMPLEMENTED, /unknown method/],
    ['/gitlab.agent.managed_resources.rpc.Provisioner/EnsureEnvironment', {}, grpc.status.UNIMPLEMENTED, /unknown/],
    ...['', 'x', '0', '-1', '4 2', '1,2', '9223372036854775808', '0x2a'].map(
      (id): [string, Record<string, string>, number, RegExp] => [
        method,
        { 'kas-hop-routing-agent-id': id },
        grpc.status.INVALID_ARGUMENT,
        /must be one agent id/,
      ],
    ),
  ]
  for (const [path, metadata, code, details] of refused) {
    const result = await callUnary(client, path, Buffer.from('m'), await goodMetadata(metadata))
    t.match(result, { code, details }, JSON.stringify(metadata))
    t.strictSame(result.trailers.get('kas-delivery'), ['none'])
  }
  t.equal(calls.length, 0)
  const largest = { 'kas-hop-routing-agent-id': '9223372036854775807' }
  await callUnary(client, method, Buffer.from('m'), await goodMetadata(largest))
  t.equal(calls[0]?.agentId, 2n ** 63n - 1n)
})

// wire: error.find.absent, error.find.leaving
t.test('an error comes with its status, its trailers, and how far the call got', async (t) => {
  const details = Buffer.from([8, 5])
  const status = (grpcCode: number) =>
    new KasError({ code: 'STATUS', grpc: grpcCode, message: 'größer % als', details })
  const replies: Record<string, () => Promise<Reply>> = {
    thrown: async () => {
      throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 })
    },
    notTaken: async () => {
      throw new KasError({ code: 'SHUTTING_DOWN' })
    },
    ofTheAgent: async () =>
      replyOf({ outcome: { error: status(9), trailers: { why: ['so'], 'kas-delivery': ['x'] } } }),
    withoutHeaders: async () => ({
      ...replyOf({ outcome: { error: status(5), trailers: {} } }),
      metadata: Promise.resolve(undefined),
    }),
    lost: async () =>
      replyOf({ outcome: { error: new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }), trailers: {} } }),
    fault: async () => {
      throw new TypeError('a secret detail')
    },
  }
  const { client } = await start(t, (call) => (replies[call.method.slice(3)] as () => Promise<Reply>)())
  const run = async (name: string) => {
    const {
      code,
      details: text,
      trailers,
    } = await callUnary(client, `/t/${name}`, Buffer.from('m'), await goodMetadata(for42))
    return { code, text, delivery: trailers.get('kas-delivery')[0], trailers }
  }
  const absent = 'Agent connection not found. Is agent up to date and connected?'
  t.match(await run('thrown'), { code: grpc.status.DEADLINE_EXCEEDED, text: absent, delivery: 'none' })
  t.match(await run('notTaken'), { code: grpc.status.UNAVAILABLE, text: 'kas is shutting down', delivery: 'none' })
  const ofTheAgent = await run('ofTheAgent')
  t.match(ofTheAgent, { code: 9, text: 'größer % als', delivery: 'maybe' })
  t.strictSame(ofTheAgent.trailers.get('why'), ['so'])
  t.strictSame(ofTheAgent.trailers.get('grpc-status-details-bin'), [details])
  t.match(await run('withoutHeaders'), { code: 5, delivery: 'maybe' })
  t.match(await run('lost'), { code: grpc.status.UNAVAILABLE, delivery: 'none' })
  t.match(await run('fault'), { code: grpc.status.INTERNAL, text: /^Internal error\. Trace ID: /, delivery: 'none' })
})

t.test('a bidirectional call: messages both ways as they come, half-close, and headers before the first', async (t) => {
  const { client } = await start(t, async (call) =>
    replyOf({
      metadata: { first: ['yes'] },
      messages: (async function* () {
        for await (const message of call.messages) yield Buffer.concat([Buffer.from('<'), message])
        yield Buffer.from('end')
      })(),
      outcome: { trailers: { ended: ['yes'] } },
    }),
  )
  const { stream, status, headers } = openBidi(client, method, await goodMetadata(for42))
  t.strictSame((await headers).get('first'), ['yes'], 'before any message was sent')
  const reader = stream[Symbol.asyncIterator]()
  for (const text of ['a', '', 'c']) {
    stream.write(Buffer.from(text))
    t.equal(String((await reader.next()).value), `<${text}`)
  }
  stream.end()
  t.equal(String((await reader.next()).value), 'end')
  t.ok((await reader.next()).done)
  const { code, metadata } = await status
  t.equal(code, grpc.status.OK)
  t.strictSame(metadata.get('ended'), ['yes'])
})

t.test('a deadline and a cancellation reach the agent', async (t) => {
  const reasons: unknown[] = []
  const aborted = () =>
    new Promise<void>((resolve) => {
      notify = resolve
    })
  let notify: () => void = () => undefined
  const { client } = await start(t, async (call) => {
    call.signal.addEventListener('abort', () => {
      reasons.push((call.signal.reason as KasError).code)
      notify()
    })
    const over = abortable(new Promise<never>(() => undefined), call.signal).catch(() => undefined)
    const messages = (async function* () {
      yield Buffer.from('first')
      await over
    })()
    const outcome = over.then(() => ({ error: call.signal.reason as KasError, trailers: {} }))
    return replyOf({ messages, outcome })
  })
  let told = aborted()
  const late = await callUnary(client, method, Buffer.from('m'), await goodMetadata(for42), {
    deadline: Date.now() + 80,
  })
  t.equal(late.code, grpc.status.DEADLINE_EXCEEDED)
  await told
  told = aborted()
  const { stream, status } = openBidi(client, method, await goodMetadata(for42))
  await once(stream, 'data')
  stream.cancel()
  t.equal((await status).code, grpc.status.CANCELLED)
  await told
  told = aborted()
  const lost = openBidi(client, method, await goodMetadata(for42))
  await once(lost.stream, 'data')
  client.close()
  lost.stream.cancel()
  await told
  t.match(reasons, [/DEADLINE_EXCEEDED|CANCELLED/, 'CANCELLED', 'CANCELLED'])
})

t.test('the deadline is the reason when it passes at the server', async (t) => {
  const { calls, port } = await start(t, async (call) => {
    await abortable(new Promise<never>(() => undefined), call.signal)
    throw new Error('not reached')
  })
  const stream = await rawCall(t, port, { 'grpc-timeout': '50m' })
  const [headers] = (await once(stream, 'response')) as [Record<string, string>]
  t.equal(headers['grpc-status'], String(grpc.status.DEADLINE_EXCEEDED))
  await eventually(() => (calls[0]?.signal.reason as KasError | undefined)?.code === 'DEADLINE_EXCEEDED')
})

t.test('messages up to 4 MiB pass, larger ones are refused on their call alone', async (t) => {
  const { client } = await start(t, echo)
  const other = openBidi(client, method, await goodMetadata(for42))
  const exact = Buffer.alloc(4 * 1024 * 1024, 'a')
  const { code, response } = await callUnary(client, method, exact, await goodMetadata(for42))
  t.equal(code, grpc.status.OK)
  t.ok(response?.equals(exact))
  const over = await callUnary(client, method, Buffer.alloc(exact.length + 1), await goodMetadata(for42))
  t.match(over, { code: grpc.status.RESOURCE_EXHAUSTED, details: /larger than max/ })
  other.stream.write(Buffer.from('still there'))
  t.equal(String((await once(other.stream, 'data'))[0]), 'still there')
  other.stream.end()
  t.equal((await other.status).code, grpc.status.OK)
})

t.test('an answer over 4 MiB is refused too', async (t) => {
  const { client } = await start(t, async () =>
    replyOf({
      messages: (async function* () {
        yield Buffer.alloc(4 * 1024 * 1024 + 1)
      })(),
    }),
  )
  const { code } = await callUnary(client, method, Buffer.from('m'), await goodMetadata(for42))
  t.equal(code, grpc.status.RESOURCE_EXHAUSTED)
})

t.test('compressed messages are accepted, bombs are not', async (t) => {
  const { calls, client } = await start(t, echo, gzip)
  const text = Buffer.from('compressible '.repeat(10_000))
  const { code, response } = await callUnary(client, method, text, await goodMetadata(for42))
  t.equal(code, grpc.status.OK)
  t.ok(response?.equals(text))
  t.equal(calls[0]?.metadata['grpc-encoding'], undefined)
  const bomb = await callUnary(client, method, Buffer.alloc(64 * 1024 * 1024), await goodMetadata(for42))
  t.match(bomb, { code: grpc.status.RESOURCE_EXHAUSTED, details: /decompresses to a size larger/ })
})

const chunk = Buffer.alloc(64 * 1024)
const many = 400 // 25 MiB

/** Resolves with the count when it has grown and no longer changes. */
function atRest(count: () => number): Promise<number> {
  let last = 0
  let rests = 0
  return eventually(() => {
    const now = count()
    rests = now > 0 && now === last ? rests + 1 : 0
    last = now
    if (rests < 10) throw new Error('still moving')
    return now
  })
}

t.test('an agent that nobody reads is slowed', async (t) => {
  let given = 0
  const { port } = await start(t, async () =>
    replyOf({
      messages: (async function* () {
        for (; given < many; given++) yield chunk
      })(),
    }),
  )
  // not by grpc-js, which reads everything that arrives
  const stream = await rawCall(t, port)
  t.ok((await atRest(() => given)) < 50, `${given} of ${many}`)
  let read = 0
  stream.on('data', (data: Buffer) => {
    read += data.length
  })
  await once(stream, 'end')
  t.equal(read, many * (chunk.length + 5), 'all came through')
})

t.test('a caller whom nobody reads is slowed', async (t) => {
  const gate = Promise.withResolvers<void>()
  let taken = 0
  const { client } = await start(t, async (call) =>
    replyOf({
      messages: (async function* () {
        await gate.promise
        for await (const message of call.messages) taken += message.length
        yield Buffer.from('thanks')
      })(),
    }),
  )
  const { stream, status } = openBidi(client, method, await goodMetadata(for42))
  let accepted = 0
  for (let i = 0; i < many; i++) stream.write(chunk, () => accepted++)
  stream.end()
  t.ok((await atRest(() => accepted)) < 50, `${accepted} of ${many}`)
  gate.resolve()
  stream.resume()
  t.equal((await status).code, grpc.status.OK)
  t.equal(taken, many * chunk.length, 'all came through')
})

t.test('a caller who leaves is noticed while nobody reads its messages', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const { client } = await start(t, async (call) => {
    await call.messages[Symbol.asyncIterator]().next() // the other messages stay unread
    call.signal.addEventListener('abort', () => left.resolve())
    arrived.resolve()
    await abortable(new Promise<never>(() => undefined), call.signal)
    throw new Error('not reached')
  })
  const { stream, status } = openBidi(client, method, await goodMetadata(for42))
  for (let i = 0; i < 40; i++) stream.write(Buffer.alloc(64 * 1024))
  await arrived.promise
  stream.cancel()
  t.equal((await status).code, grpc.status.CANCELLED)
  await left.promise
})
