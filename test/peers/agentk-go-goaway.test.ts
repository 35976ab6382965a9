import t from 'tap'
import { withoutGo } from '../support/agentk-go.ts'
import { schemes, startAgentsKas } from '../support/agents-kas.ts'
import { agentId } from '../support/agents-server.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { httpCall, httpText } from '../support/http-call.ts'

// GOAWAY comes after a fifth of this, idle tunnels end after 0.3 of it, the last streams are cut after 0.85 of it.
const maxAgeMs = 3000
const connections = 5

for (const scheme of schemes) {
  // wire: age.goaway, age.idle
  t.test(`GOAWAY by age, over ${scheme}: no call fails`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, startAgent } = await startAgentsKas(t, scheme, { age: { maxAgeMs } })
    const agent = await startAgent([`--api-server=${cluster.url}`])
    await agent.event('registered')
    const statuses: number[] = []
    const durations: number[] = []
    async function callUntilEnough(method: string) {
      while (agent.all('connected').length < connections) {
        const body = method === 'POST' ? { body: Buffer.from('body') } : {}
        const began = performance.now()
        statuses.push((await httpText(forward, { agentId, path: '/', method, ...body })).status)
        durations.push(performance.now() - began)
      }
    }
    await Promise.all(['GET', 'POST', 'GET', 'POST'].map(callUntilEnough))
    t.comment(
      `${statuses.length} calls over ${connections} connections, longest ${Math.max(...durations).toFixed()} ms`,
    )
    t.ok(statuses.length > 100)
    t.same(new Set(statuses), new Set([200]))
    t.same(agent.all('backing-off'), [], 'what ended, ended with a code that is tried again at once')
    t.ok(agent.all('configuration-ended').length > 0)
    for (const { code } of agent.all('configuration-ended')) t.equal(code, 'OK')
    t.same(agent.all('invalid-response'), [])
  })

  t.test(`GOAWAY by age, over ${scheme}: a watch goes on`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, startAgent } = await startAgentsKas(t, scheme, { age: { maxAgeMs } })
    const agent = await startAgent([`--api-server=${cluster.url}`])
    const answer = await httpCall(forward, { agentId, path: '/events' })
    const data = answer.data[Symbol.asyncIterator]()
    await agent.until(() => agent.all('connected').length === 2, 'a second connection')
    await agent.event('configuration-ended') // the first one is past the age at which idle streams end
    cluster.emitEvent('still here')
    t.equal(Buffer.from((await data.next()).value as Uint8Array).toString(), 'still here')
    await data.return?.()
  })

  t.test(`kas leaves, over ${scheme}`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, server, startAgent } = await startAgentsKas(t, scheme)
    const agent = await startAgent([`--api-server=${cluster.url}`])
    const answer = await httpCall(forward, { agentId, path: '/events' })
    const data = answer.data[Symbol.asyncIterator]()
    const patience = new AbortController()
    const stopped = server.stop(patience.signal)
    t.match(await agent.event('tunnel-closed'), { code: 'OK', method: '' }, 'idle tunnels end with OK')
    t.match(await agent.event('configuration-ended'), { code: 'OK' })
    cluster.emitEvent('still here')
    t.equal(Buffer.from((await data.next()).value as Uint8Array).toString(), 'still here', 'the running call goes on')
    patience.abort()
    await stopped
    await data.next()
    t.equal((await answer.end).error?.code, 'TUNNEL_LOST')
    await agent.event('dial-failed')
  })
}
