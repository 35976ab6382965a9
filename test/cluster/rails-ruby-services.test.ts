import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, type DescFile, type DescMethod, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import * as grpc from '@grpc/grpc-js'
import t from 'tap'
import { RegisterRequestSchema } from '../../src/proto/gen/agent_registrar_pb.ts'
import { file_agent_tracker } from '../../src/proto/gen/agent_tracker_pb.ts'
import { AgentTracker, file_agent_tracker_rpc } from '../../src/proto/gen/agent_tracker_rpc_pb.ts'
import { ConfigurationProject, file_configuration_project } from '../../src/proto/gen/configuration_project_pb.ts'
import { file_entity } from '../../src/proto/gen/entity_pb.ts'
import { file_event } from '../../src/proto/gen/event_pb.ts'
import { file_notifications, Notifications } from '../../src/proto/gen/notifications_pb.ts'
import { file_server_info, ServerInfo } from '../../src/proto/gen/server_info_pb.ts'
import { callUnary, connect, metadataOf } from '../contract/rails-server/start-server.ts'
import { eventually } from '../support/eventually.ts'
import { GitalyDouble } from '../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../support/gitaly/served-repository.ts'
import { suiteWorld } from '../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../support/gitlab/whole-replicas.ts'
import { Processes } from '../support/processes.ts'
import { pathsOfRuby, withoutRuby } from '../support/ruby.ts'

/**
 * Each call that GitLab makes, by its own client, ruby-grpc, to each of three replicas
 * (doc/reference/gitlab-contract.md 1.2).
 */

const program = join(import.meta.dirname, '../peers/rails-ruby/services.rb')

/** Files in the order of their imports. */
const files = [
  ...[file_agent_tracker, file_agent_tracker_rpc, file_entity, file_configuration_project],
  ...[file_event, file_notifications, file_server_info],
]
const described = (file: DescFile) => Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)).toString('base64')

/** One call, in the JSON of protobuf. */
const callOf = ({ parent, name, input, output }: DescMethod, request: object = {}) => ({
  method: `/${parent.typeName}/${name}`,
  input: input.typeName,
  output: output.typeName,
  request,
})

/** A call of an unknown service: any message is valid for it. */
const unknown = (method: string) => ({ ...callOf(ServerInfo.method.getServerInfo), method })

const refused = { code: grpc.status.UNAUTHENTICATED, details: 'JWT validation failed' }
const unserved = [
  'managed_resources.rpc.Provisioner/GetEnvironmentTemplate',
  'managed_resources.rpc.Provisioner/EnsureEnvironment',
  'auto_flow.rpc.AutoFlow/CloudEvent',
  'events_platform.rpc.EventsPlatform/Publish',
].map((method) => `/gitlab.agent.${method}`)

// wire: 8153.ruby, 8153.tracker.any-replica, jwt.bearer, jwt.algorithms, jwt.audience, jwt.times, error.jwt
t.test('all calls of GitLab by ruby-grpc', { skip: withoutRuby }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rails-ruby-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder, '@hashed/1.git')
  await repository.push({ '.gitlab/agents/prod/config.yaml': '' })
  const gitaly = await GitalyDouble.start(t, { folder })
  const { address, token } = gitaly
  const world = { ...suiteWorld(), gitaly: { address, token } }
  const { gitlab, replicas } = await startWholeReplicas(t, 3, { world })
  for (const [i, { portOf }] of replicas.slice(1).entries()) {
    const agentMeta = { version: `v18.${i}.0`, commitId: 'abc', podNamespace: 'ns', podName: `pod-${i}` }
    const request = create(RegisterRequestSchema, { agentMeta, podId: BigInt(i + 1) })
    const client = connect(t, portOf('Agentk API'))
    const metadata = metadataOf({ authorization: 'Bearer glagent-prod' })
    const method = '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register'
    t.equal((await callUnary(client, method, toBinary(RegisterRequestSchema, request), metadata)).code, grpc.status.OK)
  }

  const tracker = AgentTracker.method
  const gitalyInfo = { address, token, features: { 'gitaly-feature-x': 'true' } }
  const repositoryOf = {
    storageName: 'default',
    relativePath: '@hashed/1.git',
    glRepository: 'project-1',
    glProjectPath: 'platform/clusters',
  }
  const plan = {
    secret: gitlab.secret.toString('base64'),
    files: files.map(described),
    calls: [
      callOf(ServerInfo.method.getServerInfo),
      callOf(tracker.getConnectedAgents, { agentId: '42' }),
      callOf(tracker.getConnectedAgents, { projectId: '1' }),
      callOf(tracker.getConnectedAgentsByAgentIds, { agentIds: ['42', '43'] }),
      callOf(tracker.getConnectedAgentsByProjectIds, { projectIds: ['1', '2'] }),
      callOf(tracker.getConnectedAgentsByAgentIDs, { agentIds: ['42', '43'] }),
      callOf(tracker.getConnectedAgentsByProjectIDs, { projectIds: ['1', '2'] }),
      callOf(tracker.getConnectedAgentksByAgentIDs, { agentIds: ['42', '43'] }),
      callOf(tracker.getConnectedAgentksByProjectIDs, { projectIds: ['1', '2'] }),
      callOf(tracker.countAgentsByAgentVersions),
      callOf(ConfigurationProject.method.listAgentConfigFiles, { repository: repositoryOf, gitalyInfo }),
      callOf(Notifications.method.gitPushEvent, { event: { project: { id: '1', fullPath: 'platform/clusters' } } }),
      ...unserved.map(unknown),
    ],
  }
  const planFile = join(folder, 'plan.json')
  await writeFile(planFile, JSON.stringify(plan))

  const processes = await Processes.start(t)
  const tellAll = async (port: number) => {
    const args = [program, `127.0.0.1:${port}`, planFile]
    const { stdout, stderr } = await (
      await processes.spawn({ command: 'ruby', args, environment: pathsOfRuby() })
    ).ends()
    const lines = String(stdout).trim().split('\n')
    if (!lines[0]) throw new Error(stderr)
    return lines.map((line) => JSON.parse(line) as { what: string; response?: Record<string, unknown[]> })
  }
  const answers = await eventually(async () => {
    const all = await Promise.all(replicas.map(({ portOf }) => tellAll(portOf('API'))))
    if (all.some((told) => told[1]?.response?.agents?.length !== 2)) throw new Error('not all know both pods yet')
    return all
  })
  const [first = [], ...others] = answers
  for (const other of others) t.strictSame(other, first, 'each replica says the same')

  const of = (what: string) => first.filter((told) => told.what === what).map(({ what: _, ...told }) => told)
  const { getServerInfo } = ServerInfo.method
  t.match(of(callOf(getServerInfo).method), [{ response: { currentServerInfo: { version: /^v?18\.5\.0$/ } } }])
  const pods = [
    { connectionId: '1', agentId: '42', projectId: '1', connectedAt: /^\d{4}-/ },
    { connectionId: '2', agentId: '42', projectId: '1', connectedAt: /^\d{4}-/ },
  ]
  for (const name of Object.keys(tracker).filter((name) => name.startsWith('getConnected'))) {
    const method = tracker[name as keyof typeof tracker]
    for (const told of of(callOf(method).method)) t.match(told, { response: { agents: pods } }, method.name)
  }
  const counted = { response: { agentVersions: { 'v18.0.0': '1', 'v18.1.0': '1' } } }
  t.strictSame(of(callOf(tracker.countAgentsByAgentVersions).method), [counted])
  const found = { configFiles: [{ name: '.gitlab/agents/prod/config.yaml', agentName: 'prod' }] }
  t.strictSame(of(callOf(ConfigurationProject.method.listAgentConfigFiles).method), [{ response: found }])
  t.strictSame(of(callOf(Notifications.method.gitPushEvent).method), [{ response: {} }])
  for (const method of unserved) t.match(of(method), [{ code: grpc.status.UNIMPLEMENTED }], method)
  t.match(of('HS512'), [{ response: { currentServerInfo: {} } }])
  for (const what of ['another audience', 'expired', 'another secret', 'none']) t.match(of(what), [refused], what)
})
