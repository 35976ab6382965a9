import t, { type Test } from 'tap'
import { KnownMessages } from '../../src/call/known-messages.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, callThrough, readReply } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { knows, startWholeReplicas, type WholeReplica } from './whole-replica.ts'

const known = (...texts: string[]) => new KnownMessages(texts.map((text) => Buffer.from(text)))

async function agentAt(t: Test, replica: WholeReplica): Promise<FakeAgent> {
  const agent = await FakeAgent.dial(replica.agentsPort)
  t.teardown(() => agent.close())
  return agent
}

// wire: find.any-replica
t.test('a call that enters at a replica without the agent is carried by the one that holds it', async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const agent = await agentAt(t, holder)
  const infos: unknown[] = []
  for (let i = 0; i < 3; i++) void agent.open().serveEcho((info) => infos.push(info))
  await knows(entry, holder)
  for (const overrides of [
    { safety: 'safe' as const, messages: known('a', 'b') },
    { safety: 'unsafe' as const, messages: known('a', 'b') },
    {},
  ]) {
    const call = callOf(['a', 'b'], {
      metadata: { 'x-one': ['1', '2'], 'kas-wait': ['99'], 'kas-eager': ['1'] },
      ...overrides,
    })
    t.match(await readReply(await entry.forward(call)), {
      messages: ['a', 'b'],
      metadata: { served: ['yes'] },
      trailers: { ended: ['yes'] },
      error: undefined,
    })
  }
  t.strictSame(
    infos.map((info) => Object.entries((info as { meta: object }).meta)),
    Array.from({ length: 3 }, () => [['x-one', ['1', '2']]]),
    'the agent hears what the caller said, and nothing of the replicas',
  )
})

t.test("an agent's error is the same one at the entry", async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const agent = await agentAt(t, holder)
  for (const overrides of [{}, { safety: 'safe' as const, messages: known('a') }]) {
    const tunnel = agent.open()
    await knows(entry, holder)
    const reply = entry.forward(callOf(['a'], overrides))
    t.equal((await tunnel.next())?.kind, 'requestInfo')
    tunnel.error(7, 'not you')
    tunnel.stream.end()
    const { error } = await readReply(await reply)
    t.match(error, { code: 'STATUS', grpcCode: 7, message: 'not you' })
  }
})

t.test('a replica that gossip has lost ends the calls that it has', async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const { instance } = holder.replica.membership
  const agent = await agentAt(t, holder)
  const tunnel = agent.open()
  void tunnel.serveEcho()
  await knows(entry, holder)
  const second = Promise.withResolvers<void>()
  const messages = (async function* () {
    yield Buffer.from('a')
    await second.promise
    yield Buffer.from('b')
  })()
  const reply = await entry.forward(callOf([], { messages }))
  const echoes = reply.messages[Symbol.asyncIterator]()
  t.match(await echoes.next(), { value: Buffer.from('a') })
  await holder.replica.membership.stop()
  await eventually(() => entry.replica.membership.row(instance) === undefined, entry.replica.membership)
  t.equal(entry.links.link(instance), undefined, 'nothing new goes there')
  second.resolve()
  t.match(await echoes.next(), { value: Buffer.from('b') })
  t.match(await echoes.next(), { done: true })
  t.match(await reply.done, { error: undefined })
})

t.test('a tunnel that is lost is reported as that, and a safe call is routed again', async (t) => {
  const [entry, holder, other] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  const first = await agentAt(t, holder)
  const tunnel = first.open()
  await knows(entry, holder)
  const unsafe = entry.forward(callOf(['a']))
  await tunnel.next()
  first.close()
  const { error } = await readReply(await unsafe)
  t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })

  const second = await agentAt(t, holder)
  const doomed = second.open()
  await knows(entry, holder)
  const third = await agentAt(t, other)
  void third.open().serveEcho()
  await knows(entry, other)
  const safe = entry.forward(callOf([], { safety: 'safe', messages: known('x') }))
  void doomed.next().then(() => second.close())
  t.match(await readReply(await safe), { messages: ['x'], error: undefined })
})

t.test('no call waits while a tunnel of its agent is idle: 100 calls at a replica that holds none', async (t) => {
  const [entry, holder, other] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  for (const replica of [holder, other]) {
    const agent = await agentAt(t, replica)
    const serve = async (): Promise<void> => {
      const tunnel = agent.open()
      await tunnel.serveEcho()
      if (!agent.session.draining) await serve()
    }
    void serve()
    void serve()
    await knows(entry, replica)
  }
  const calls = Array.from({ length: 100 }, (_, i) =>
    callThrough(entry.forward, [`${i}`], i % 2 ? { safety: 'safe', messages: known(`${i}`) } : {}),
  )
  const replies = await Promise.all(calls)
  t.strictSame(
    replies.map(({ messages, error }) => error?.message ?? messages[0]),
    replies.map((_, i) => `${i}`),
  )
})

t.test('a method goes to a pod that serves it', async (t) => {
  const [entry, one, two] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  const left = await agentAt(t, one)
  const right = await agentAt(t, two)
  void left.open(['/a.A/A']).serveEcho()
  void right.open(['/b.B/B']).serveEcho()
  await knows(entry, one)
  await knows(entry, two)
  t.same((await callThrough(entry.forward, ['b'], { method: '/b.B/B' })).messages, ['b'])
  t.same((await callThrough(one.forward, ['a'], { method: '/a.A/A' })).messages, ['a'])
})

t.test(
  'a caller that says nothing at first is told to the agent all the same, and frees the tunnel by leaving',
  async (t) => {
    const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
    const agent = await agentAt(t, holder)
    const tunnel = agent.open()
    await knows(entry, holder)
    const controller = new AbortController()
    const messages = (async function* () {
      await new Promise(() => undefined)
      yield new Uint8Array(0)
    })()
    const reply = entry.forward(callOf([], { messages, signal: controller.signal }))
    t.match(await tunnel.next(), { kind: 'requestInfo', methodName: echoMethod })
    controller.abort()
    t.match((await readReply(await reply)).error, { code: 'CANCELLED' })
    t.equal(await tunnel.next(), undefined)
  },
)

// wire: tunnel.unused
t.test('of two tunnels that come at once for one call the other stays unused', async (t) => {
  const [entry, one, two] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  const agents = [await agentAt(t, one), await agentAt(t, two)]
  const busy = agents.map((agent) => agent.open())
  for (const holder of [one, two]) await knows(entry, holder)
  const running = busy.map(() => entry.forward(callOf([])))
  await Promise.all(busy.map((tunnel) => tunnel.next()))
  const waiting = callThrough(entry.forward, ['first'])
  while (one.tunnels.counts(agentId, echoMethod).waiting + two.tunnels.counts(agentId, echoMethod).waiting < 2) {
    await new Promise(setImmediate)
  }
  for (const agent of agents) void agent.open().serveEcho()
  t.same((await waiting).messages, ['first'])
  t.same((await callThrough(entry.forward, ['second'])).messages, ['second'])
  for (const agent of agents) agent.close()
  for (const reply of running) await readReply(await reply)
})

t.test('a tunnel that is lost between `ready` and its use: the call goes another way, whatever it does', async (t) => {
  const [entry, one, two] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  const infos: unknown[] = []
  let losses = 0
  for (const holder of [one, two]) {
    const agent = await agentAt(t, holder)
    for (let i = 0; i < 2; i++) void agent.open().serveEcho((info) => infos.push(info))
    await knows(entry, holder)
    const { tunnels } = holder
    const take = tunnels.take.bind(tunnels)
    tunnels.take = (...asked) => {
      const tunnel = take(...asked)
      if (tunnel && losses++ === 0) tunnel.connection.session.destroy()
      return tunnel
    }
  }
  t.match(await callThrough(entry.forward, ['a', 'b']), { messages: ['a', 'b'], error: undefined })
  t.equal(losses, 2)
  t.equal(infos.length, 1)
})

t.test('an agent that comes while a call waits gets it, wherever it comes', async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const reply = callThrough(entry.forward, ['late'])
  const agent = await agentAt(t, holder)
  void agent.open().serveEcho()
  t.same((await reply).messages, ['late'])
  const busy = agent.open()
  const first = entry.forward(callOf(['1']))
  await busy.next()
  const second = callThrough(entry.forward, ['2'])
  const here = await agentAt(t, entry)
  void here.open([echoMethod]).serveEcho()
  t.same((await second).messages, ['2'], 'its own tunnel came first')
  busy.send(encodeConnectRequest.header({}))
  busy.send(encodeConnectRequest.trailer({}))
  busy.stream.end()
  t.same((await readReply(await first)).messages, [])
})

t.test('a stranger with a certificate of its own is refused', async (t) => {
  const [one] = (await startWholeReplicas(t, 1)) as [WholeReplica]
  const [other] = (await startWholeReplicas(t, 1)) as [WholeReplica]
  const { dialReplica } = await import('../../src/kas/peers/dial-replica.ts')
  const { createReplicaIdentity } = await import('../../src/kas/peers/replica-identity.ts')
  const row = one.replica.membership.row(one.replica.membership.instance)
  const address = `127.0.0.1:${row?.head.replicaPort}`
  const identity = await createReplicaIdentity()
  const signal = new AbortController().signal
  const wrong = other.replica.membership.row(other.replica.membership.instance)?.head.publicKeyHash ?? ''
  await t.rejects(dialReplica({ address, publicKeyHash: wrong, identity }, signal), { code: 'TUNNEL_LOST' })
  const session = await dialReplica({ address, publicKeyHash: row?.head.publicKeyHash ?? '', identity }, signal)
  t.teardown(() => session.destroy())
  const stream = session.open({ method: echoMethod, metadata: { 'kas-agent-id': ['42'], 'kas-wait': ['0'] } })
  t.match(await stream.done, { error: { grpcCode: 16 }, trailers: { 'kas-tunnel': ['unknown'] } })
  await session.closed
  t.equal(one.strangers.count, 1)
})
