import t from 'tap'
import { startAgentsKas } from '../support/agents-kas.ts'
import { agentId } from '../support/agents-server.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { httpText } from '../support/http-call.ts'
t.test('x', async (t) => {
    const cluster = await ClusterDouble.start(t)
    let lost = 0
    const messages = new Set<unknown>()
    for (const size of [150_000, 300_000, 600_000, 1_000_000]) for (let i = 0; i < 6; i++) {
      const { forward, startAgent } = await startAgentsKas(t, 'wss')
      const agent = await startAgent([`--api-server=${cluster.url}`])
      await agent.event('registered')
      const body = Buffer.alloc(size, 'x')
      try { await httpText(forward, { agentId, path: '/', method: 'POST', body }) } catch (e) { lost++; console.error(size, i, String(e)); await agent.event('backing-off');
      for (const e of agent.all('tunnel-closed')) messages.add(e.message) }
      await agent.kill()
    }
    console.error(lost, [...messages])
})
