import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import type { Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import type { StatusReport } from '../../../src/kas/servers/ops-socket/status-report.ts'
import { GitPushEventRequestSchema } from '../../../src/proto/gen/notifications_pb.ts'
import { callUnary, connect, jwt, metadataOf } from '../../contract/rails-server/start-server.ts'
import { askSocket } from '../ask-socket.ts'
import { eventually } from '../eventually.ts'
import { FakeAgent } from '../fake-agent.ts'
import { startKasApp } from '../kas-app.ts'
import { GitlabDouble, type GitlabDoubleOptions } from './gitlab-double.ts'

export interface WholeReplicasOptions extends GitlabDoubleOptions {
  readonly infoTtl?: string
  /** default: no polls, only push events */
  readonly pollPeriod?: string
  /** keys of `agent.gitops`, as YAML */
  readonly gitops?: string
  /** port 8154 listens too */
  readonly withProxy?: boolean
  /** endpoint of a collector of traces */
  readonly otlpEndpoint?: string
}

/** Starts whole replicas of kas in this process, all with one GitLab, which calls the first. */
export async function startWholeReplicas(
  t: Test,
  count: number,
  {
    infoTtl = '300s',
    pollPeriod = '3600s',
    withProxy = false,
    gitops = '',
    otlpEndpoint,
    ...options
  }: WholeReplicasOptions = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'whole-replicas-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const gitlab = await GitlabDouble.start(t, options)
  await writeFile(join(folder, 'secret'), gitlab.secret.toString('base64'))
  const gossipPorts = await freePorts(count)
  const place = { folder, gitlab: gitlab.address, gossipPorts, infoTtl, pollPeriod, gitops, withProxy, otlpEndpoint }
  const replicas = await Promise.all(gossipPorts.map((_, i) => startReplica(t, { ...place, i })))
  const first = replicas[0] as Replica
  if (count > 1) await Promise.all(replicas.map(({ socket }) => eventually(() => reachesAll(socket, count))))
  const rails = connect(t, first.portOf('API'))
  const callRails = async (method: string, request: Uint8Array) => {
    const metadata = metadataOf({ authorization: `bearer ${await jwt({ key: gitlab.secret })}` })
    return await callUnary(rails, method, request, metadata)
  }
  /** Sends a push event to the first replica, as GitLab does. */
  const tellPush = async (fullPath: string, id = 1n) => {
    const event = { project: { id, fullPath } }
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
    const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
    t.equal((await callRails(method, request)).code, status.OK)
  }
  /** Starts a replica again after its stop, at other ports, but with the same port for its gossip. */
  const startAgain = async (i: number) => {
    const replica = await startReplica(t, { ...place, i })
    replicas[i] = replica
    await eventually(() => reachesAll(replica.socket, count))
    return replica
  }
  return { gitlab, replicas, callRails, tellPush, startAgain }
}

export type Replica = Awaited<ReturnType<typeof startReplica>>

interface Place {
  readonly folder: string
  readonly gitlab: string
  readonly gossipPorts: readonly number[]
  readonly i: number
  readonly infoTtl: string
  readonly pollPeriod: string
  readonly gitops: string
  readonly withProxy: boolean
  readonly otlpEndpoint: string | undefined
}

async function startReplica(t: Test, place: Place) {
  const { folder, gitlab, gossipPorts, i, infoTtl, pollPeriod, gitops, withProxy, otlpEndpoint } = place
  const secret = `authentication_secret_file: ${join(folder, 'secret')}`
  const socket = join(folder, `kas-${i}.sock`)
  const local = 'address: "127.0.0.1:0", listen_grace_period: 0s'
  const { app, lines, portOf } = await startKasApp(
    t,
    `
gitlab: { address: "${gitlab}", ${secret}, external_url: "https://gitlab.example.com" }
agent:
  listen: { ${local} }
  info_cache_ttl: ${infoTtl}
  configuration: { poll_period: ${pollPeriod}, max_configuration_file_size: 1000 }
  gitops: { ${gitops} }
  ${withProxy ? `kubernetes_api: { listen: { ${local} } }` : ''}
api: { listen: { ${local}, ${secret} } }
private_api: { listen: { ${local}, ${secret} } }
observability:
  listen: { address: "127.0.0.1:0" }
  ${otlpEndpoint === undefined ? '' : `tracing: { otlp_endpoint: "${otlpEndpoint}" }`}
ops: { socket: ${socket} }
cluster:
  name: kas-${i}
  listen: { address: "127.0.0.1:${gossipPorts[i]}" }
  discovery: { static: [${gossipPorts.map((port) => `"127.0.0.1:${port}"`).join(', ')}] }
`,
  )
  const dial = async (token = 'glagent-prod') => {
    const agent = await FakeAgent.dial(portOf('Agentk API'), token)
    t.teardown(() => agent.close())
    return agent
  }
  const metrics = async () => await (await fetch(`http://127.0.0.1:${portOf('Observability')}/metrics`)).text()
  return { name: `kas-${i}`, app, socket, lines, portOf, dial, metrics }
}

async function reachesAll(socket: string, count: number): Promise<void> {
  const { members = [] } = (await askSocket(socket, '/status')) as StatusReport
  const reached = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
  if (reached.length < count) throw new Error(`it reaches ${reached.length} of ${count}`)
}
