import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import type { Forward } from '../../../src/call/call.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { startPool, startSessions } from './agent-side.ts'
import { FakeKas, type KasTunnel, listenAs } from './fake-kas.ts'

const method = '/test.Echo/Do'
const nothing = { trailers: {} }

/** Reads all messages, then sends them back. */
const echo: Forward = async (call) => {
  const all: Uint8Array[] = []
  for await (const message of call.messages) all.push(message)
  const messages = (async function* () {
    yield* all
  })()
  return { metadata: Promise.resolve({}), messages, done: Promise.resolve(nothing) }
}

async function start(t: Test, serve: Forward = echo, isReused = true) {
  const kas = new FakeKas({ reuse: true })
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  const pool = await startPool(t, sessions, { [method]: serve }, {}, { isReused: () => isReused })
  return { kas, pool }
}

/** Returns the kinds of the agent's messages until it waits for the next call or ends. */
async function readCall(tunnel: KasTunnel): Promise<string[]> {
  const kinds: string[] = []
  for (;;) {
    const message = await tunnel.next()
    kinds.push(message?.kind ?? 'EOF')
    if (!message || message.kind === 'descriptor') return kinds
  }
}

function begin(tunnel: KasTunnel, text: string): void {
  tunnel.begin(method)
  tunnel.message(Buffer.from(text))
}

t.test('the tunnel waits for the next call, and no other is opened in its place', async (t) => {
  const { kas, pool } = await start(t)
  const tunnel = await kas.take()
  for (let i = 0; i < 5; i++) {
    begin(tunnel, 'x')
    tunnel.closeSend()
    t.same(await readCall(tunnel), ['header', 'message', 'trailer', 'descriptor'])
  }
  // two at the start, ten more with the first call
  await eventually(() => assert.equal(kas.connects, 12))
  t.same(pool.counts, { idle: 12, active: 0, served: 5 })
})

t.test('a call that fails leaves the tunnel usable', async (t) => {
  const refuse: Forward = async (call) => {
    for await (const _ of call.messages);
    throw new KasError({ code: 'STATUS', grpc: 14, message: 'no cluster' })
  }
  const { kas } = await start(t, refuse)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  tunnel.closeSend()
  t.same(await readCall(tunnel), ['error', 'descriptor'])
})

t.test('a reply that is complete before kas has said all ends the tunnel, as a stock agent does', async (t) => {
  const hasty: Forward = async () => ({ ...(await echo({ messages: [] } as never)) })
  const { kas } = await start(t, hasty)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  t.same(await readCall(tunnel), ['header', 'trailer', 'EOF'])
  tunnel.end()
})

// wire: tunnel.shared
t.test('a kas that has not said it: one call, then the end', async (t) => {
  const { kas } = await start(t, echo, false)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  tunnel.closeSend()
  t.same(await readCall(tunnel), ['header', 'message', 'trailer', 'EOF'])
  tunnel.end()
})

t.test('a connection that kas leaves: the call is the last of its tunnel', async (t) => {
  const { kas } = await start(t)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  tunnel.stream.session.close()
  await eventually(() => assert.equal(kas.sessions.length, 2))
  tunnel.closeSend()
  t.same(await readCall(tunnel), ['header', 'message', 'trailer', 'EOF'])
  tunnel.end()
})

t.test('stopping: an idle tunnel that was used ends as any other', async (t) => {
  const { kas, pool } = await start(t)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  tunnel.closeSend()
  await readCall(tunnel)
  await pool.stop()
  t.same(pool.counts, { idle: 0, active: 0, served: 1 })
})

t.test('kas loses the tunnel during a call: another one takes its place', async (t) => {
  const { kas, pool } = await start(t)
  const tunnel = await kas.take()
  begin(tunnel, 'x')
  tunnel.fail(new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }))
  await eventually(() => assert.deepEqual(pool.counts, { idle: 12, active: 0, served: 1 }))
})
