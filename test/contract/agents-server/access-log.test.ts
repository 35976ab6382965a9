import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { agentId, oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { echoMethod, FakeAgent, FakeTunnel } from '../../support/fake-agent.ts'

/** Lines about agents that connect on 8150 or are refused (doc/reference/access-log.md). */

async function start(t: Test) {
  const access = new AccessLines()
  const directory = oneAgent((code) => new KasError({ code: code as 'FORBIDDEN' }))
  const started = await startAgentsServer(t, { components: { directory, accessLog: access.log } })
  return { ...started, access }
}

t.test('a connection, when its agent is let in, and when it ends', async (t) => {
  const { port, access } = await start(t)
  const socket = connect({ port, host: '127.0.0.1' })
  const userAgent = 'gitlab-agent/v18.5.0'
  const session = ClientSession.over(socket, { authority: 'kas.test:8150', scheme: 'http', userAgent })
  t.teardown(() => session.destroy())
  const metadata = { authorization: ['Bearer good'] }
  for (let i = 0; i < 2; i++) new FakeTunnel(session.open({ method: connectMethod, metadata })).describe([echoMethod])
  const [connected] = await access.count(1)
  const fields = {
    class: 'session',
    agent_id: String(agentId),
    agent: 'prod',
    project: 'platform/clusters',
    address: '127.0.0.1',
    user_agent: userAgent,
    entry: 'kas-0',
  }
  t.match(connected, { ...fields, event: 'agent_connected' })
  session.destroy()
  const [, ended, ...more] = await access.count(2)
  t.match(ended, { ...fields, event: 'agent_disconnected', ms: Number })
  t.strictSame(more, [], 'of each connection one')
})

t.test('refused: the first of an address, and the number of the others', async (t) => {
  const { port, access } = await start(t)
  for (let i = 0; i < 3; i++) {
    const agent = await FakeAgent.dial(port, i === 2 ? 'FORBIDDEN' : 'UNAUTHENTICATED')
    t.teardown(() => agent.close())
    await agent.openSilently().done
  }
  await access.log.stop()
  const [first, others, ...more] = await access.count(2)
  t.match(first, { event: 'agent_refused', class: 'refusal', reason: 'UNAUTHENTICATED', address: '127.0.0.1' })
  t.match(others, { event: 'agent_refused', count: 2, reason: 'FORBIDDEN' })
  t.strictSame(more, [])
  t.notMatch(access.text, /Bearer/)
})
