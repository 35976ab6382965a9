import t from 'tap'
import { Code } from '../../../src/lib/errors.ts'
import { connectMethod, encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { callOf, callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent, FakeTunnel } from '../../support/fake-agent.ts'

/** First messages of agents: metadata and descriptor (doc/reference/tunnel-protocol.md 1.2, 2.3, 3.1). */

const beginnings: Record<string, (tunnel: FakeTunnel) => void> = {
  'a header': (tunnel) => tunnel.send(encodeConnectRequest.header({})),
  'a message': (tunnel) => tunnel.message(Buffer.from('x')),
  'a trailer': (tunnel) => tunnel.send(encodeConnectRequest.trailer({})),
  'an error': (tunnel) => tunnel.error(Code.ABORTED, 'x'),
}

// wire: tunnel.descriptor-first
for (const [name, begin] of Object.entries(beginnings)) {
  t.test(`${name} before the descriptor: INVALID_ARGUMENT, and no tunnel`, async (t) => {
    const { port, tunnels } = await startAgentsServer(t)
    const agent = await FakeAgent.dial(port)
    t.teardown(() => agent.close())
    const metadata = { authorization: ['Bearer good'] }
    const tunnel = new FakeTunnel(agent.session.open({ method: connectMethod, metadata }))
    begin(tunnel)
    t.equal((await tunnel.done).error?.grpcCode, Code.INVALID_ARGUMENT)
    t.equal(tunnels.take(callOf()), undefined)
    t.equal(agent.session.draining, false, 'others of the connection go on')
  })
}

// wire: auth.more
t.test('metadata that kas does not know does no harm', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const more = { 'gitlab-agent-type': ['agentk'], 'gitlab-agent-version': ['v19.0.0'], traceparent: ['00-1-2-01'] }
  const agent = await FakeAgent.dial(port, 'good', more)
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
})
