import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { AgentCall, AgentMethod, MethodRate } from '../../../src/kas/agent-method.ts'
import { Code } from '../../../src/lib/errors.ts'
import { type AgentsDirectory, agentId, callThrough, oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { ManualClock, settle } from '../../support/manual-clock.ts'

/** Rates of an agent's calls. A call above the rate waits and delays no other agent. */

const method = '/test.v1.States/Push'
const rate: MethodRate = { perSecond: 10, burst: 20, cost: { call: 1, message: 1, kib: 1 } }
const evilId = 43n as AgentId

/** A directory with the agent of the token `good` and one of the token `evil`. */
function twoAgents(): AgentsDirectory {
  const one = oneAgent()
  const project = { id: 2n, path: 'evil/clusters' }
  const agentByToken: AgentsDirectory['agentByToken'] = async (token, ...rest) =>
    token === 'evil' ? { id: evilId, name: 'evil', project } : one.agentByToken(token, ...rest)
  return { ...one, agentByToken }
}

async function start(t: Test, methods?: Record<string, AgentMethod>) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const read = new Map<AgentId, number>()
  const serve = async ({ agent, messages }: AgentCall) => {
    for await (const _ of messages) read.set(agent.id, (read.get(agent.id) ?? 0) + 1)
  }
  const over: string[] = []
  const server = await startAgentsServer(t, {
    components: {
      directory: twoAgents(),
      methods: methods ?? { [method]: { type: 'client_stream', patient: true, rate, serve } },
      clock,
      log,
      onOverRate: (name, outcome) => over.push(`${name} ${outcome}`),
    },
  })
  const dial = async (token: string) => {
    const agent = await FakeAgent.dial(server.port, token)
    t.teardown(() => agent.close())
    const open = (name = method) =>
      agent.session.open({ method: name, metadata: { authorization: [`Bearer ${token}`] } })
    return { agent, open }
  }
  return { ...server, clock, lines, over, read, dial }
}

t.test('messages over the rate wait, also on other streams; those of another agent do not', async (t) => {
  const { clock, lines, over, read, dial } = await start(t)
  const [evil, good] = [await dial('evil'), await dial('good')]
  const streams = [evil.open(), evil.open()]
  for (let i = 0; i < 40; i++) for (const stream of streams) void stream.send(Buffer.alloc(1))
  await eventually(() => clock.pending === 2)
  const first = read.get(evilId) ?? 0
  t.ok(first > 10 && first < 20, `${first} of 80 are read`)
  const other = good.open()
  for (let i = 0; i < 10; i++) void other.send(Buffer.alloc(1))
  await eventually(() => read.get(agentId) === 10)
  clock.advance(1000)
  await eventually(() => clock.pending === 2)
  const later = (read.get(evilId) ?? 0) - first
  t.ok(later >= 8 && later <= 11, `${later} more in a second`)
  t.strictSame([...new Set(over)], ['States/Push slowed'])
  const warned = lines.filter(({ level }) => level === 'warn')
  t.strictSame(
    warned.map(({ agent_id, grpc_method }) => [agent_id, grpc_method]),
    [['43', 'States/Push']],
  )
  for (const stream of streams) stream.cancel()
  await eventually(() => clock.pending === 0)
})

t.test('who sends on regardless is not read: HTTP/2 makes him wait, too', async (t) => {
  const { clock, read, dial } = await start(t)
  const { open } = await dial('evil')
  const stream = open()
  let taken = 0
  for (let i = 0; i < 200; i++) void Promise.resolve(stream.send(Buffer.alloc(16 * 1024))).then(() => taken++)
  await eventually(() => clock.pending === 1)
  await settle(100)
  t.equal(read.get(evilId), 1)
  t.ok(taken < 200, `${taken} of 200 have left`)
  t.ok(stream.unsentBytes > 1024 * 1024, `${stream.unsentBytes} bytes wait at the agent`)
})

t.test('a call that would wait for too long is refused, and says why', async (t) => {
  const { clock, over, dial } = await start(t)
  const { agent, open } = await dial('evil')
  const busy = open()
  void busy.send(Buffer.alloc(400 * 1024))
  await eventually(() => clock.pending === 1)
  const { error } = await open().done
  t.match(error, {
    grpcCode: Code.RESOURCE_EXHAUSTED,
    message:
      /Too many calls and messages of States\/Push of this agent at this replica, in units a second, allowed: 10/,
  })
  t.strictSame(over, ['States/Push slowed', 'States/Push refused'])
  busy.cancel()
  clock.advance(60_000)
  const again = open()
  again.end()
  t.equal((await again.done).error, undefined)
  await agent.session.ping()
})

t.test('a call that waits for its turn begins, or ends with its agent', async (t) => {
  const { clock, dial } = await start(t)
  const [evil, gone] = [await dial('evil'), await dial('evil')]
  const calls = Array.from({ length: 30 }, () => {
    const call = evil.open()
    call.end()
    return call.done
  })
  await eventually(() => clock.pending === 10)
  gone.open()
  await eventually(() => clock.pending === 11)
  gone.agent.close()
  await eventually(() => clock.pending === 10)
  clock.advance(1000)
  t.ok((await Promise.all(calls)).every(({ error }) => error === undefined))
})

t.test('new connections and cancelled calls cost what others do; refused ones do not wait', async (t) => {
  const { clock, over, dial } = await start(t)
  const connections = [await dial('evil'), await dial('evil'), await dial('evil')]
  for (const { open } of connections) {
    const calls = Array.from({ length: 10 }, () => open())
    for (const call of calls) void call.send(Buffer.alloc(0))
    await settle(100)
    for (const call of calls) call.cancel()
  }
  await eventually(() => over.length > 0 && clock.pending === 0)
  const owing = (await dial('evil')).open()
  await eventually(() => clock.pending === 1)
  owing.cancel()
  await eventually(() => clock.pending === 0)
  clock.advance(60_000)
  const busy = (await dial('evil')).open()
  void busy.send(Buffer.alloc(400 * 1024))
  await eventually(() => clock.pending === 1)
  const { open } = await dial('evil')
  for (let i = 0; i < 50; i++) t.match((await open().done).error, { grpcCode: Code.RESOURCE_EXHAUSTED })
  t.equal(clock.pending, 1, 'none of them waits')
  const good = (await dial('good')).open()
  good.end()
  t.equal((await good.done).error, undefined)
})

t.test('three pods that come at once are not slowed, nor what their tunnels carry', async (t) => {
  const endless = async ({ messages, signal }: AgentCall) => {
    for await (const _ of messages);
    if (!signal.aborted) await once(signal, 'abort')
  }
  const each = { call: 1, message: 1, kib: 1 }
  const streams = ['/test.v1.Configuration/Get', '/test.v1.Files/Get', '/test.v1.Reports/Report']
  const poll: AgentMethod = {
    type: 'server_stream',
    patient: true,
    rate: { perSecond: 100, burst: 2000, cost: each },
    serve: endless,
  }
  const { clock, over, dial, forward, tunnels } = await start(
    t,
    Object.fromEntries(streams.map((name) => [name, poll])),
  )
  const pods = await Promise.all(Array.from({ length: 3 }, () => dial('good')))
  for (const { agent } of pods) {
    const first = agent.open()
    await eventually(() => tunnels.counts(agentId, '/test.Echo/Echo').idle === 1)
    await agent.session.ping() // after this the connection may have more streams
    first.stream.cancel()
    await eventually(() => tunnels.counts(agentId, '/test.Echo/Echo').idle === 0)
  }
  for (let storm = 0; storm < 2; storm++) {
    const opened = pods.flatMap(({ agent }) => Array.from({ length: 500 }, () => agent.open()))
    const polls = pods.flatMap(({ open }) => streams.map((name) => open(name)))
    for (const call of polls) {
      void call.send(Buffer.alloc(500))
      call.end()
    }
    await eventually(() => tunnels.counts(agentId, '/test.Echo/Echo').idle === 1500)
    for (const tunnel of opened.slice(0, 10)) void tunnel.serveEcho()
    if (storm === 0) {
      for (const tunnel of opened) tunnel.stream.cancel()
      for (const call of polls) call.cancel()
      await eventually(() => tunnels.counts(agentId, '/test.Echo/Echo').idle === 0)
    } else {
      for (const tunnel of opened.slice(10)) void tunnel.serveEcho()
      const body = Array.from({ length: 20 }, () => Buffer.alloc(1024 * 1024))
      t.equal((await callThrough(forward, body)).messages.length, 20)
    }
  }
  t.strictSame(over, [], 'time stands still, and nothing waits')
  t.equal(clock.pending, 0)
})
