import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import { PublishedConnections } from '../../../src/kas/tunnels/published-connections.ts'
import { createLogger } from '../../../src/lib/log.ts'
import type { RowConnection } from '../../../src/membership/membership.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, callThrough, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { FakePlacement } from '../../support/fake-placement.ts'

/** A replica that leaves, as a stock agent sees it (doc/operate/operations.md "How a replica leaves"). */

async function start(t: Test, { listenGraceMs, peers = true }: { listenGraceMs: number; peers?: boolean }) {
  const placement = new FakePlacement()
  placement.peersServe = peers
  const row = new Map<string, RowConnection>()
  const own = {
    addConnection: (entry: RowConnection) => row.set(entry.id, entry).has(entry.id),
    removeConnection: (id: string) => void row.delete(id),
  }
  const published = new PublishedConnections({ row: own, log: createLogger({ level: 'silent' }) })
  const side = await startAgentsServer(t, { components: { placement, published }, options: { listenGraceMs } })
  const dial = async () => {
    const agent = await FakeAgent.dial(side.port)
    t.teardown(() => agent.close())
    return agent
  }
  const patience = new AbortController()
  t.teardown(() => patience.abort())
  return { ...side, placement, row, dial, leave: () => side.server.leave(patience.signal) }
}

t.test('with peers: one idle tunnel ends at GOAWAY, the rest serve a while, what runs goes on', async (t) => {
  const { forward, dial, row, leave } = await start(t, { listenGraceMs: 0 })
  const agent = await dial()
  const busy = agent.open()
  const running = callThrough(forward, ['begins here'])
  await busy.next()
  const [first, second, third] = [agent.open(), agent.open(), agent.open()]
  await agent.session.ping()
  await leave()
  t.equal((await first.done).error, undefined)
  t.equal(agent.session.draining, true)
  void second.serveEcho()
  t.same((await callThrough(forward, ['still here'])).messages, ['still here'])
  t.match([...row.values()], [{ methods: ['/test.Echo/Echo'] }], 'others may still ask')
  t.equal((await third.done).error, undefined)
  t.match([...row.values()], [{ methods: [] }], 'nobody needs to ask any more')
  busy.send(encodeConnectRequest.header({}))
  busy.message(Buffer.from('ends elsewhere in time'))
  busy.send(encodeConnectRequest.trailer({}))
  busy.stream.end()
  t.same((await running).messages, ['ends elsewhere in time'])
  await agent.session.closed
  await eventually(() => assert.equal(row.size, 0))
})

t.test('with peers: an agent that comes in the grace is served, and sent on', async (t) => {
  const { forward, dial, leave } = await start(t, { listenGraceMs: 1500 })
  const left = leave()
  const agent = await dial()
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['late'])).messages, ['late'])
  t.equal((await agent.open().done).error, undefined)
  t.equal(agent.session.draining, true)
  await left
})

t.test('while no other replica serves, agents stay; they go when one does', async (t) => {
  const { forward, dial, placement, leave } = await start(t, { listenGraceMs: 0, peers: false })
  const agent = await dial()
  const tunnel = agent.open()
  await agent.session.ping()
  await leave()
  void tunnel.serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
  t.equal(agent.session.draining, false)
  const idle = agent.open()
  await agent.session.ping()
  placement.peersServe = true
  placement.change(undefined)
  t.equal((await idle.done).error, undefined)
  t.equal(agent.session.draining, true)
})

t.test('a tunnel that a call took and gave back unused meanwhile ends too', async (t) => {
  const { dial, tunnels, server } = await start(t, { listenGraceMs: 0 })
  const agent = await dial()
  const tunnel = agent.open()
  await agent.session.ping()
  const taken = tunnels.take(callOf())
  assert(taken)
  for (const connection of server.connections) connection.retire()
  tunnels.giveBack(agentId, taken)
  t.equal((await tunnel.done).error, undefined)
  await agent.session.closed
})

t.test('alone: those that are here stay to the end; another is sent away at once', async (t) => {
  const { server, forward, port } = await startAgentsServer(t, { options: { listenGraceMs: 600_000 } })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  await agent.session.ping()
  const patience = new AbortController()
  const stopped = server.stop(patience.signal)
  const late = await FakeAgent.dial(port)
  t.teardown(() => late.close())
  await late.session.closed
  void tunnel.serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
  patience.abort()
  await stopped
})

t.test('idle tunnels end with OK when the shutdown grace is over by the time of stop, too', async (t) => {
  const side = await startAgentsServer(t, { options: { listenGraceMs: 0, shutdownGraceMs: 0 } })
  const agents = await Promise.all(Array.from({ length: 20 }, () => FakeAgent.dial(side.port)))
  for (const agent of agents) t.teardown(() => agent.close())
  const tunnels = agents.flatMap((agent) => Array.from({ length: 10 }, () => agent.open()))
  await Promise.all(agents.map(({ session }) => session.ping()))
  const patience = new AbortController()
  await side.server.leave(patience.signal)
  await side.server.stop(patience.signal)
  const ends = await Promise.all(tunnels.map(({ done }) => done))
  t.strictSame(
    ends.filter(({ error }) => error !== undefined),
    [],
  )
})

t.test('watches are let go one after another over their grace, then followed logs; all else runs on', async (t) => {
  const watchGraceMs = 100
  const side = await startAgentsServer(t, { options: { listenGraceMs: 0, watchGraceMs } })
  const agent = await FakeAgent.dial(side.port)
  t.teardown(() => agent.close())
  const ends: string[] = []
  const run = async (name: string, kind: { isWatch?: boolean; isLog?: boolean }) => {
    const tunnel = agent.open()
    const reply = await side.forward(callOf([], kind))
    await tunnel.next()
    tunnel.send(encodeConnectRequest.header({}))
    void readReply(reply).then(({ error }) => ends.push(`${name} ${error?.code}`))
    return tunnel
  }
  await run('log', { isLog: true })
  await run('watch', { isWatch: true })
  const exec = await run('exec', {})
  await run('watch', { isWatch: true })
  const patience = new AbortController()
  t.teardown(() => patience.abort())
  await side.server.leave(patience.signal)
  await eventually(() => assert.equal(ends.length, 3, ends.join()))
  t.same(ends, ['watch TUNNEL_LOST', 'watch TUNNEL_LOST', 'log TUNNEL_LOST'])
  exec.send(encodeConnectRequest.trailer({}))
  exec.stream.end()
  await eventually(() => assert.equal(ends.at(-1), 'exec undefined'))
})
