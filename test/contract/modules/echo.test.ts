import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { createProjectRepository } from '../../../dev/start/project-repository.ts'
import { App as AgentkApp } from '../../../src/agentk/app.ts'
import { loadCluster } from '../../../src/agentk/cluster/load-cluster.ts'
import { readConfig } from '../../../src/agentk/config/config.ts'
import { parseFlags } from '../../../src/agentk/config/flags.ts'
import { commandGroups } from '../../../src/kas/cli/commands.ts'
import { usage } from '../../../src/kas/cli/program.ts'
import { status } from '../../../src/kas/cli/status.ts'
import { agentToken, type KasApp, startKasApps } from '../../cluster/kas-apps.ts'
import { askSocket } from '../../support/ask-socket.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { runKas } from '../../support/kas-command.ts'
import { createEcho as createAgentkEcho } from './echo/agentk-module.ts'
import { echoCli } from './echo/cli.ts'
import { createEcho } from './echo/kas-module.ts'
import { echoSchemas } from './echo/module-schemas.ts'

/**
 * A throw-away module with each kind of part that a feature may have. The two programs take it without any change
 * (doc/decisions/0017).
 */

const jobToken = 'job-token'
const file = `
ci_access: { projects: [{ id: platform/clusters }] }
echo: { word: ahoy }
`

/** Starts two replicas with the module. A repository contains the configuration of agent 42. */
async function startReplicas(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'echo-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const repository = join(folder, 'clusters.git')
  await createProjectRepository(repository, { '.gitlab/agents/prod/config.yaml': file })
  const replicas = (await startKasApps(t, 2, {
    modules: (name) => (host) => [createEcho(host, name)],
    schemas: echoSchemas,
    project: `, git: { url: ${repository} }`,
    directory: `
users: [{ id: 5, username: ada }]
ci_tokens:
  - { sha256: "${createHash('sha256').update(jobToken).digest('hex')}", user: 5, project: 1, job: 900, pipeline: 90 }`,
    agent: '  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }',
  })) as [KasApp, KasApp]
  return { folder, replicas }
}

async function get({ port }: KasApp, path: string, token = jobToken) {
  const url = `http://127.0.0.1:${port('Kubernetes API')}${path}`
  const answer = await fetch(url, { headers: { authorization: `Bearer ci:42:${token}` } })
  return { status: answer.status, body: (await answer.json()) as unknown }
}

const kubeconfigText = (server: string, user: string) => `
clusters: [{ name: c, cluster: { server: "${server}" } }]
contexts: [{ name: c, context: { cluster: c, user: u } }]
current-context: c
users: [{ name: u, user: ${user} }]
`

t.test(
  'of kas: to all replicas, an endpoint with a WebSocket, an observer, a counter, lines of kas status, a command',
  async (t) => {
    const { folder, replicas } = await startReplicas(t)
    const [first, second] = replicas
    const told = await eventually(async () => {
      const answer = await get(first, '/echo?word=hello') // until kas has read the agent's configuration
      return answer.status === 200 && answer
    })
    t.strictSame(told.body, { agentId: 42, names: ['kas-1'] })
    t.match(await get(first, '/echo?word=x', 'wrong'), { status: 401 }, 'a stranger is not let in')
    t.match(await get(first, '/echo'), { status: 400, body: { message: /the query has no word/ } })
    t.match(status.data(await askSocket(second.socket, '/status')).table(false), /\necho\nlast word +hello\nheard +1\n/)
    t.match(
      status.data(await askSocket(first.socket, '/status')).table(false),
      /\necho\nlast word +nothing\nheard +0\n/,
    )
    const metrics = await fetch(`http://127.0.0.1:${second.port('Observability')}/metrics`)
    t.match(await metrics.text(), /^echo_heard_total 1$/m)
    const headers = { authorization: `Bearer ci:42:${jobToken}` }
    const socket = new WebSocket(`ws://127.0.0.1:${first.port('Kubernetes API')}/echo`, ['echo'], { headers })
    t.teardown(() => socket.terminate())
    await once(socket, 'open')
    socket.send('ahoy')
    t.equal(String((await once(socket, 'message'))[0]), '42 undefined: ahoy')
    socket.close()
    await once(socket, 'close')
    const last = /\nlast word +closed\nheard +0\nlast request +\/echo upgraded$/m
    await eventually(async () => last.test(status.data(await askSocket(first.socket, '/status')).table(false)))
    const kubeconfig = join(folder, 'user.kubeconfig')
    const server = `http://127.0.0.1:${first.port('Kubernetes API')}`
    await writeFile(kubeconfig, kubeconfigText(server, `{ token: ci:42:${jobToken} }`))
    const groups = [...commandGroups, ...echoCli]
    const kas = (...argv: string[]) => runKas(argv, kubeconfig, '', groups)
    t.strictSame(await kas('echo', 'say', 'again'), { code: 0, stdout: 'kas-1\n', stderr: '' })
    t.match(await kas('echo'), { code: 2, stderr: 'kas echo say: WORD is missing\nusage: kas echo say WORD' })
    t.match(usage(groups), /^ {2}kas echo +say a word to all replicas$/m)
    t.match((await kas('completion', 'bash')).stdout, "'echo say'")
  },
)

t.test('of kas: features are said beside those of the others', async (t) => {
  const { replicas } = await startReplicas(t)
  const metadata = { 'kas-features': ['home,ping'], 'kas-pod': ['agentk-0'] }
  const agent = await FakeAgent.dial(replicas[0].port('Agentk API'), agentToken, metadata)
  t.teardown(() => agent.close())
  t.strictSame((await agent.open().stream.metadata)?.['kas-features'], ['reuse,views,gitops,echo'])
})

t.test('of agentk: a block of the agent’s file, a feature of kas that it asks for', async (t) => {
  const { folder, replicas } = await startReplicas(t)
  const kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, kubeconfigText('http://127.0.0.1:9', '{}'))
  const flags = parseFlags([
    `--kas-address=grpc://127.0.0.1:${replicas[0].port('Agentk API')}`,
    `--kubeconfig=${kubeconfig}`,
    '--observability-listen-address=127.0.0.1:0',
  ])
  const env = { AGENTK_TOKEN: agentToken, POD_NAME: 'agentk-0', POD_NAMESPACE: 'agentk' }
  const config = readConfig(flags, env)
  const access = await loadCluster(config.cluster, env)
  const word = Promise.withResolvers<string | undefined>()
  const feature = Promise.withResolvers<void>()
  const heard = { word: word.resolve, feature: feature.resolve }
  const app = new AgentkApp(
    { log: capturedLog().log, access, modules: [(host) => createAgentkEcho(host, heard)] },
    { config, version: { version: '18.5.0', commit: 'test' } },
  )
  t.teardown(() => app.stop(AbortSignal.abort()))
  await app.start()
  t.equal(await word.promise, 'ahoy')
  await feature.promise
})
