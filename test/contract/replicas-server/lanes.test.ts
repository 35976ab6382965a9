import t, { type Test } from 'tap'
import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../../src/call/call.ts'
import type { Caller } from '../../../src/call/caller.ts'
import { KnownMessages } from '../../../src/call/known-messages.ts'
import { dialReplica } from '../../../src/kas/peers/dial-replica.ts'
import { type HandOver, handOverKeys } from '../../../src/kas/peers/hand-over-metadata.ts'
import { HandOverStream } from '../../../src/kas/peers/hand-over-stream.ts'
import { Lanes } from '../../../src/kas/peers/lanes.ts'
import type { Tunnel } from '../../../src/kas/tunnels/tunnel.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { laneMethod } from '../../../src/proto/grpc/lane-frames.ts'
import { agentId, callOf, readReply } from '../../support/agents-server.ts'
import { echoMethod } from '../../support/fake-agent.ts'
import { idleTunnel } from '../../support/idle-tunnel.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startReplicasServer } from '../../support/replicas-server.ts'

/** The second hop alone: hand-overs of an entry replica on lanes to a replica. The test answers for the agent. */

const ok: Outcome = { trailers: noMetadata }

function replyOf(
  text: string,
  outcome: Outcome = ok,
  head: Promise<Metadata | undefined> = Promise.resolve({}),
): Reply {
  const messages = (async function* (): AsyncGenerator<Uint8Array> {
    if (text !== '') yield Buffer.from(text)
  })()
  return { metadata: head, messages, done: Promise.resolve(outcome) }
}

/** Returns the agent's reply to a call. */
type Agent = (call: Call) => Reply | Promise<Reply>

/** Replies with the messages of the call. */
const echo: Agent = async ({ messages }) => {
  let said = ''
  for await (const message of messages) said += Buffer.from(message).toString()
  return replyOf(said)
}

async function hop(t: Test, agent: Agent = echo) {
  const members = { areKnown: true }
  const { server, identity, tunnels } = await startReplicasServer(t, {
    components: { isKnown: () => members.areKnown },
    patience: AbortSignal.abort(),
  })
  const { publicKeyHash } = identity
  const address = `127.0.0.1:${server.address.port}`
  const session = await dialReplica({ address, publicKeyHash, identity }, new AbortController().signal)
  t.teardown(() => session.destroy())
  const opened: string[] = []
  const open = session.open.bind(session)
  session.open = (options) => {
    opened.push(options.method)
    return open(options)
  }
  const lanes = new Lanes({ session, clock: new ManualClock() })
  /** Adds one more idle tunnel. */
  const addTunnel = () => {
    const tunnel = tunnelOf(agent)
    tunnels.add(agentId, tunnel)
    return tunnel
  }
  const offer = (handOver: Partial<HandOver> = {}, overrides: Partial<Call> = {}) => {
    const call = callOf([], { messages: new KnownMessages([Buffer.from('a'), Buffer.from('b')]), ...overrides })
    const stream = new HandOverStream(lanes, call, {
      agentId,
      waitMs: 0,
      eager: false,
      caller: call.caller,
      isWatch: false,
      isLog: false,
      ...handOver,
    })
    if (handOver.eager) void stream.send(call)
    const forward = () => {
      if (!handOver.eager) void stream.send(call)
      return readReply(stream.reply(call))
    }
    return { stream, forward, answer: stream.answer }
  }
  return { server, session, members, opened, addTunnel, offer }
}

function tunnelOf(agent: Agent): Tunnel {
  return idleTunnel(echoMethod, (call): Reply => {
    const reply = Promise.resolve(agent(call))
    const messages = (async function* () {
      yield* (await reply).messages
    })()
    return { metadata: reply.then(({ metadata }) => metadata), messages, done: reply.then(({ done }) => done) }
  })
}

/** Returns a hop with an idle lane; the peer has announced that it serves lanes. */
async function warm(t: Test, agent?: Agent) {
  const side = await hop(t, agent)
  for (let before = -1; before !== side.opened.length; await new Promise(setImmediate)) {
    before = side.opened.length
    t.equal(await side.offer().answer, 'none')
  }
  side.opened.length = 0
  return side
}

t.test('no tunnel, one at once, one that comes later, an eager call: all on one lane', async (t) => {
  const infos: Call[] = []
  const { offer, addTunnel, opened } = await warm(t, (call) => {
    infos.push(call)
    return echo(call)
  })
  for (let i = 0; i < 3; i++) {
    t.equal(await offer().answer, 'none')
    t.equal(await offer({ eager: true }).answer, 'none')
    addTunnel()
    const now = offer()
    t.equal(await now.answer, 'ready')
    t.match(await now.forward(), { messages: ['ab'], error: undefined })
    const later = offer({ waitMs: 5000 })
    addTunnel()
    t.equal(await later.answer, 'ready')
    t.match(await later.forward(), { messages: ['ab'], error: undefined })
    addTunnel()
    const eager = offer({ eager: true }, { metadata: { 'x-one': ['1', '2'], 'kas-wait': ['99'] } })
    t.equal(await eager.answer, 'ready')
    t.match(await eager.forward(), { messages: ['ab'], error: undefined })
  }
  t.same(opened, [])
  t.equal(infos.length, 9)
  t.strictSame({ ...infos[8]?.metadata }, { 'x-one': ['1', '2'] })
  t.notOk(handOverKeys.some((key) => infos.some(({ metadata }) => key in metadata)))
})

t.test('a call on a stream of its own is refused, and reaches no agent', async (t) => {
  let calls = 0
  const { session, addTunnel } = await hop(t, (call) => {
    calls++
    return echo(call)
  })
  addTunnel()
  const metadata = { 'kas-agent-id': [String(agentId)], 'kas-wait': ['0'], 'kas-eager': ['1'], 'kas-caller': ['kas'] }
  const stream = session.open({ method: echoMethod, metadata })
  stream.end()
  t.match((await stream.done).error, { grpcCode: 12 })
  t.equal(calls, 0)
})

t.test('the holder knows who calls and which user is behind, and the agent is not told', async (t) => {
  const calls: Call[] = []
  const { offer, addTunnel } = await warm(t, (call) => {
    calls.push(call)
    return echo(call)
  })
  const callers: readonly Caller[] = [{ key: 'user-7' }, { key: 'project-3', userKey: 'user-7' }]
  for (const eager of [false, true]) {
    for (const caller of callers) {
      addTunnel()
      const one = offer({ caller, eager })
      t.equal(await one.answer, 'ready')
      t.match(await one.forward(), { messages: ['ab'], error: undefined })
      t.strictSame(calls.at(-1)?.caller, caller)
      t.strictSame({ ...calls.at(-1)?.metadata }, {})
    }
  }
})

t.test('an eager call whose reply takes its time is announced', async (t) => {
  const head = Promise.withResolvers<Metadata>()
  const { offer, addTunnel, opened } = await warm(t, () => replyOf('late', ok, head.promise))
  addTunnel()
  const eager = offer({ eager: true })
  t.equal(await eager.answer, 'ready')
  head.resolve({ served: ['yes'] })
  t.match(await eager.forward(), { messages: ['late'], metadata: { served: ['yes'] } })
  t.same(opened, [])
})

t.test('the error of the agent, and one of kas, are the same ones at the entry', async (t) => {
  const errors = [
    new KasError({ code: 'STATUS', grpc: 7, message: 'not you', details: Buffer.from('why') }),
    new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }),
  ]
  for (const error of errors) {
    const head = Promise.resolve(undefined)
    const { offer, addTunnel, opened } = await warm(t, () =>
      replyOf('', { error, trailers: { said: ['by it'] } }, head),
    )
    for (const eager of [false, true]) {
      addTunnel()
      const one = offer({ eager })
      t.equal(await one.answer, 'ready')
      const told = await one.forward()
      t.match(told.error?.spec, error.spec.code === 'STATUS' ? { grpc: 7, message: 'not you' } : error.spec)
      t.same(told.trailers.said, ['by it'])
    }
    t.same(opened, [])
  }
})

t.test('an entry that gives up before it decides: the tunnel goes back, and nothing reached the agent', async (t) => {
  let calls = 0
  const { offer, addTunnel } = await warm(t, (call) => {
    calls++
    return echo(call)
  })
  const tunnel = addTunnel()
  const one = offer()
  t.equal(await one.answer, 'ready')
  one.stream.cancel()
  while (tunnel.state !== 'idle') await new Promise(setImmediate)
  t.equal(calls, 0)
  const next = offer()
  t.equal(await next.answer, 'ready')
  t.match(await next.forward(), { messages: ['ab'] })
})

t.test('a peer that is no member any more is refused on its lanes too', async (t) => {
  const { offer, addTunnel, members, opened } = await warm(t)
  addTunnel()
  members.areKnown = false
  t.equal(await offer().answer, 'unknown')
  t.equal(await offer({ eager: true }).answer, 'unknown')
  members.areKnown = true
  const one = offer()
  t.equal(await one.answer, 'ready')
  t.match(await one.forward(), { messages: ['ab'] })
  t.same(opened, [])
})

t.test('a holder that stops: the call that runs ends in order, then the connection does', async (t) => {
  const go = Promise.withResolvers<void>()
  const { offer, addTunnel, server, session } = await warm(t, async (call) => {
    await go.promise
    return await echo(call)
  })
  addTunnel()
  const running = offer()
  t.equal(await running.answer, 'ready')
  const reply = running.forward()
  const waiting = offer({ waitMs: 5000 })
  await new Promise((resolve) => session.ping().then(resolve)) // the request has arrived
  const stopped = server.stop(new AbortController().signal)
  t.equal(await waiting.answer, 'none')
  go.resolve()
  t.match(await reply, { messages: ['ab'], error: undefined })
  await stopped
  await session.closed
})

t.test('a holder that is cut: what was sent may have arrived, what was not has not', async (t) => {
  const { offer, addTunnel, session } = await warm(t, () => new Promise<Reply>(() => undefined))
  addTunnel()
  addTunnel()
  const [sent, unsent] = [offer(), offer()]
  t.same(await Promise.all([sent.answer, unsent.answer]), ['ready', 'ready'])
  const reply = sent.forward()
  session.destroy()
  t.match((await reply).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.match((await unsent.forward()).error?.spec, { code: 'TUNNEL_LOST', delivery: 'none' })
})

t.test('a lane is no method of an agent', async (t) => {
  const { session, opened } = await warm(t)
  const stream = session.open({ method: laneMethod.toLowerCase() })
  t.match((await stream.done).error, { grpcCode: 12 })
  t.same(opened, [laneMethod.toLowerCase()])
})
