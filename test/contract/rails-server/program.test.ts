import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t from 'tap'
import { RegisterRequestSchema } from '../../../src/proto/gen/agent_registrar_pb.ts'
import { GetConnectedAgentsResponseSchema } from '../../../src/proto/gen/agent_tracker_rpc_pb.ts'
import { GitPushEventRequestSchema } from '../../../src/proto/gen/notifications_pb.ts'
import { GetServerInfoResponseSchema } from '../../../src/proto/gen/server_info_pb.ts'
import { startKasApp } from '../../support/kas-app.ts'
import { callUnary, connect, goodMetadata, metadataOf, secret } from './start-server.ts'

const empty = Buffer.alloc(0)

// wire: 8153.GetServerInfo, 8153.GetConnectedAgentsByAgentIDs, 8153.GitPushEvent, log.endpoint.rails
// wire: metric.grpc_server_handled_total
t.test('the whole of kas serves GitLab when it has the secret', async (t) => {
  const sha256 = createHash('sha256').update('agent').digest('hex')
  const folder = t.testdir({
    secret: secret.toString('base64'),
    'directory.yaml': `
projects: [{ id: 1, path: platform/clusters }]
agents: [{ id: 42, name: prod, project: 1, tokens: [{ sha256: "${sha256}" }] }]
`,
  })
  const { portOf } = await startKasApp(
    t,
    `
directory: { file: ${join(folder, 'directory.yaml')} }
agent: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
api: { listen: { address: "127.0.0.1:0", authentication_secret_file: ${join(folder, 'secret')}, listen_grace_period: 0s } }
observability: { listen: { address: "127.0.0.1:0" } }
cluster: { advertised_version: v18.6.1 }
`,
  )
  const gitlab = connect(t, portOf('API'))
  const ask = async (method: string, request: Uint8Array) => {
    const { code, response } = await callUnary(gitlab, `/gitlab.agent.${method}`, request, await goodMetadata())
    t.equal(code, grpc.status.OK, method)
    return response ?? empty
  }
  const info = fromBinary(GetServerInfoResponseSchema, await ask('server_info.rpc.ServerInfo/GetServerInfo', empty))
  t.equal(info.currentServerInfo?.version, 'v18.6.1')

  const agent = connect(t, portOf('Agentk API'))
  const registered = await callUnary(
    agent,
    '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register',
    toBinary(RegisterRequestSchema, create(RegisterRequestSchema, { agentMeta: { version: 'v18.6.0' }, podId: 7n })),
    metadataOf({ authorization: 'Bearer agent' }),
  )
  t.equal(registered.code, grpc.status.OK)
  const byAgents = 'agent_tracker.rpc.AgentTracker/GetConnectedAgentsByAgentIDs'
  const { agents } = fromBinary(GetConnectedAgentsResponseSchema, await ask(byAgents, Buffer.from([0x0a, 1, 42])))
  t.match(agents, [{ agentId: 42n, projectId: 1n, connectionId: 7n }])

  const event = { project: { id: 5n, fullPath: 'a/project/that/no/agent/has' } }
  await ask(
    'notifications.rpc.Notifications/GitPushEvent',
    toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event })),
  )
  const observability = `http://127.0.0.1:${portOf('Observability')}`
  const text = await (await fetch(`${observability}/metrics`)).text()
  t.match(text, /^grpc_server_handled_total\{.*"gitlab\.agent\.server_info\.rpc\.ServerInfo".*"OK"\} 1$/m)
  t.equal((await fetch(`${observability}/readiness`)).status, 200)
})
