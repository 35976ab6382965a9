import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { callOf, callThrough, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { echoMethod, FakeAgent } from '../../support/fake-agent.ts'

// wire: find.waits
t.test('a call waits for its agent, and goes on as soon as a tunnel comes', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const running = callThrough(forward, ['early'])
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  t.same((await running).messages, ['early'])
})

t.test('waiting calls are served first in, first out', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const order: string[] = []
  const calls = ['1', '2', '3'].map(async (name) => {
    const reply = await forward(callOf([name]))
    order.push(name)
    return readReply(reply)
  })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  for (let i = 0; i < 3; i++) void agent.open().serveEcho()
  await Promise.all(calls)
  t.same(order, ['1', '2', '3'])
})

// wire: find.burst
t.test('500 calls at once against 2 tunnels: all are served', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const serve = async () => {
    for (let open = true; open; ) {
      const tunnel = agent.open()
      await tunnel.serveEcho()
      open = !agent.session.draining
    }
  }
  void serve()
  void serve()
  const replies = await Promise.all(Array.from({ length: 500 }, (_, i) => callThrough(forward, [String(i)])))
  t.same(
    replies.flatMap((r) => r.messages),
    Array.from({ length: 500 }, (_, i) => String(i)),
  )
})

// wire: tunnel.method
t.test(
  'a call goes only to a tunnel that serves its method, and an unknown method waits for one that does',
  async (t) => {
    const { forward, tunnels, port } = await startAgentsServer(t)
    const agent = await FakeAgent.dial(port)
    t.teardown(() => agent.close())
    agent.open(['/test.Other/Method'])
    await agent.session.ping()
    t.equal(tunnels.take(callOf()), undefined)
    const running = callThrough(forward, ['x'])
    void agent.open([echoMethod]).serveEcho()
    t.same((await running).messages, ['x'])
  },
)

// wire: error.find.absent
t.test('nobody holds the agent: the text that agentk and UI users know', async (t) => {
  const { forward, port, timeouts } = await startAgentsServer(t, { findTimeoutMs: 50 })
  await t.rejects(forward(callOf([], { agentId: 7n as AgentId })), {
    code: 'AGENT_NOT_CONNECTED',
    message: 'Agent connection not found. Is agent up to date and connected?',
  })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  const busy = agent.open()
  const running = await forward(callOf(['x']))
  await t.rejects(forward(callOf([])), { code: 'AGENT_SATURATED' }, 'connected and busy is told apart')
  t.equal(timeouts.count, 2)
  void busy.serveEcho()
  await readReply(running)
})

// wire: find.caller-leaves
t.test('a caller that leaves while it waits takes no tunnel', async (t) => {
  const { forward, tunnels, port } = await startAgentsServer(t)
  const caller = new AbortController()
  const waiting = forward(callOf([], { signal: caller.signal }))
  caller.abort(new KasError({ code: 'CANCELLED', detail: 'gone' }))
  await t.rejects(waiting, { code: 'CANCELLED', message: 'gone' })
  const agent = await FakeAgent.dial(port)
  t.teardown(() => agent.close())
  agent.open()
  await agent.session.ping()
  t.ok(tunnels.take(callOf()), 'the tunnel stayed idle')
})

t.test('a wait for somebody who has left is none', async (t) => {
  const { tunnels } = await startAgentsServer(t)
  const left = new KasError({ code: 'CANCELLED', detail: 'gone' })
  await t.rejects(tunnels.wait(callOf(), AbortSignal.abort(left)), { message: 'gone' })
})

t.test('calls spread over the pods of an agent', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const served = new Map<string, number>()
  for (const pod of ['a', 'b']) {
    const agent = await FakeAgent.dial(port)
    t.teardown(() => agent.close())
    const serve = async () => {
      for (let open = true; open; ) {
        await agent.open().serveEcho(() => served.set(pod, (served.get(pod) ?? 0) + 1))
        open = !agent.session.draining
      }
    }
    void serve()
    void serve()
    await agent.session.ping()
  }
  for (let i = 0; i < 20; i++) await callThrough(forward, ['x'])
  t.ok((served.get('a') ?? 0) >= 5 && (served.get('b') ?? 0) >= 5, JSON.stringify([...served]))
})
