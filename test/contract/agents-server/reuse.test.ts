import t, { type Test } from 'tap'
import { Code } from '../../../src/lib/errors.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { callOf, callThrough, oneAgent, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { echoMethod, FakeAgent, type FakeTunnel } from '../../support/fake-agent.ts'

const announced = { 'kas-features': ['home,reuse'], 'kas-pod': ['pod-a'] }

async function start(t: Test, metadata: Record<string, string[]> = announced) {
  const server = await startAgentsServer(t)
  const agent = await FakeAgent.dial(server.port, 'good', metadata)
  t.teardown(() => agent.close())
  return { ...server, agent }
}

/** Answers one call with `text` and announces that the tunnel waits for the next. @returns name of the method */
async function answer(tunnel: FakeTunnel, text: string): Promise<string> {
  const info = await tunnel.next()
  for (let message = await tunnel.next(); message?.kind !== 'closeSend'; message = await tunnel.next());
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(Buffer.from(text))
  tunnel.send(encodeConnectRequest.trailer({ of: [text] }))
  tunnel.describe([])
  return info?.kind === 'requestInfo' ? info.methodName : 'no call'
}

t.test('one tunnel carries one call after another, and kas says that it may', async (t) => {
  const { agent, forward, tunnels } = await start(t)
  const tunnel = agent.open()
  t.same((await tunnel.stream.metadata)?.['kas-features'], ['reuse'])
  for (const text of ['one', 'two', 'three']) {
    const [reply, method] = await Promise.all([callThrough(forward, ['x', 'y']), answer(tunnel, text)])
    t.same([reply.messages, reply.trailers, method], [[text], { of: [text] }, echoMethod])
  }
  t.same([tunnels.agentCount, agent.session.draining], [1, false])
})

t.test('a call that waits gets the tunnel as soon as the one before has ended', async (t) => {
  const { agent, forward } = await start(t)
  const tunnel = agent.open()
  const calls = Promise.all(['a', 'b', 'c', 'd'].map((text) => callThrough(forward, [text])))
  for (let i = 0; i < 4; i++) await answer(tunnel, String(i))
  t.same((await calls).flatMap(({ messages }) => messages).sort(), ['0', '1', '2', '3'])
})

t.test('an error ends the call, and the tunnel goes on', async (t) => {
  const { agent, forward } = await start(t)
  const tunnel = agent.open()
  const failing = callThrough(forward, ['x'])
  for (let message = await tunnel.next(); message?.kind !== 'closeSend'; message = await tunnel.next());
  tunnel.error(Code.UNAVAILABLE, 'no cluster')
  tunnel.describe([])
  t.equal((await failing).error?.message, 'no cluster')
  const [reply] = await Promise.all([callThrough(forward, ['x']), answer(tunnel, 'now')])
  t.same(reply.messages, ['now'])
})

t.test('a call that is cancelled costs its tunnel', async (t) => {
  const { agent, forward } = await start(t)
  const tunnel = agent.open()
  const caller = new AbortController()
  const running = forward(callOf(['x'], { signal: caller.signal }))
  await tunnel.next()
  caller.abort()
  t.equal((await readReply(await running)).error?.grpcCode, Code.CANCELLED)
  t.equal((await tunnel.done).error?.grpcCode, Code.CANCELLED)
})

t.test('ready for the next while the caller still speaks: INVALID_ARGUMENT', async (t) => {
  const { agent, forward } = await start(t)
  const tunnel = agent.open()
  const endless = (async function* () {
    yield Buffer.from('x')
    await new Promise(() => undefined)
  })()
  const running = forward(callOf([], { messages: endless })).then(readReply)
  await tunnel.next()
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.send(encodeConnectRequest.trailer({}))
  tunnel.describe([])
  t.equal((await running).error?.grpcCode, Code.INVALID_ARGUMENT)
  t.equal((await tunnel.done).error?.grpcCode, Code.INVALID_ARGUMENT)
})

t.test('an agent that did not announce it must end its tunnel', async (t) => {
  const { agent, forward } = await start(t, {})
  const tunnel = agent.open()
  const running = callThrough(forward, ['x'])
  await answer(tunnel, 'late')
  const { error } = await running
  t.match(error?.message, /forbidden transition from trailer to descriptor, allowed: error, EOF/)
  t.equal((await tunnel.done).error?.grpcCode, Code.INVALID_ARGUMENT)
})

t.test('the directory changed during a call: its tunnel ends with OK, so that the token is shown again', async (t) => {
  let changed: () => void = () => undefined
  const directory = {
    ...oneAgent(),
    onChange(listener: () => void) {
      changed = listener
      return () => undefined
    },
  }
  const { forward, port } = await startAgentsServer(t, { components: { directory } })
  const agent = await FakeAgent.dial(port, 'good', announced)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const running = callThrough(forward, ['x'])
  const info = await tunnel.next()
  t.equal(info?.kind, 'requestInfo')
  changed()
  for (let message = await tunnel.next(); message?.kind !== 'closeSend'; message = await tunnel.next());
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.send(encodeConnectRequest.trailer({}))
  tunnel.describe([])
  t.equal((await running).error, undefined)
  t.equal((await tunnel.done).error, undefined)
})

t.test('replaced tunnels are free of the rate limit, calls on one tunnel give nothing away', async (t) => {
  const { port, forward } = await startAgentsServer(t, { options: { authenticator: { callsPerTokenPerMinute: 3 } } })
  const agent = await FakeAgent.dial(port, 'good', announced)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  for (const text of ['one', 'two', 'three']) await Promise.all([callThrough(forward, ['x']), answer(tunnel, text)])
  agent.open()
  agent.open()
  t.equal((await agent.open().done).error?.grpcCode, Code.RESOURCE_EXHAUSTED)
})
