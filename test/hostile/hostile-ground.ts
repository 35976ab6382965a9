import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { Programs } from '../../dev/start/local-programs.ts'
import type { LocalReplica } from '../../dev/start/local-replica.ts'
import { statusOf, viewReplicas } from '../../dev/start/replica-table.ts'
import { agent, files, replicaFiles, replicaName } from '../../dev/start/settings.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { agentkProgram } from '../soak/agentk-program.ts'
import type { KubeOptions } from '../soak/kube.ts'
import { type AgentPlace, RollingGround } from '../soak/rolling/rolling-ground.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { GitPushes } from '../support/git-pushes.ts'
import { testEndpoint } from '../support/test-endpoint.ts'
import { clusterClient } from './cluster-client.ts'
import { evilWorkload, workloadPath } from './evil-workload.ts'
import type { GoodPlace } from './good-load.ts'
import { GoodSource, goodNamespace, goodSource } from './good-source.ts'
import { evilSources, SharedApiServer } from './shared-api-server.ts'
import type { SlowGitlab } from './slow-gitlab.ts'
import type { Stage, Tenant } from './stage.ts'
import { evilId, goodConfiguration, newcomerId, Tenants } from './tenants.ts'

/** a program whose event loop and memory are watched */
export interface Watched {
  readonly name: string
  readonly opsPort: number
  readonly pid: () => number | undefined
  /** its memory includes that of processes that it has started, such as git */
  readonly withChildren?: true
}

export interface HostileReplica extends Watched {
  readonly local: LocalReplica
  readonly access: KubeOptions
}

const graces = { listen: '0s', shutdown: '1s' }
const readyMs = 60_000
/**
 * exit codes of `kas health`: progressing, and degraded once another tenant's objects are; on the double nothing has a
 * verdict
 */
const realCodes = [3, 4]
const doubleCodes = [5]

export interface HostileGroundOptions {
  /** replaces the directory file; good tenants then have neither views nor sources */
  readonly gitlab?: SlowGitlab | undefined
  /** address of a front that sends PROXY headers to 8150 and 8154; default: none */
  readonly front?: string | undefined
  /** value of KUBEBUILDER_ASSETS: the cluster is a real API server, which the evil tenant shares. Default: a double */
  readonly assets?: string | undefined
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
}

interface Parts {
  readonly entry: HostileReplica
  readonly holder: HostileReplica
  readonly stage: Stage
  readonly newcomer: Tenant
  readonly hookSecret: string | undefined
  readonly users: readonly string[]
  readonly watched: readonly Watched[]
  readonly agentk: Watched
  readonly place: GoodPlace | undefined
  readonly ground: RollingGround
  readonly release: () => Promise<void>
}

/** Three replicas, a cluster, one agentk of a good tenant, and the rights of an evil tenant. */
export class HostileGround {
  readonly entry: HostileReplica
  readonly holder: HostileReplica
  readonly stage: Stage
  readonly newcomer: Tenant
  /** secret of hooks for the newcomer's project; absent: GitLab has all projects */
  readonly hookSecret: string | undefined
  /** credentials of users of the good agent */
  readonly users: readonly string[]
  readonly watched: readonly Watched[]
  /** one of `watched` */
  readonly agentk: Watched
  /** views and GitOps of good tenants; absent: none */
  readonly place: GoodPlace | undefined
  readonly #ground: RollingGround
  readonly #release: () => Promise<void>

  private constructor(parts: Parts) {
    this.entry = parts.entry
    this.holder = parts.holder
    this.stage = parts.stage
    this.newcomer = parts.newcomer
    this.hookSecret = parts.hookSecret
    this.users = parts.users
    this.watched = parts.watched
    this.agentk = parts.agentk
    this.place = parts.place
    this.#ground = parts.ground
    this.#release = parts.release
  }

  static async start(signal: AbortSignal, options: HostileGroundOptions = {}): Promise<HostileGround> {
    const { gitlab, front, assets, programs } = options
    const tenants = new Tenants()
    const isAlone = !gitlab && assets === undefined // GitLab and the real cluster give them no rights
    const server = assets === undefined ? undefined : await SharedApiServer.start(assets)
    let ground: RollingGround | undefined
    let own: AgentPlace | undefined
    let agentk: Watched | undefined
    let pushes: GitPushes | undefined
    const release = async () => {
      pushes?.close()
      await server?.stop()
    }
    try {
      ground = await RollingGround.start(
        {
          assets: undefined,
          ...(server ? { kubeconfig: server.kubeconfig } : {}),
          graces,
          programs,
          doubleOptions: { workload: evilWorkload },
          prepare: async (folder) => {
            await configure(folder, front)
            if (gitlab) await tenants.tell(gitlab, folder)
            else {
              await tenants.write(folder)
              await server?.prepare(folder)
              pushes = await openProject(folder, server)
            }
            return undefined
          },
          startAgents: async (place) => {
            own = place
            if (!server) await createNamespace(place)
            const started = await startAgentk(place, programs, await server?.environment())
            agentk = started.watched
            return started
          },
        },
        signal,
      )
      const [holder, standby, entry] = await roles(ground)
      const { access } = ground
      const watch = (local: LocalReplica): Watched => ({
        name: local.name,
        opsPort: local.ports.ops,
        pid: () => local.pid,
        withChildren: true,
      })
      const of = (local: LocalReplica) => ({
        ...watch(local),
        local,
        access: (ground as RollingGround).accessOf(local),
      })
      const stage: Stage = {
        ca: access.ca,
        entry: entry.ports,
        holder: holder.ports,
        standby: standby.ports,
        evil: tenants.evil,
        evilRepository: tenants.evilRepository,
        workload: { path: workloadPath, userCredential: access.credential },
        ...(server ? { shared: server.shared } : {}),
        ...(isAlone ? { neighbour: tenants.neighbour, fleet: tenants.fleet } : {}),
      }
      const ways = [of(entry), of(holder)] as const
      const place = pushes && (await goodPlace(own as AgentPlace, { ways, pushes, isReal: server !== undefined }))
      return new HostileGround({
        entry: ways[0],
        holder: ways[1],
        stage,
        newcomer: {
          agentToken: tenants.newcomerToken,
          userCredential: access.credential.replace(/:\d+:/, `:${newcomerId}:`),
        },
        hookSecret: gitlab ? undefined : tenants.hookSecret,
        users: isAlone ? tenants.colleagues : [access.credential],
        watched: [...ground.replicas.map(watch), agentk as Watched],
        agentk: agentk as Watched,
        place,
        ground,
        release,
      })
    } catch (error) {
      await ground?.stop()
      await release()
      throw error
    }
  }

  /** Total length of the methods of the evil tenant's agent at the entry, where that agent is not connected. bytes */
  async toldOfEvil(): Promise<number> {
    const { agents } = (await askSocket(this.entry.local.socket, `/status?agent=${evilId}`)) as StatusReport
    const methods = agents.flatMap(({ entries = [] }) => entries.flatMap((entry) => entry.methods))
    return methods.reduce((sum, method) => sum + method.length, 0)
  }

  /** Links between replicas that cannot pass calls on, as `kas-0 to kas-1: down`. */
  async brokenLinks(): Promise<string[]> {
    const reports = await Promise.all(
      this.#ground.replicas.map(async ({ name, socket }) => ({ name, status: await statusOf(socket) })),
    )
    return reports.flatMap(({ name, status }) => {
      if (!status?.members) return [`${name} does not answer`]
      const others = status.members.filter(({ reach }) => reach !== 'self')
      const broken = others.filter(({ reach }) => reach === 'unreachable' || reach === 'down')
      const lines = broken.map(({ name: other, reach }) => `${name} to ${other}: ${reach}`)
      return others.length === 2 ? lines : [...lines, `${name} knows ${others.length} others`]
    })
  }

  async stop(): Promise<void> {
    this.place?.cluster.close()
    await this.#ground.stop()
    await this.#release()
  }
}

/** Writes the agent's configuration: its users and its sources; and the good source's first commit. */
async function openProject(folder: string, server: SharedApiServer | undefined): Promise<GitPushes> {
  const [repository, secretFile] = [join(folder, files.repository), join(folder, files.secret)]
  const pushes = new GitPushes({ repository, secretFile, project: agent.project })
  const sources = [goodSource, ...(server ? evilSources : [])]
  await pushes.commit({
    [`.gitlab/agents/${agent.name}/gitops.yaml`]: stringify({ gitops: { manifest_projects: sources } }),
    [`.gitlab/agents/${agent.name}/config.yaml`]: server?.configuration ?? goodConfiguration,
  })
  return pushes
}

/** Repositories are polled as rarely as by default, since all pushes are announced. */
async function configure(folder: string, front: string | undefined): Promise<void> {
  const trust = front === undefined ? {} : { trusted_proxies: [front], proxy_protocol: true }
  for (let i = 0; i < 3; i++) {
    const file = join(folder, replicaFiles(replicaName(i)).configuration)
    const configuration = parse(await readFile(file, 'utf8'))
    const { listen, kubernetes_api: api } = configuration.agent
    delete configuration.agent.configuration
    for (const block of [listen, api.listen]) Object.assign(block, trust)
    await writeFile(file, stringify(configuration))
  }
}

async function createNamespace({ kubeconfig }: AgentPlace): Promise<void> {
  const cluster = await clusterClient(kubeconfig)
  await cluster.create('/api/v1/namespaces', { metadata: { name: goodNamespace } })
  cluster.close()
}

async function goodPlace(
  { folder, kubeconfig }: AgentPlace,
  { ways, pushes, isReal }: { ways: readonly HostileReplica[]; pushes: GitPushes; isReal: boolean },
): Promise<GoodPlace> {
  const cluster = await clusterClient(kubeconfig)
  const namespaced = ['--namespace', goodNamespace]
  const kubeconfigs = ways.map(({ name }) => join(folder, `${name}.kubeconfig`))
  for (const [i, { access }] of ways.entries()) {
    const { server, ca: authority, credential: token } = access
    await writeFile(kubeconfigs[i] as string, kubeconfigText({ server, authority, user: { token } }), { mode: 0o600 })
  }
  return {
    cluster,
    endpoints: ways.map(({ access: { server, ca, credential } }) =>
      testEndpoint({
        url: new URL(server),
        agentId: String(agent.id),
        authorization: `Bearer ${credential}`,
        tls: { ca },
      }),
    ),
    kubeconfigs,
    healthArgs: isReal ? [namespaced, []] : [namespaced],
    healthCodes: isReal ? realCodes : doubleCodes,
    source: new GoodSource({ pushes, cluster, railsPort: (ways[0] as HostileReplica).local.ports.rails }),
  }
}

async function startAgentk(
  { warden, ...place }: AgentPlace,
  programs: Programs | undefined,
  environment: Readonly<Record<string, string>> = {},
) {
  const [opsPort] = (await freePorts(1)) as [number]
  const options = {
    ...place,
    scheme: 'grpcs',
    opsPort,
    podName: 'agentk-0',
    logFile: 'agentk-0.log',
    programs,
    flags: ['--callers-may-impersonate=any'], // needed by `greedy-identities`
    environment,
  } as const
  const program = agentkProgram({ warden }, options)
  await program.start()
  return { watched: { name: 'agentk', opsPort, pid: () => program.pid }, stop: () => program.stop() }
}

/** Waits until the good agent has a home and a standby. @returns home, standby, and the replica that is neither */
async function roles({ replicas }: RollingGround): Promise<[LocalReplica, LocalReplica, LocalReplica]> {
  return await eventually(
    async () => {
      const views = await viewReplicas(replicas)
      const at = (role: string) => views.findIndex(({ roles }) => roles.join() === role)
      const found = ['home', 'standby', ''].map((role) => replicas[at(role)])
      if (found.includes(undefined))
        throw new Error(`the agent is at ${views.map(({ roles }) => roles.join('+') || 'none')}`)
      return found as [LocalReplica, LocalReplica, LocalReplica]
    },
    { timeoutMs: readyMs },
  )
}
