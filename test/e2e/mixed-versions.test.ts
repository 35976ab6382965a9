import { createHash, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { ProgramName } from '../../dev/package/bundle.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { FrontClient, kubernetesPath } from '../cluster/front-client.ts'
import { callUnary, connect, jwt, metadataOf } from '../contract/rails-server/start-server.ts'
import { askSocket } from '../support/ask-socket.ts'
import { ClusterDouble, largeBytes } from '../support/cluster-double.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import { extractOlderVersion, withoutOlderVersion } from '../support/older-version.ts'
import { Processes } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { agentConfiguration, directoryFile } from '../support/stack-directory.ts'

/** An older version and this one, as they meet in a rolling update: replicas of both, and agents of both at each. */

const versions = ['older', 'newer'] as const
type Version = (typeof versions)[number]
/** each name has the agent's version first, then the version of the replica that the agent dials */
const agents = versions.flatMap((own, i) => versions.map((dialled, k) => ({ id: 50 + 2 * i + k, own, dialled })))
const secret = Buffer.alloc(32, 7)
const ports = ['agents', 'kubernetes', 'rails', 'replicas', 'ops', 'gossip'] as const
type Ports = Readonly<Record<(typeof ports)[number], number>>
interface Place {
  readonly processes: Processes
  readonly folder: string
  readonly mains: Readonly<Record<Version, (program: ProgramName) => string>>
  readonly places: Readonly<Record<Version, Ports>>
}

async function portsOf(): Promise<Ports> {
  const free = await freePorts(ports.length)
  return Object.fromEntries(ports.map((name, i) => [name, free[i] as number])) as Ports
}

async function start(t: Test) {
  const processes = await Processes.start(t)
  const folder = join(processes.folder, 's')
  await mkdir(folder)
  const mains = { older: await extractOlderVersion(join(processes.folder, 'older')), newer: mainOf }
  const place: Place = { processes, folder, mains, places: { older: await portsOf(), newer: await portsOf() } }
  const ca = await writeFiles(folder)
  const cluster = await ClusterDouble.start(t)
  await Promise.all(versions.map((version) => startKas(place, version)))
  await Promise.all(
    agents.map((agent) =>
      startAgentk(place, agent, kubeconfigText({ server: cluster.url, authority: ca, user: { token: 'any' } })),
    ),
  )
  await Promise.all(versions.map((version) => eventually(() => knowsAll(join(folder, `${version}.sock`)))))
  return { ca, places: place.places }
}

async function writeFiles(folder: string): Promise<string> {
  const authority = await Authority.create('versions')
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  await writeFile(join(folder, 'serving.crt'), serving.certificate)
  await writeFile(join(folder, 'serving.key'), serving.key, { mode: 0o600 })
  await writeFile(join(folder, 'secret'), secret.toString('base64'))
  const repository = await GitRepository.create(folder, 'clusters')
  await repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify(agentConfiguration))
  const directory = directoryFile(repository.path)
  const more = agents.map(({ id }) => {
    const sha256 = createHash('sha256').update(`token-${id}`).digest('hex')
    return { id, name: `agent-${id}`, project: 1, tokens: [{ sha256 }] }
  })
  const file = JSON.stringify({ ...directory, agents: [...directory.agents, ...more] })
  await writeFile(join(folder, 'directory.yaml'), file, { mode: 0o600 })
  return authority.certificate
}

async function startKas({ processes, folder, mains, places }: Place, version: Version): Promise<void> {
  const { agents, kubernetes, rails, replicas, ops, gossip } = places[version]
  const at = (port: number) => ({ address: `127.0.0.1:${port}`, listen_grace_period: '0s' })
  const authentication = { authentication_secret_file: join(folder, 'secret') }
  const tls = { certificate_file: join(folder, 'serving.crt'), key_file: join(folder, 'serving.key') }
  const configuration = {
    directory: { file: join(folder, 'directory.yaml') },
    agent: {
      listen: { ...at(agents), websocket: true },
      kubernetes_api: { listen: { ...at(kubernetes), ...tls }, url_path_prefix: kubernetesPath },
    },
    api: { listen: { ...at(rails), ...authentication } },
    private_api: { listen: { ...at(replicas), ...authentication } },
    observability: { listen: { address: `127.0.0.1:${ops}` } },
    ops: { socket: join(folder, `${version}.sock`) },
    cluster: {
      name: version,
      listen: { address: `127.0.0.1:${gossip}` },
      discovery: { static: versions.map((each) => `127.0.0.1:${places[each].gossip}`) },
    },
  }
  const file = join(folder, `${version}.yaml`)
  await writeFile(file, JSON.stringify(configuration))
  const args = [mains[version]('kas'), `--configuration-file=${file}`]
  const kas = await processes.spawn({ command: process.execPath, args })
  await kas.says(/"msg":"API endpoint is up"/)
}

async function startAgentk(place: Place, agent: (typeof agents)[number], kubeconfig: string): Promise<void> {
  const { processes, folder, mains, places } = place
  const { id, own, dialled } = agent
  await writeFile(join(folder, `${id}.token`), `token-${id}`)
  await writeFile(join(folder, `${id}.kubeconfig`), kubeconfig)
  await processes.spawn({
    command: process.execPath,
    args: [
      mains[own]('agentk'),
      `--kas-address=grpc://127.0.0.1:${places[dialled].agents}`,
      `--token-file=${join(folder, `${id}.token`)}`,
      `--kubeconfig=${join(folder, `${id}.kubeconfig`)}`,
      '--observability-listen-address=127.0.0.1:0',
    ],
    environment: { POD_NAME: `agentk-${id}`, POD_NAMESPACE: 'default' },
  })
}

async function knowsAll(socket: string): Promise<void> {
  const { agents: known, members = [] } = (await askSocket(socket, '/status')) as StatusReport
  if (members.filter(({ reach }) => /^(self|reachable)$/.test(reach)).length < 2) throw new Error('one is not reached')
  if (known.length < agents.length) throw new Error(`${known.length} agents are known`)
}

const pushEvent = { event: { project: { id: 1n, fullPath: 'platform/clusters' } } }

t.test('an older version and this one', { skip: withoutOlderVersion }, async (t) => {
  const { ca, places } = await start(t)
  const body = randomBytes(300_000)
  const sha256 = createHash('sha256').update(body).digest('hex')
  for (const entry of versions) {
    const url = `https://127.0.0.1:${places[entry].kubernetes}`
    for (const { id, own, dialled } of agents) {
      await t.test(`${entry} entry, ${dialled} replica, ${own} agent`, async (t) => {
        const client = new FrontClient({ url, ca }, id)
        t.match(await client.echo('/api?a=b'), { method: 'GET', url: '/api?a=b' })
        t.match(await client.echo('/api', { method: 'POST', body }), { method: 'POST', bytes: body.length, sha256 })
        t.equal((await client.send('/large')).body.length, largeBytes)
        const many = await Promise.all(Array.from({ length: 20 }, (_, i) => client.echo(`/${i}`)))
        t.strictSame(
          many.map((told) => told.url),
          many.map((_, i) => `/${i}`),
        )
        const socket = await client.upgrade('/echo', 'SPDY/3.1', 'POST')
        socket.write('second')
        let text = ''
        for await (const chunk of socket) {
          text += chunk
          if (text.length >= 12) break
        }
        t.equal(text, 'first,second')
      })
    }
    const metadata = metadataOf({ authorization: `bearer ${await jwt({ key: secret })}` })
    const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, pushEvent))
    const answer = await callUnary(connect(t, places[entry].rails), method, request, metadata)
    t.match(answer, { code: status.OK }, `a push that the ${entry} one hears`)
  }
})
