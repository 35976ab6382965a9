import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import type { Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { getConfigurationMethod } from '../../../src/kas/modules/configuration/configuration.ts'
import {
  ConfigurationRequestSchema,
  ConfigurationResponseSchema,
} from '../../../src/proto/gen/agent_configuration_pb.ts'
import { GitPushEventRequestSchema } from '../../../src/proto/gen/notifications_pb.ts'
import { kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { callUnary, connect, jwt, metadataOf } from '../../contract/rails-server/start-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { GitalyDouble } from '../../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { Processes } from '../../support/processes.ts'
import { serveOnce } from '../../support/serve-once.ts'

const file = '.gitlab/agents/prod/config.yaml'
const access = (project: string) =>
  `ci_access: { projects: [{ id: ${project} }] }\nuser_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }`

/**
 * Plays kas between doubles of a GitLab and its Gitaly, and an agent. The calls are its configuration, a push event on
 * 8153, and a user and a job on 8154.
 *
 * @param command - the words that start kas
 */
export async function playGitlab(
  t: Test,
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'installed-gitlab-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder)
  const one = await repository.push({ [file]: access('platform/clusters') })
  const gitaly = await GitalyDouble.start(t, { folder })
  const world = { ...suiteWorld(access('platform/clusters')), gitaly: { address: gitaly.address, token: gitaly.token } }
  const gitlab = await GitlabDouble.start(t, { world })
  await writeFile(join(folder, 'secret'), gitlab.secret.toString('base64'))
  const [agents, ops, rails, kubernetes, replicas, gossip] = (await freePorts(6)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const secret = `authentication_secret_file: ${join(folder, 'secret')}`
  const at = (port: number) => `address: "127.0.0.1:${port}", listen_grace_period: 0s`
  const configuration = join(folder, 'kas.yaml')
  await writeFile(
    configuration,
    `
gitlab: { address: "${gitlab.address}", ${secret}, external_url: "https://gitlab.example.com" }
agent:
  listen: { ${at(agents)} }
  configuration: { poll_period: 3600s }
  kubernetes_api: { listen: { ${at(kubernetes)} }, url_path_prefix: /k8s-proxy }
api: { listen: { ${at(rails)}, ${secret} } }
private_api: { listen: { ${at(replicas)}, ${secret} } }
cluster: { name: kas-0, listen: { address: "127.0.0.1:${gossip}" } }
observability: { listen: { address: "127.0.0.1:${ops}" } }
`,
  )
  const processes = await Processes.start(t)
  const [program = '', ...words] = command
  const args = [...words, `--configuration-file=${configuration}`]
  await processes.spawn({ command: program, args, folder, environment })
  await eventually(async () => {
    const { status } = await fetch(`http://127.0.0.1:${ops}/readiness`)
    if (status !== 200) throw new Error(`readiness: ${status}`)
  })
  const agent = await FakeAgent.dial(agents, 'glagent-prod')
  t.teardown(() => agent.close())

  const stream = agent.session.open({
    method: getConfigurationMethod,
    metadata: { authorization: ['Bearer glagent-prod'] },
  })
  const request = create(ConfigurationRequestSchema, { skipRegister: true })
  void stream.send(toBinary(ConfigurationRequestSchema, request))
  const messages = stream.messages[Symbol.asyncIterator]()
  const next = async () => fromBinary(ConfigurationResponseSchema, (await messages.next()).value ?? new Uint8Array())
  t.equal((await next()).commitId, one, 'Gitaly has the configuration')
  const two = await repository.push({ [file]: access('apps/two') })
  const event = create(GitPushEventRequestSchema, { event: { project: { id: 1n, fullPath: 'platform/clusters' } } })
  const metadata = metadataOf({ authorization: `bearer ${await jwt({ key: gitlab.secret })}` })
  const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
  const told = await callUnary(connect(t, rails), method, toBinary(GitPushEventRequestSchema, event), metadata)
  t.equal(told.code, status.OK, 'GitLab tells of a push')
  t.equal((await next()).commitId, two, 'and it is read')

  const tokens = ['ci:42:job-clusters', 'pat:42:glpat-ada']
  const serving = tokens.map(() => serveOnce(agent.open([kubernetesApiMethod])))
  for (const token of tokens) {
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`http://127.0.0.1:${kubernetes}/k8s-proxy/version`, { headers })
    t.strictSame([response.status, await response.text()], [200, 'from the cluster'], token)
  }
  await Promise.all(serving)
}
