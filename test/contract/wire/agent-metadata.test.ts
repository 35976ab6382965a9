import t from 'tap'
import { callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'

/** What later agents send beside their token (wire-protocol 2.3). */

// wire: auth.more
t.test('metadata that kas does not know does no harm', async (t) => {
  const { forward, port } = await startAgentsServer(t)
  const more = { 'gitlab-agent-type': ['agentk'], 'gitlab-agent-version': ['v19.0.0'], traceparent: ['00-1-2-01'] }
  const agent = await FakeAgent.dial(port, 'good', more)
  t.teardown(() => agent.close())
  void agent.open().serveEcho()
  t.same((await callThrough(forward, ['x'])).messages, ['x'])
})
