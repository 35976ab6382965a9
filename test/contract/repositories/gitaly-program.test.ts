import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { getConfigurationMethod } from '../../../src/kas/modules/configuration/configuration.ts'
import type { RouteReport } from '../../../src/kas/servers/ops-socket/route-report.ts'
import {
  ConfigurationRequestSchema,
  type ConfigurationResponse,
  ConfigurationResponseSchema,
} from '../../../src/proto/gen/agent_configuration_pb.ts'
import {
  ListAgentConfigFilesRequestSchema,
  ListAgentConfigFilesResponseSchema,
} from '../../../src/proto/gen/configuration_project_pb.ts'
import { askSocket } from '../../support/ask-socket.ts'
import { eventually } from '../../support/eventually.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { GitalyDouble } from '../../support/gitaly/gitaly-double.ts'
import type { GitalyVersion } from '../../support/gitaly/gitaly-versions.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import type { GitlabVersion } from '../../support/gitlab/gitlab-versions.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { type Replica, startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'

/** A whole kas with GitLab, Gitaly and an agent. Without polls: GitLab notifies kas of pushes. */

const path = '.gitlab/agents/prod/config.yaml'
const pushes = Number(process.env.KAS_PUSHES ?? 15)
const access = (project: string) => `ci_access: { projects: [{ id: ${project} }] }`

interface Versions {
  /** default: no polls, only notifications of pushes */
  readonly pollPeriod?: string
  readonly gitlab?: GitlabVersion
  readonly gitaly?: GitalyVersion
}

/** Starts replicas with an agent at each. GitLab notifies the first replica of pushes; the test uses the last agent. */
async function start(
  t: Test,
  { gitlab: gitlabVersion, gitaly: gitalyVersion, pollPeriod = '3600s' }: Versions = {},
  count = 1,
) {
  const folder = await mkdtemp(join(tmpdir(), 'gitaly-program-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder, '@hashed/1.git')
  const gitaly = await GitalyDouble.start(t, { folder, ...(gitalyVersion ? { version: gitalyVersion } : {}) })
  const world = { ...suiteWorld(), gitaly: { address: gitaly.address, token: gitaly.token } }
  const version = gitlabVersion ? { version: gitlabVersion } : {}
  const { gitlab, replicas, callRails, tellPush } = await startWholeReplicas(t, count, {
    world,
    pollPeriod,
    ...version,
  })
  const last = replicas.at(-1) as Replica
  const agent = await last.dial()
  const openConfiguration = (commitId = '') => follow(agent, commitId)
  /** configurations that GitLab has taken */
  const told = () => (gitlab.taken.get('/internal/kubernetes/agent_configuration') ?? []) as Told[]
  /** Resolves when GitLab has taken `many` configurations. */
  const isTold = (many: number) =>
    eventually(() => {
      if (told().length < many) return Promise.reject(new Error(`${told().length} of ${many} are told`))
      return told()
    })
  const pushed = (projectId = 1n) => tellPush('platform/clusters', projectId)
  const { lines, metrics } = last
  return { repository, gitaly, replicas, lines, tellPush: pushed, callRails, openConfiguration, isTold, metrics }
}

interface Told {
  readonly agent_id: string
  readonly agent_config: unknown
}

async function bothHold(socket: string): Promise<RouteReport> {
  const report = (await askSocket(socket, '/route?agent=42')) as RouteReport
  if (report.own.tunnels === 0 || report.ways.length === 0) throw new Error('one of the two does not hold it')
  return report
}

/** Opens the configuration stream of an agent. */
function follow(agent: FakeAgent, commitId: string) {
  const metadata = { authorization: ['Bearer glagent-prod'] }
  const stream = agent.session.open({ method: getConfigurationMethod, metadata })
  const request = create(ConfigurationRequestSchema, { commitId, skipRegister: true })
  void stream.send(toBinary(ConfigurationRequestSchema, request))
  const messages = stream.messages[Symbol.asyncIterator]()
  const next = async (): Promise<ConfigurationResponse> => {
    const { value, done } = await messages.next()
    if (done) throw (await stream.done).error
    return fromBinary(ConfigurationResponseSchema, value)
  }
  return { next, done: stream.done }
}

const projectsOf = ({ configuration }: ConfigurationResponse) =>
  configuration?.ciAccess?.projects.map(({ id }) => id) ?? []

for (const versions of [
  { gitlab: '16.5', gitaly: '16.5' },
  { gitlab: '17.9', gitaly: '17.9' },
  { gitlab: '18.9', gitaly: '18.9' },
] as const) {
  // wire: stream.first, stream.filled, stream.each-commit, stream.poke, rest.agent_configuration
  // wire: metric.limiter_limit
  t.test(`an agent of ${versions.gitlab} gets its configuration, and a change that GitLab announces`, async (t) => {
    const { repository, gitaly, tellPush, openConfiguration, isTold, metrics, lines } = await start(t, versions)
    const one = await repository.push({ [path]: access('apps/one') })
    const { next } = openConfiguration()
    const first = await next()
    t.match(first, { commitId: one, configuration: { agentId: 42n, projectId: 1n, projectPath: 'platform/clusters' } })
    t.strictSame(projectsOf(first), ['apps/one'])
    const two = await repository.push({ [path]: access('apps/two') })
    await tellPush(2n)
    await tellPush()
    const second = await next()
    t.equal(second.commitId, two)
    t.strictSame(projectsOf(second), ['apps/two'])
    const three = await repository.push({ other: '1' })
    await tellPush()
    t.equal((await next()).commitId, three, 'each commit is told, also if the file did not change')
    t.equal(gitaly.of('TreeEntry').length, 2, 'what has not changed is not read again')
    const config = (project: string) => ({ ci_access: { projects: [{ id: project }] } })
    t.strictSame(
      await isTold(3),
      ['apps/one', 'apps/two', 'apps/two'].map((project) => ({ agent_id: '42', agent_config: config(project) })),
      'and GitLab hears of it',
    )
    const text = await metrics()
    t.match(text, /^kas_gitaly_call_duration_seconds_count\{grpc_method="TreeEntry",grpc_code="OK"\} 2$/m)
    t.match(text, /^limiter_limit\{limiter_name="gitaly_client_global",unit="per_second"\} 30$/m)
    t.match(text, /^limiter_limit\{limiter_name="gitaly_client_tcp:\/\/127\.0\.0\.1:\d+",unit="per_second"\} 15$/m)
    t.match(text, /^limiter_limit\{limiter_name="gitlab_client",unit="per_second"\} 50$/m)
    t.notMatch(JSON.stringify(lines), /gitaly-secret|Bearer/)
  })
}

// wire: stream.poke, rest.agent_configuration.when
t.test(
  'pushes that GitLab announces to one replica reach an agent of another; one asks Gitaly, and posts to GitLab',
  async (t) => {
    const { repository, gitaly, tellPush, openConfiguration, isTold } = await start(t, {}, 2)
    const { next } = openConfiguration()
    const times: number[] = []
    for (let i = 0; i < pushes; i++) {
      const commit = await repository.push({ [path]: access(`apps/${i}`) })
      const began = performance.now()
      await tellPush()
      t.equal((await next()).commitId, commit)
      times.push(performance.now() - began)
    }
    t.equal(new Set(gitaly.calls.map(({ peer }) => peer)).size, 1, 'the one that has the agent')
    const projects = (await isTold(pushes)).map(({ agent_config: config }) => JSON.stringify(config))
    t.strictSame(
      projects,
      times.map((_, i) => JSON.stringify({ ci_access: { projects: [{ id: `apps/${i}` }] } })),
      'each once, in their order',
    )
    const [median, worst] = [0.5, 1].map((share) => times.toSorted((x, y) => x - y)[Math.ceil(share * pushes) - 1])
    t.comment(`from the event to the agent: median ${median?.toFixed()} ms, worst ${worst?.toFixed()} ms of ${pushes}`)
  },
)

// wire: rest.agent_configuration.when
t.test('of two replicas that hold an agent one posts to GitLab, and once it has left the other', async (t) => {
  const { repository, replicas, tellPush, isTold } = await start(t, {}, 2)
  const agents = await Promise.all(replicas.map(({ dial }) => dial()))
  for (const agent of agents) agent.open()
  const reports = await Promise.all(replicas.map(({ socket }) => eventually(() => bothHold(socket))))
  const one = await repository.push({ [path]: access('apps/one') })
  const streams = agents.map((agent) => follow(agent, ''))
  for (const { next } of streams) t.equal((await next()).commitId, one)
  await isTold(1)
  await repository.push({ [path]: access('apps/two') })
  await tellPush()
  for (const { next } of streams) t.match(projectsOf(await next()), ['apps/two'])
  await isTold(2)
  const lead = replicas.findIndex(({ name }) => name === reports[0]?.rank[0])
  agents[lead]?.close()
  await isTold(3) // the new leader does not know what the old one reported
  await repository.push({ [path]: access('apps/three') })
  await tellPush()
  t.match(projectsOf((await streams[1 - lead]?.next()) as ConfigurationResponse), ['apps/three'])
  const told = (await isTold(4)).map(({ agent_config: config }) => JSON.stringify(config).match(/apps.(\w+)/)?.[1])
  t.strictSame(told, ['one', 'two', 'two', 'three'])
})

t.test('of two replicas that hold an agent one polls, and tells the other what it found', async (t) => {
  const { repository, gitaly, replicas } = await start(t, { pollPeriod: '150ms' }, 2)
  const agents = await Promise.all(replicas.map(({ dial }) => dial()))
  for (const agent of agents) agent.open()
  await Promise.all(replicas.map(({ socket }) => eventually(() => bothHold(socket))))
  await repository.push({ [path]: access('apps/one') })
  const streams = agents.map((agent) => follow(agent, ''))
  for (const { next } of streams) t.match(projectsOf(await next()), ['apps/one'])
  const looks = () => gitaly.of('InfoRefsUploadPack').map(({ peer }) => peer)
  const before = looks().length
  await eventually(() => looks().length >= before + 20 || Promise.reject(new Error('not polled yet')))
  const counts = Object.values(Object.groupBy(looks().slice(before), (peer) => peer)).map((of) => of?.length ?? 0)
  t.ok(Math.max(...counts) >= 14, `looks of each replica: ${counts.join(', ')}`)
  await repository.push({ [path]: access('apps/two') })
  for (const { next } of streams) t.match(projectsOf(await next()), ['apps/two'])
})

// wire: 8153.ListAgentConfigFiles, 8153.ListAgentConfigFiles.names, 8153.ListAgentConfigFiles.empty
// wire: 8153.ListAgentConfigFiles.branch, error.8153.ListAgentConfigFiles, gitaly.GetTreeEntries
t.test('GitLab gets which agents a project has files of', async (t) => {
  const { repository, gitaly, callRails } = await start(t)
  const list = async (changes: { gitalyInfo?: { token: string }; defaultBranch?: string } = {}) => {
    const request = create(ListAgentConfigFilesRequestSchema, {
      gitalyInfo: { address: gitaly.address, token: gitaly.token, features: { 'gitaly-feature-x': 'true' } },
      repository: {
        storageName: 'default',
        relativePath: repository.relativePath,
        glRepository: 'project-1',
        glProjectPath: 'platform/clusters',
      },
      ...changes,
    })
    const method = '/gitlab.agent.configuration_project.rpc.ConfigurationProject/ListAgentConfigFiles'
    const { code, response, details } = await callRails(method, toBinary(ListAgentConfigFilesRequestSchema, request))
    if (code !== status.OK) return [code, details] as const
    const { configFiles } = fromBinary(ListAgentConfigFilesResponseSchema, response ?? new Uint8Array())
    return configFiles.map(({ name, agentName }) => [name, agentName])
  }
  t.strictSame(await list(), [], 'an empty repository')
  const names = ['prod', 'x-1', 'Upper', 'sub/prod', '-x', 'a.b']
  await repository.push({ 'README.md': 'x' })
  t.strictSame(await list(), [], 'no such folder')
  const files = names.map((name) => [`.gitlab/agents/${name}/config.yaml`, 'x'] as const)
  await repository.push({ ...Object.fromEntries(files), '.gitlab/agents/other/config.yml': 'x' })
  const both = ['prod', 'x-1'].map((name) => [`.gitlab/agents/${name}/config.yaml`, name])
  t.strictSame(await list(), both)
  t.strictSame(await list({ defaultBranch: 'main' }), both)
  t.strictSame(await list({ defaultBranch: 'gone' }), [])
  t.equal(gitaly.of('GetTreeEntries').at(-1)?.metadata['gitaly-feature-x'], 'true')
  gitaly.fault = { kind: 'status', code: status.INVALID_ARGUMENT, message: 'no' }
  t.match(await list(), [status.INVALID_ARGUMENT, 'no'])
  gitaly.fault = { kind: 'status', code: status.INTERNAL, message: 'broken' }
  t.match(await list(), [status.UNAVAILABLE, /Gitaly.*broken/])
  gitaly.fault = undefined
  t.match(await list({ gitalyInfo: { token: 'x' } }), [status.INVALID_ARGUMENT, 'gitaly_info.address is required'])
})

// wire: stream.absent-file, stream.gitaly-away
t.test('a file that is absent is an empty configuration; one that cannot be read is none', async (t) => {
  const { repository, gitaly, tellPush, openConfiguration, lines } = await start(t)
  const one = await repository.push({ a: '1' })
  const { next } = openConfiguration()
  const first = await next()
  t.equal(first.commitId, one)
  t.strictSame(projectsOf(first), [])
  t.equal((await repository.push({ [path]: access('apps/two') })).length, 40)
  for (const fault of [
    { kind: 'half' },
    { kind: 'nothing' },
    { kind: 'status', code: status.UNAVAILABLE, message: 'no replica is there' },
  ] as const) {
    const asked = gitaly.of('TreeEntry').length
    gitaly.fault = fault
    await tellPush() // the head cannot be read; below, only the file cannot
    gitaly.fault = { ...fault, method: 'TreeEntry' }
    await repository.push({ [path]: access(`apps/${fault.kind}`) })
    await tellPush()
    await eventually(() => gitaly.of('TreeEntry').length > asked || Promise.reject(new Error('not read yet')))
  }
  gitaly.fault = undefined
  const last = await repository.push({ [path]: access('apps/last') })
  await tellPush()
  const second = await next()
  t.equal(second.commitId, last)
  t.strictSame(projectsOf(second), ['apps/last'], 'the next that the agent hears of')
  t.ok(lines.some(({ msg }) => String(msg).startsWith('Agent configuration cannot be read')))
})

// wire: error.stream.size, error.stream.user, error.stream.ref
t.test('mistakes of who wrote it end the stream with their reason', async (t) => {
  const { repository, tellPush, openConfiguration } = await start(t)
  await repository.push({ [path]: 'x'.repeat(1001) })
  const large = (await openConfiguration().done).error
  t.match(large, { grpcCode: status.FAILED_PRECONDITION, message: `Config: ${path}: has 1001 bytes, more than 1000` })
  const good = await repository.push({ [path]: access('apps/good') })
  await tellPush()
  const { done } = await eventually(async () => {
    const stream = openConfiguration() // again and again, as an agent does
    t.equal((await stream.next()).commitId, good)
    return stream
  })
  await repository.loseBranch()
  await tellPush()
  t.match((await done).error, { grpcCode: status.NOT_FOUND, message: 'ref refs/heads/main not found' })
})

// wire: stream.empty-repository
t.test('an empty repository is waited for', async (t) => {
  const { repository, gitaly, tellPush, openConfiguration } = await start(t)
  const { next } = openConfiguration()
  await eventually(() => gitaly.calls.length > 0 || Promise.reject(new Error('not read yet')))
  const one = await repository.push({ [path]: access('apps/one') })
  await tellPush()
  t.equal((await next()).commitId, one)
})
