import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import type { AgentId, Metadata } from '../../../src/call/call.ts'
import { PublishedConnections } from '../../../src/kas/tunnels/published-connections.ts'
import { createLogger } from '../../../src/lib/log.ts'
import type { RowConnection } from '../../../src/membership/membership.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { agentId, callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent, type FakeTunnel } from '../../support/fake-agent.ts'
import { FakePlacement } from '../../support/fake-placement.ts'

/** Hints that kas sends to agents about their place (doc/internals/agentk-placement.md). */

const announced = { 'kas-features': ['home,ping'], 'kas-pod': ['pod-a'] }

async function start(t: Test, settleMs = 1) {
  const placement = new FakePlacement()
  const row = new Map<string, RowConnection>()
  const published = new PublishedConnections({
    row: {
      addConnection: (entry) => row.set(entry.id, entry).has(entry.id),
      removeConnection: (id) => void row.delete(id),
    },
    log: createLogger({ level: 'silent' }),
  })
  const side = await startAgentsServer(t, {
    components: { placement, published },
    options: { hints: { settleMs, spreadMs: 1, features: ['views', 'another'] } },
  })
  const dial = async (metadata: Record<string, string[]> = announced) => {
    const agent = await FakeAgent.dial(side.port, 'good', metadata)
    t.teardown(() => agent.close())
    return agent
  }
  return { ...side, placement, row, dial }
}

const ours = (metadata: Metadata = {}) =>
  Object.fromEntries(Object.entries(metadata).filter(([name]) => name.startsWith('kas-')))

/** Returns the response headers that have come by now, or 'nothing'. Three other calls are answered meanwhile. */
async function receivedNow(agent: FakeAgent, tunnel: FakeTunnel): Promise<Metadata | 'nothing'> {
  let received: Metadata | 'nothing' = 'nothing'
  void tunnel.stream.metadata.then((metadata) => {
    received = metadata ?? 'nothing'
  })
  for (let i = 0; i < 3; i++) await agent.session.open({ method: '/test.No/Such' }).done
  return received
}

t.test('an agent that takes hints gets them at once: home, standby, addresses, PINGs', async (t) => {
  const { placement, dial } = await start(t)
  placement.placed = {
    home: { name: 'kas-1', address: 'wss://kas-1.example.com' },
    standby: { name: 'kas-2', address: 'wss://kas-2.example.com' },
  }
  const agent = await dial()
  t.strictSame(ours(await agent.open().stream.metadata), {
    'kas-ping-interval-ms': ['5000'],
    'kas-features': ['reuse,views,another'],
    'kas-replica': ['kas-0'],
    'kas-home': ['kas-1'],
    'kas-home-address': ['wss://kas-1.example.com'],
    'kas-standby': ['kas-2'],
    'kas-standby-address': ['wss://kas-2.example.com'],
  })
})

t.test('once a connection; hints do not end the tunnel, which carries its call', async (t) => {
  const { dial, forward } = await start(t)
  const agent = await dial()
  const first = agent.open()
  t.strictSame(ours(await first.stream.metadata), {
    'kas-ping-interval-ms': ['5000'],
    'kas-features': ['reuse,views,another'],
    'kas-replica': ['kas-0'],
    'kas-home': ['kas-0'],
  })
  const second = agent.open()
  t.equal(await receivedNow(agent, second), 'nothing')
  void first.serveEcho()
  void second.serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
  t.same((await callThrough(forward, ['y'])).messages, ['y'])
})

t.test('a call that waits for the tunnel does not get in its way', async (t) => {
  const { dial, forward } = await start(t)
  const reply = callThrough(forward, ['early'])
  const agent = await dial()
  const tunnel = agent.open()
  void tunnel.serveEcho()
  t.same((await reply).messages, ['early'])
  t.match(await tunnel.stream.metadata, { 'kas-home': ['kas-0'] })
})

const strangers: Record<string, Record<string, string[]>> = {
  'a stock agent': {},
  'another feature': { ...announced, 'kas-features': ['ping'] },
  'no pod': { 'kas-features': ['home,ping'] },
  'a pod that is no name': { 'kas-features': ['home,ping'], 'kas-pod': ['Ä/..'] },
  'a pod of 300 letters': { 'kas-features': ['home,ping'], 'kas-pod': ['a'.repeat(300)] },
}
for (const [name, metadata] of Object.entries(strangers)) {
  t.test(`${name}: nothing is sent on an idle tunnel, not even after a change`, async (t) => {
    const { dial, placement, row } = await start(t)
    const agent = await dial(metadata)
    const tunnel = agent.open()
    let ended = false
    void tunnel.done.then(() => {
      ended = true
    })
    t.equal(await receivedNow(agent, tunnel), 'nothing')
    placement.change({ home: { name: 'kas-9' } })
    const other = await dial()
    await other.open().stream.metadata
    t.equal(await receivedNow(agent, tunnel), 'nothing')
    t.notOk(ended)
    t.match([...row.values()][0], { agentId, pod: '', role: 'home' })
  })
}

t.test('a change ends one idle tunnel with OK; the next Connect has the new hints', async (t) => {
  const { dial, placement } = await start(t)
  const agent = await dial()
  const tunnels = [agent.open(), agent.open()]
  await tunnels[0]?.stream.metadata
  await receivedNow(agent, tunnels[1] as FakeTunnel)
  placement.change({ home: { name: 'kas-1' } })
  const outcome = await Promise.race(tunnels.map(({ done }) => done))
  t.equal(outcome.error, undefined)
  t.match(await agent.open().stream.metadata, { 'kas-home': ['kas-1'] })
  let both = false
  void Promise.all(tunnels.map(({ done }) => done)).then(() => {
    both = true
  })
  await agent.session.ping()
  t.notOk(both, 'the other one stays')
})

t.test('a change that changes nothing for the pod, or is taken back, costs nothing', async (t) => {
  const { dial, placement } = await start(t)
  const agent = await dial()
  const tunnel = agent.open()
  await tunnel.stream.metadata
  let ended = false
  void tunnel.done.then(() => {
    ended = true
  })
  const other = await dial({ ...announced, 'kas-pod': ['pod-b'] })
  const witness = other.open()
  await witness.stream.metadata
  placement.change({ home: { name: 'kas-1' } }, new Set([7n as AgentId]))
  placement.change({ home: { name: 'kas-1' } })
  placement.others = { home: { name: 'kas-1' } }
  placement.change({ home: { name: 'kas-0' } })
  t.equal((await witness.done).error, undefined)
  t.notOk(ended)
})

t.test('a replica that leaves waits for nothing: all get new hints at once', async (t) => {
  const { dial, placement, server } = await start(t, 3_600_000)
  const agents = [await dial(), await dial(), await dial()]
  const tunnels = agents.map((agent) => agent.open())
  for (const { stream } of tunnels) await stream.metadata
  placement.change({ home: { name: 'kas-1' } })
  await server.leave()
  for (const tunnel of tunnels) t.equal((await tunnel.done).error, undefined)
  const again = await agents[0]?.open().stream.metadata
  t.match(again, { 'kas-home': ['kas-1'], 'kas-features': ['reuse,views,another,leaving'] })
})

t.test('the row tells pod and role, as the last Connect had it', async (t) => {
  const { row, dial } = await start(t)
  const agent = await dial({ ...announced, 'kas-role': ['standby'] })
  await agent.open().stream.metadata
  t.match([...row.values()], [{ pod: 'pod-a', role: 'standby', methods: ['/test.Echo/Echo'] }])
  const second = await dial(announced)
  await second.open().stream.metadata
  t.match([...row.values()].at(-1), { pod: 'pod-a', role: 'home' })
  agent.close()
  await eventually(() => assert.equal(row.size, 1))
  second.close()
  await eventually(() => assert.equal(row.size, 0))
})

t.test('an agent that leaves by GOAWAY: idle tunnels end with OK, a running call goes on', async (t) => {
  const { dial, forward } = await start(t)
  const agent = await dial()
  const busy = agent.open()
  const reply = callThrough(forward, ['still served'])
  await busy.next()
  const idle = agent.open()
  await agent.session.ping()
  agent.session.close()
  t.equal((await idle.done).error, undefined)
  busy.send(encodeConnectRequest.header({}))
  busy.message(Buffer.from('still served'))
  busy.send(encodeConnectRequest.trailer({}))
  busy.stream.end()
  t.same((await reply).messages, ['still served'])
})
