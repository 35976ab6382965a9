import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiDouble } from '../../dev/api-double/api-double.ts'
import { Balancer } from '../../dev/balancer.ts'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { Warden } from '../../dev/control-plane/warden.ts'
import { Caller } from '../../dev/demo/caller.ts'
import { agentAddress } from '../../dev/start/local-programs.ts'
import { LocalReplica } from '../../dev/start/local-replica.ts'
import type { Ports, ReplicaPorts } from '../../dev/start/ports.ts'
import { type ReplicaView, viewReplicas } from '../../dev/start/replica-table.ts'
import { files, replicaName, writeSettings } from '../../dev/start/settings.ts'

const count = 3
/** limit for processes to learn of a change: a silently lost connection is noticed after 70 s. ms */
const settleMs = 100_000
/** interval of checks of another process. ms */
const askAgainMs = 50

/** Three replicas of kas as processes, a balancer, and an API double in place of the cluster. */
export class Ground {
  readonly replicas: readonly LocalReplica[]
  readonly balancer: Balancer
  readonly ports: Ports
  readonly inputs: { readonly folder: string; readonly ports: Ports; readonly warden: Warden }
  /** PEM */
  readonly authority: string
  readonly kubeconfig: string
  readonly #double: ApiDouble
  readonly #apiToken: string
  #credential = ''
  #agentToken = ''

  private constructor(
    init: Pick<Ground, 'inputs' | 'authority' | 'kubeconfig'> & { double: ApiDouble; token: string },
  ) {
    this.inputs = init.inputs
    this.ports = init.inputs.ports
    this.authority = init.authority
    this.kubeconfig = init.kubeconfig
    this.#double = init.double
    this.#apiToken = init.token
    const { folder, warden } = this.inputs
    this.replicas = this.ports.replicas.map(
      (ports, i) => new LocalReplica({ warden }, { name: replicaName(i), folder, ports }),
    )
    const replicas = this.replicas.map(({ balanced }) => balanced)
    this.balancer = new Balancer({ fronts: [this.ports.agents, this.ports.kubernetes], replicas })
  }

  /** Resolves once the replicas know one another; there is no agent. */
  static async start(): Promise<Ground> {
    const folder = await mkdtemp(join(tmpdir(), 'bench-failover-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const ports = await choosePorts()
    const authority = await Authority.create('kas bench')
    const inputs = { folder, ports, warden }
    const { userCredential } = await writeSettings({ ...inputs, authority })
    const token = randomBytes(24).toString('base64url')
    const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    const double = new ApiDouble({ serving, clientAuthority: authority.certificate }, { token })
    await double.start()
    const kubeconfig = join(folder, 'cluster.kubeconfig')
    const user = { token }
    const text = kubeconfigText({ server: double.url, authority: authority.certificate, user })
    await writeFile(kubeconfig, text, { mode: 0o600 })
    const ground = new Ground({ inputs, authority: authority.certificate, kubeconfig, double, token })
    ground.#credential = userCredential
    ground.#agentToken = (await readFile(join(folder, files.agentToken), 'utf8')).trim()
    for (const replica of ground.replicas) await replica.start()
    await ground.settled()
    await ground.balancer.start()
    return ground
  }

  async stop(): Promise<void> {
    for (const replica of this.replicas) replica.signal('SIGKILL')
    await Promise.all(this.replicas.map(({ exited }) => exited))
    await this.balancer.stop()
    await this.#double.stop()
    await this.inputs.warden.stop()
    await rm(this.inputs.folder, { recursive: true, force: true })
  }

  get agentToken(): string {
    return this.#agentToken
  }

  /** address of the balancer, for agents */
  get agentsUrl(): string {
    return agentAddress(this.ports)
  }

  get api(): { readonly url: string; readonly token: string } {
    return { url: this.#double.url, token: this.#apiToken }
  }

  /** Returns a caller with connections of its own. */
  caller(replica: LocalReplica | 'the balancer'): Caller {
    const { name, port } =
      replica === 'the balancer'
        ? { name: replica, port: this.ports.kubernetes }
        : { name: replica.name, port: replica.ports.kubernetes }
    return new Caller({ name, port, authority: this.authority, credential: this.#credential })
  }

  /** Resolves once all replicas are ready and know one another. */
  async settled(): Promise<void> {
    await this.until('all replicas know one another', (views) =>
      views.every(({ ready, members }) => ready && members === count),
    )
  }

  /** Resolves with the replica that has the tunnels of a fresh agent, once they are at their places. */
  async holder(kind: 'agentk' | 'stock'): Promise<LocalReplica> {
    const isHome = ({ roles, rank }: ReplicaView) =>
      roles.includes('home') && (kind === 'stock' || (roles.length === 1 && rank === 1))
    const isStandby = ({ roles, rank }: ReplicaView) => roles.length === 1 && roles[0] === 'standby' && rank === 2
    const check = (views: ReplicaView[]) =>
      views.filter(isHome).length === 1 &&
      views.filter(({ roles }) => roles.length > 0).length === (kind === 'stock' ? 1 : 2) &&
      (kind === 'stock' || views.some(isStandby))
    const views = await this.until('the agent has its places', check)
    const name = views.find(isHome)?.name
    return this.replicas.find((replica) => replica.name === name) as LocalReplica
  }

  /** Resolves once no replica knows the agent. */
  async forgotten(): Promise<void> {
    await this.until('the agent is forgotten', (views) => views.every(({ roles }) => roles.length === 0))
  }

  /** @throws Error when it takes too long */
  async until(what: string, check: (views: ReplicaView[]) => boolean): Promise<ReplicaView[]> {
    for (const end = performance.now() + settleMs; ; await sleep(askAgainMs)) {
      const views = await viewReplicas(this.replicas)
      if (check(views)) return views
      if (performance.now() > end) throw new Error(`not in ${settleMs / 1000} s: ${what}: ${JSON.stringify(views)}`)
    }
  }
}

async function choosePorts(): Promise<Ports> {
  const free = await freePorts(3 + 6 * count)
  const next = () => free.pop() as number
  const replicas: ReplicaPorts[] = Array.from({ length: count }, () => ({
    agents: next(),
    ops: next(),
    rails: next(),
    kubernetes: next(),
    replicas: next(),
    gossip: next(),
  }))
  return { agents: next(), kubernetes: next(), agentkOps: next(), replicas }
}
