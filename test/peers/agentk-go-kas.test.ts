import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fromBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { AgentConfigurationSchema } from '../../src/proto/gen/agentcfg_pb.ts'
import { AgentkGo, type AgentkGoEvent, withoutGo } from '../support/agentk-go.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { httpsGet } from '../support/https-get.ts'
import { identities } from '../support/kubectl-side.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import {
  agentConfiguration,
  agentId,
  agentToken,
  bearerOf,
  directoryFile,
  impersonated,
} from '../support/stack-directory.ts'

// The whole kas, as a program, with an agent of another make: from 8154 to the cluster and back.

const file = '.gitlab/agents/prod/config.yaml'

async function startAll(t: Test, scheme: 'grpc' | 'wss') {
  const cluster = await ClusterDouble.start(t)
  const stack = await Stack.start(await Processes.start(t), { agentKubeconfig: '', scheme })
  const ca = await readFile(stack.caFile, 'utf8')
  const flags = [`--api-server=${cluster.url}`, `--ca-cert-file=${stack.caFile}`, '--config-backoff=200ms']
  const agent = await AgentkGo.start(t, { kasAddress: stack.agentsUrl, token: agentToken, flags })
  const get = (path: string, identity: (typeof identities)[number] = 'agent') =>
    httpsGet(`${stack.kubernetesUrl}${path}`, { ca, token: bearerOf(identity) })
  return { cluster, stack, agent, ca, get }
}

const configurationOf = ({ bytes }: AgentkGoEvent) =>
  fromBinary(AgentConfigurationSchema, Buffer.from(bytes as string, 'base64'))

for (const scheme of ['grpc', 'wss'] as const) {
  t.test(`over ${scheme}`, { skip: withoutGo }, async (t) => {
    const { cluster, stack, agent, ca, get } = await startAll(t, scheme)
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
      const sent = https.request(`${stack.kubernetesUrl}/watch`, { ca, headers, agent: false })
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

t.test('the configuration follows its repository', { skip: withoutGo }, async (t) => {
  const { stack, agent } = await startAll(t, 'grpc')
  await agent.event('configuration')
  await stack.repository.push(
    file,
    JSON.stringify({ ...agentConfiguration, observability: { logging: { level: 'debug' } } }),
  )
  const changed = await agent.event('configuration', (event) => configurationOf(event).observability !== undefined)
  t.match(configurationOf(changed), { observability: { logging: { level: 1 } } })

  await stack.repository.push(file, 'ci_access: [not, a, mapping]')
  const { message } = await agent.event('configuration-ended', { code: 'FailedPrecondition' })
  t.match(message, /^Config: /)
  const from = agent.events.length
  await stack.repository.push(file, JSON.stringify(agentConfiguration))
  t.not((await agent.event('configuration', {}, { from })).commit, changed.commit)
})

t.test('a token that is taken away', { skip: withoutGo }, async (t) => {
  const { stack, agent, get } = await startAll(t, 'grpc')
  await agent.event('registered')
  await agent.event('configuration')
  const directory = directoryFile(stack.repository.path)
  await stack.writeDirectory({ ...directory, agents: [{ ...directory.agents[0], tokens: [] }] })
  t.match(await agent.event('configuration-ended'), { code: 'Unauthenticated', message: 'unauthenticated' })
  await stack.writeDirectory(directory)
  await stack.repository.push(file, JSON.stringify(agentConfiguration)) // what it has is not sent again
  await agent.event('configuration', {}, { from: agent.events.length })
  t.equal((await get('/')).status, 200)
})

t.test('kas ends and comes again', { skip: withoutGo }, async (t) => {
  const { cluster, stack, agent, get } = await startAll(t, 'wss')
  await agent.event('registered')
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const from = agent.events.length
    const b = performance.now()
    stack.kas.signal(signal)
    const exit = await stack.kas.exited
    t.comment('exit', performance.now() - b)
    t.equal(exit.code, signal === 'SIGTERM' ? 0 : -1)
    await agent.event('tunnel-closed', { code: signal === 'SIGTERM' ? 'OK' : 'Unavailable' }, { from })
    t.comment('closed', performance.now() - b)
    await stack.startKas()
    t.comment('started', performance.now() - b)
    t.equal((await get('/')).status, 200, `after ${signal}`)
  }
  t.comment('done')
  t.same(agent.all('invalid-response'), [])
  t.equal(cluster.watches, 0)
})
