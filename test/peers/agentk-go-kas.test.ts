import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { withoutGo } from '../support/agentk-go.ts'
import { configurationOf, startStackWithAgentkGo } from '../support/agentk-go-stack.ts'
import { identities } from '../support/kubectl-side.ts'
import { agentId, bearerOf, impersonated } from '../support/stack-directory.ts'

// The whole kas, as a program, with an agent in Go: from 8154 to the cluster and back.

for (const scheme of ['grpc', 'wss'] as const) {
  t.test(`over ${scheme}`, { skip: withoutGo }, async (t) => {
    const { cluster, stack, agent, ca, get } = await startStackWithAgentkGo(t, scheme)
    const configuration = configurationOf(await agent.event('configuration', { agentId }))
    t.match(configuration, {
      projectId: 1n,
      projectPath: 'platform/clusters',
      ciAccess: { projects: [{ id: 'platform/clusters' }, { id: 'apps/web' }, { id: 'apps/robot' }] },
    })
    await agent.event('registered')

    await t.test('who calls is who the cluster sees', async (t) => {
      for (const identity of identities) {
        const { status, body, headers } = await get('/api/v1/pods?limit=5', identity)
        t.equal(status, 200, body)
        t.match(headers.via, /^1\.1 gitlab-agent\/v16\.5\.0\/8daa08cc, gRPC\/1\.0 gitlab-kas\//)
        const seen = JSON.parse(body)
        t.equal(seen.url, '/api/v1/pods?limit=5')
        t.equal(seen.headers.authorization, undefined, 'the caller’s credentials stay with kas')
        const expected = identity === 'agent' ? undefined : impersonated[identity]
        t.equal(seen.headers['impersonate-user'], expected?.username)
        t.equal(seen.headers['impersonate-group'], expected?.groups?.join(', '))
        t.equal(seen.headers['impersonate-uid'], expected && 'uid' in expected ? expected.uid : undefined)
      }
    })

    await t.test('an upgrade', async (t) => {
      const headers = { authorization: `Bearer ${bearerOf('agent')}`, upgrade: 'SPDY/3.1', connection: 'upgrade' }
      const sent = https.request(`${stack.kubernetesUrl}/exec`, { method: 'POST', ca, headers, agent: false })
      sent.end()
      const [answer, socket, head] = (await once(sent, 'upgrade')) as [IncomingMessage, Duplex, Buffer]
      t.match(answer, { statusCode: 101, headers: { upgrade: 'SPDY/3.1', connection: /^upgrade$/i } })
      socket.unshift(head)
      socket.end('and back')
      t.equal(await text(socket), 'first,and back')
    })

    await t.test('a watch, event by event', async (t) => {
      const headers = { authorization: `Bearer ${bearerOf('agent')}` }
      const sent = https.request(`${stack.kubernetesUrl}/events`, { ca, headers, agent: false })
      sent.on('error', () => undefined) // torn down below
      sent.end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      for (const event of ['one', 'two', 'three']) {
        cluster.emitEvent(event)
        t.equal(String((await once(answer, 'data'))[0]), event)
      }
      sent.destroy()
    })

    t.same(agent.all('invalid-response'), [])
    t.equal(agent.all('connected').length, 1)
  })
}
