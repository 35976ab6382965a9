import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { ProgramName } from '../../dev/package/bundle.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import { runKas } from '../support/kas-command.ts'
import { extractOlderVersion, withoutOlderVersion } from '../support/older-version.ts'
import { Processes } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { agentConfiguration, directoryFile } from '../support/stack-directory.ts'

/** Commands, replicas and agents of an older version and of this one, in each combination. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = withoutOlderVersion || (missing.length > 0 && `needs ${missing.join(', ')}`)

const versions = ['older', 'newer'] as const
type Version = (typeof versions)[number]
/** one agent of each version at each replica */
const agents = versions.flatMap((own, i) => versions.map((dialled, k) => ({ id: 50 + 2 * i + k, own, dialled })))
const userToken = 'stack-job-of-clusters'

interface Place {
  readonly processes: Processes
  readonly mains: Readonly<Record<Version, (program: ProgramName) => string>>
  readonly repository: string
  readonly ca: string
}

t.test('views between an older version and this one', { skip, timeout: 240_000 }, async (t) => {
  const { processes, mains, kubeconfigOf } = await start(t)
  const run = async (version: Version, agent: number, argv: string) => {
    if (version === 'newer') return runKas(argv.split(' '), kubeconfigOf(agent))
    const { stdout, stderr, code } = await (
      await processes.spawn({
        command: process.execPath,
        args: [mains.older('kas'), ...argv.split(' ')],
        environment: { KUBECONFIG: kubeconfigOf(agent) },
      })
    ).ends()
    return { code, stdout: String(stdout), stderr: String(stderr) }
  }
  for (const { id, own, dialled } of agents) {
    await t.test(`${dialled} replica, ${own} agent`, async (t) => {
      await eventually(
        async () => {
          const { code, stdout, stderr } = await run('newer', id, 'tree -n shop')
          if (code !== 0 || !stdout.includes('ConfigMap/web')) throw new Error(`${code} ${stdout} ${stderr}`)
        },
        { timeoutMs: 60_000 },
      )
      t.match(await run('older', id, 'tree -n shop'), { code: 0, stdout: /ConfigMap\/web/ }, 'a command of before')
      t.match(
        await run('older', id, 'get ConfigMap -n shop'),
        { code: 0, stdout: /^· web +\d/m },
        'a command of before',
      )
      t.match(await run('newer', id, 'tree -n shop'), { code: 0, stdout: /ConfigMap\/web/ })
      const named = await run('newer', id, 'get cm/web -n shop -o name')
      t.match(named, { code: 0, stdout: 'configmap/web\n' }, named.stderr)
      t.equal(named.stderr, '')
      const sorted = await run('newer', id, 'get cm -n shop --sort age -o name')
      t.match(sorted, { code: 0, stdout: /^configmap\/web\n/m }, sorted.stderr)
      const labelled = await run('newer', id, 'get cm -l app=web -n shop -o name')
      t.match(labelled, { code: 0, stdout: 'configmap/web\n' })
      const nothing = await run('newer', id, 'get po -n nowhere')
      t.match(nothing, { code: 0, stderr: 'no po found in nowhere\n' })
      t.match(await run('newer', id, 'tree cm/web -n shop'), { code: 0, stdout: /ConfigMap\/web/ })
      t.match(await run('newer', id, 'health cm/web -n shop'), { code: 0 })
      t.match(await run('newer', id, 'get events -n shop'), { code: 0 })
    })
  }
})

async function start(t: Test) {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  await admin.create('/api/v1/namespaces', { metadata: { name: 'shop' } })
  await admin.create('/api/v1/namespaces/shop/configmaps', { metadata: { name: 'web', labels: { app: 'web' } } })
  const manifests = ['agentk', 'agentk-access/cluster-wide.yaml', 'agentk-views']
  const agentKubeconfig = await agentkAccount(controlPlane, join(processes.folder, 'agentk'), manifests)
  const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/agentk'
  const metadata = { name: 'leases' } // the shipped role has the Lease of agent 42
  const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] }]
  await admin.create(`${rbac}/roles`, { metadata, rules })
  await admin.create(`${rbac}/rolebindings`, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'leases' },
    subjects: [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }],
  })
  const mains = { older: await extractOlderVersion(join(processes.folder, 'older')), newer: mainOf }
  const authority = await Authority.create('versions')
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const write = (name: string, text: string) => writeFile(join(processes.folder, name), text, { mode: 0o600 })
  await write('serving.crt', serving.certificate)
  await write('serving.key', serving.key)
  await write('secret', Buffer.alloc(32, 7).toString('base64'))
  const repository = await GitRepository.create(processes.folder, 'clusters')
  await repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify(agentConfiguration))
  for (const { id } of agents) {
    await repository.push(`.gitlab/agents/agent-${id}/config.yaml`, JSON.stringify(agentConfiguration))
    await repository.push(`.gitlab/agents/agent-${id}/views.yaml`, '{}\n')
  }
  const place = { processes, mains, repository: repository.path, ca: authority.certificate }
  await write('directory.yaml', directoryText(place))
  const ports = { older: await startKas(place, 'older'), newer: await startKas(place, 'newer') }
  for (const { id, own, dialled } of agents) {
    await write(`${id}.token`, `token-${id}`)
    const args = [
      mains[own]('agentk'),
      `--kas-address=grpc://127.0.0.1:${ports[dialled].agents}`,
      `--token-file=${join(processes.folder, `${id}.token`)}`,
      `--kubeconfig=${agentKubeconfig}`,
      '--observability-listen-address=127.0.0.1:0',
    ]
    const environment = { POD_NAME: `agentk-${id}`, POD_NAMESPACE: 'agentk' }
    await processes.spawn({ command: process.execPath, args, environment })
    const user = { token: `ci:${id}:${userToken}` }
    const server = `https://127.0.0.1:${ports[dialled].kubernetes}`
    await write(`${id}.kubeconfig`, kubeconfigText({ server, authority: authority.certificate, user }))
  }
  return { processes, mains, kubeconfigOf: (id: number) => join(processes.folder, `${id}.kubeconfig`) }
}

function directoryText({ repository }: Place): string {
  const directory = directoryFile(repository)
  const more = agents.map(({ id }) => {
    const sha256 = createHash('sha256').update(`token-${id}`).digest('hex')
    return { id, name: `agent-${id}`, project: 1, tokens: [{ sha256 }] }
  })
  return JSON.stringify({ ...directory, agents: [...directory.agents, ...more] })
}

async function startKas({ processes, mains }: Place, version: Version) {
  const { folder } = processes
  const ports = await freePorts(6)
  const [agents, kubernetes, rails, replicas, ops, gossip] = ports as [number, number, number, number, number, number]
  const at = (port: number) => ({ address: `127.0.0.1:${port}` })
  const authentication = { authentication_secret_file: join(folder, 'secret') }
  const tls = { certificate_file: join(folder, 'serving.crt'), key_file: join(folder, 'serving.key') }
  const configuration = {
    directory: { file: join(folder, 'directory.yaml') },
    agent: { listen: { ...at(agents), websocket: true }, kubernetes_api: { listen: { ...at(kubernetes), ...tls } } },
    api: { listen: { ...at(rails), ...authentication } },
    private_api: { listen: { ...at(replicas), ...authentication } },
    observability: { listen: at(ops) },
    ops: { socket: join(folder, `${version}.sock`) },
    cluster: { name: version, listen: at(gossip) },
  }
  const file = join(folder, `${version}.yaml`)
  await writeFile(file, JSON.stringify(configuration))
  const args = [mains[version]('kas'), `--configuration-file=${file}`]
  const kas = await processes.spawn({ command: process.execPath, args })
  await kas.says(/"msg":"API endpoint is up"/)
  return { agents, kubernetes }
}
