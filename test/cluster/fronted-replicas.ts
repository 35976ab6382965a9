import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { type AccessLine, accessLineSchema } from '../../src/kas/access-log/access-line.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import type { LineSink } from '../../src/lib/line-writer.ts'
import { askSocket } from '../support/ask-socket.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import { type KasApp, startKasApp } from '../support/kas-app.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { agentConfiguration, agentId, agentToken, directoryFile } from '../support/stack-directory.ts'
import { CountingRelay } from './counting-relay.ts'

/** Three replicas for a front, with plain ports, and agentk as a program that dials the front. */

/** Agents beside the stack's agent. */
export const otherAgents = Array.from({ length: 40 }, (_, i) => agentId + 1 + i)
export const tokenOf = (id: number) => (id === agentId ? agentToken : `${agentToken}-${id}`)
/** grace of running calls at a replica that stops. ms */
const patienceMs = 2000

export interface FrontedOptions {
  /** agents beside `otherAgents`, with tokens, for fakes */
  readonly moreAgents?: readonly number[]
  /** value of `agent.listen.max_connection_age`, such as `20s` */
  readonly maxConnectionAge?: string
  /** more keys of `agent.listen` and of `agent.kubernetes_api.listen`, which may name certificates in the folder */
  readonly listen?: (folder: string) => object
}

export interface FrontedReplica {
  readonly name: string
  readonly agentsPort: number
  readonly opsPort: number
  /** port 8154 */
  readonly kubernetesPort: number
  /** relay before 8154; the front sees this port */
  readonly relay: CountingRelay
  /** lines of its access log, which has all calls */
  readonly lines: readonly AccessLine[]
  /** values of its metric `kas_kubernetes_requests_total`, by outcome */
  outcomes(): Promise<Record<string, number>>
  /** Stops the replica as SIGTERM does, with a short grace. */
  stop(): Promise<void>
  /** Starts another instance after `stop`, with the same name and ports. */
  start(): Promise<void>
}

export class FrontedReplicas {
  readonly processes: Processes
  readonly cluster: ClusterDouble
  readonly all: readonly FrontedReplica[]
  /** PEM */
  readonly ca: string
  /** base64, content of `agent.kubernetes_api.accel_redirect_secret_file` */
  readonly accelSecret: string
  readonly #socket: string

  private constructor(init: Pick<FrontedReplicas, 'processes' | 'cluster' | 'all' | 'ca' | 'accelSecret'> & Sockets) {
    this.processes = init.processes
    this.cluster = init.cluster
    this.all = init.all
    this.ca = init.ca
    this.accelSecret = init.accelSecret
    this.#socket = init.sockets[0] as string
  }

  /** Resolves when the replicas reach one another; the folder of `processes` has certificates for a front. */
  static async start(t: Test, options: FrontedOptions = {}): Promise<FrontedReplicas> {
    const processes = await Processes.start(t)
    const { folder } = processes
    const authority = await Authority.create('front')
    const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    const accelSecret = Buffer.alloc(32, 5).toString('base64')
    await writeFile(join(folder, 'ca.crt'), authority.certificate)
    await writeFile(join(folder, 'front.crt'), serving.certificate)
    await writeFile(join(folder, 'front.key'), serving.key, { mode: 0o600 })
    await writeFile(join(folder, 'secret'), Buffer.alloc(32, 7).toString('base64'))
    await writeFile(join(folder, 'accel'), accelSecret)
    await writeDirectory(folder, [...otherAgents, ...(options.moreAgents ?? [])])
    const gossipPorts = await freePorts(3)
    const sockets = gossipPorts.map((_, i) => join(folder, `${i}.sock`))
    const all = await Promise.all(sockets.map((_, i) => startReplica(t, { folder, gossipPorts, sockets, options }, i)))
    await eventually(() => Promise.all(sockets.map(reachesAll)))
    const cluster = await ClusterDouble.start(t)
    return new FrontedReplicas({ processes, cluster, all, ca: authority.certificate, accelSecret, sockets })
  }

  /**
   * Starts agentk at `address`; resolves when so many replicas hold it: by default its home and its standby.
   *
   * @param behind.kubeconfig - path of its cluster's kubeconfig; default: the double's
   */
  async startAgentk(
    id: number,
    address: string,
    { kubeconfig, holders = 2 }: { kubeconfig?: string; holders?: number | 'some' } = {},
  ): Promise<TestProcess> {
    const { folder } = this.processes
    const own = join(folder, `agent-${id}.kubeconfig`)
    const token = join(folder, `agent-${id}.token`)
    await writeFile(own, kubeconfigText({ server: this.cluster.url, authority: this.ca, user: { token: 'any' } }))
    await writeFile(token, tokenOf(id))
    const [port] = await freePorts(1)
    const agentk = await this.processes.spawn({
      command: process.execPath,
      args: [
        mainOf('agentk'),
        `--kas-address=${address}`,
        `--token-file=${token}`,
        `--ca-cert-file=${join(folder, 'ca.crt')}`,
        `--kubeconfig=${kubeconfig ?? own}`,
        `--observability-listen-address=127.0.0.1:${port}`,
      ],
      environment: { POD_NAME: `agentk-${id}`, POD_NAMESPACE: 'default' },
    })
    await this.holders(id, holders)
    return agentk
  }

  /** Names of the replicas that hold each agent, by the agent's id; at most 200 agents. */
  async places(): Promise<Map<number, string>> {
    const { agents } = (await askSocket(this.#socket, '/status')) as StatusReport
    return new Map(agents.map(({ agentId, holders }) => [Number(agentId), holders.map(({ name }) => name).join()]))
  }

  /** Connections of one agent: each with its replica and its begin. */
  async connections(id: number): Promise<string[]> {
    const { agents } = (await askSocket(this.#socket, `/status?agent=${id}`)) as StatusReport
    const entries = agents[0]?.entries?.filter(({ kind }) => kind === 'connection') ?? []
    return entries.map(({ replica, since }) => `${replica} since ${since}`).sort()
  }

  /** Names of the replicas that hold the agent, once there are so many. */
  async holders(id: number, count: number | 'some'): Promise<string[]> {
    return await eventually(
      async () => {
        const { agents } = (await askSocket(this.#socket, `/status?agent=${id}`)) as StatusReport
        const names = agents[0]?.holders.map(({ name }) => name) ?? []
        if (count === 'some' ? names.length === 0 : names.length !== count)
          throw new Error(`agent ${id} is held by ${names.join(' and ') || 'none'}`)
        return names
      },
      { timeoutMs: 30_000 },
    )
  }
}

interface Sockets {
  readonly sockets: readonly string[]
}

interface Place extends Sockets {
  readonly options: FrontedOptions
  readonly folder: string
  readonly gossipPorts: readonly number[]
}

async function startReplica(t: Test, place: Place, i: number): Promise<FrontedReplica> {
  const name = `kas-${i}`
  const [agentsPort, opsPort, kubernetesPort] = (await freePorts(3)) as [number, number, number]
  const text = JSON.stringify(configuration(place, i, { agentsPort, opsPort, kubernetesPort }))
  const lines: AccessLine[] = []
  const accessSink = accessSinkInto(lines)
  let app: KasApp['app'] | undefined
  const start = async () => {
    ;({ app } = await startKasApp(t, text, { accessSink, env: process.env }))
  }
  await start()
  const outcomes = async () => {
    const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text()
    const all = text.matchAll(/^kas_kubernetes_requests_total\{outcome="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...all].map(([, outcome, count]) => [outcome, Number(count)]))
  }
  const relay = await CountingRelay.start(t, kubernetesPort)
  const stop = async () => await app?.stop(AbortSignal.timeout(patienceMs))
  return { name, agentsPort, opsPort, kubernetesPort, relay, outcomes, lines, stop, start }
}

function accessSinkInto(lines: AccessLine[]): LineSink {
  const writeNow = (bytes: Uint8Array) => {
    const texts = Buffer.from(bytes).toString('utf8').trimEnd().split('\n')
    lines.push(...texts.map((text) => accessLineSchema.parse(JSON.parse(text))))
  }
  return {
    write(bytes, from, done) {
      writeNow(bytes.subarray(from))
      setImmediate(done, bytes.length)
    },
    writeNow,
  }
}

interface ReplicaPorts {
  readonly agentsPort: number
  readonly opsPort: number
  readonly kubernetesPort: number
}

function configuration(place: Place, i: number, ports: ReplicaPorts): object {
  const { folder, gossipPorts, sockets, options } = place
  const { maxConnectionAge: age } = options
  const more = options.listen?.(folder)
  const at = (port: number) => ({ address: `127.0.0.1:${port}`, listen_grace_period: '0s' })
  return {
    directory: { file: join(folder, 'directory.yaml') },
    agent: {
      listen: {
        ...at(ports.agentsPort),
        websocket: true,
        ...more,
        ...(age === undefined ? {} : { max_connection_age: age }),
      },
      kubernetes_api: {
        listen: { ...at(ports.kubernetesPort), ...more },
        accel_redirect_secret_file: join(folder, 'accel'),
      },
    },
    private_api: { listen: { ...at(0), authentication_secret_file: join(folder, 'secret') } },
    observability: {
      listen: { address: `127.0.0.1:${ports.opsPort}` },
      access_log: { rules: [{ level: 'metadata' }] },
    },
    ops: { socket: sockets[i] },
    cluster: {
      name: `kas-${i}`,
      listen: { address: `127.0.0.1:${gossipPorts[i]}` },
      discovery: { static: gossipPorts.map((port) => `127.0.0.1:${port}`) },
    },
  }
}

async function writeDirectory(folder: string, agents: readonly number[]): Promise<void> {
  await mkdir(join(folder, 'git'))
  const repository = await GitRepository.create(join(folder, 'git'), 'clusters')
  const directory = directoryFile(repository.path)
  const others = agents.map((id) => {
    const sha256 = createHash('sha256').update(tokenOf(id)).digest('hex')
    return { id, name: `agent-${id}`, project: 1, tokens: [{ sha256 }] }
  })
  await writeFile(
    join(folder, 'directory.yaml'),
    JSON.stringify({ ...directory, agents: [...directory.agents, ...others] }),
    { mode: 0o600 },
  )
  for (const agent of ['prod', 'agent-43', 'agent-44', 'agent-45']) {
    await repository.push(`.gitlab/agents/${agent}/config.yaml`, JSON.stringify(agentConfiguration))
  }
}

async function reachesAll(socket: string): Promise<void> {
  const { members = [] } = (await askSocket(socket, '/status')) as StatusReport
  const inReach = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
  if (inReach.length < 3) throw new Error(`${socket} reaches ${inReach.length} of 3`)
}
