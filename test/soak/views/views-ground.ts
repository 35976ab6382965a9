import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { Parts } from '../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import type { Program } from '../../../dev/control-plane/program.ts'
import { createServiceAccount } from '../../../dev/control-plane/service-account.ts'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { createProjectRepository } from '../../../dev/start/project-repository.ts'
import { holdersOf, viewReplicas } from '../../../dev/start/replica-table.ts'
import { agent, files } from '../../../dev/start/settings.ts'
import type { Endpoint } from '../../../src/kas/cli/views/endpoint.ts'
import { agentkProgram } from '../agentk-program.ts'
import { type AgentPlace, RollingGround } from '../rolling/rolling-ground.ts'

export interface ViewsGroundOptions {
  /** what KUBEBUILDER_ASSETS names */
  readonly assets: string
  readonly parts: Parts
  /** of kube-apiserver */
  readonly flags?: readonly string[]
}

/** `agent`: all that agentk's account may; `user`: what `gitlab:user:ada` may */
export type Viewer = 'agent' | 'user'

const graces = { listen: '0s', shutdown: '1s' }
export const rbac = '/apis/rbac.authorization.k8s.io/v1'
/** a role that reads everything, and what gives it to agentk's account */
export const readers = 'agentk-reads'
const leaseOfAgent = `/apis/coordination.k8s.io/v1/namespaces/default/leases/agent-${agent.id}-lock`
const dayMs = 24 * 3_600_000

/** A real API server, three replicas of kas behind a balancer, and two pods of agentk with an account of their own. */
export class ViewsGround {
  readonly controlPlane: ControlPlane
  readonly #ground: RollingGround
  readonly #pods: readonly AgentkPod[]
  readonly #folder: string
  readonly #credentials: Readonly<Record<Viewer, string>>

  private constructor(parts: {
    controlPlane: ControlPlane
    ground: RollingGround
    pods: readonly AgentkPod[]
    folder: string
    credentials: Readonly<Record<Viewer, string>>
  }) {
    this.controlPlane = parts.controlPlane
    this.#ground = parts.ground
    this.#pods = parts.pods
    this.#folder = parts.folder
    this.#credentials = parts.credentials
  }

  static async start({ assets, parts, flags = [] }: ViewsGroundOptions, signal: AbortSignal): Promise<ViewsGround> {
    const controlPlane = new ControlPlane({ assets, parts, flags })
    await controlPlane.start()
    try {
      const kubeconfig = await agentkAccount(controlPlane)
      let [folder, pods]: [string, AgentkPod[]] = ['', []]
      const startAgents = async (place: AgentPlace) => {
        folder = place.folder
        const opsPorts = await freePorts(2)
        pods = opsPorts.map((opsPort, i) => new AgentkPod(place, { name: `agentk-${i}`, opsPort }))
        await Promise.all(pods.map((pod) => pod.start()))
        return { stop: () => Promise.all(pods.map((pod) => pod.stop())) }
      }
      const ground = await RollingGround.start({ assets, kubeconfig, graces, startAgents, prepare }, signal)
      const credentialIn = async (file: string) =>
        (await readFile(join(folder, file), 'utf8')).trim().replace(/^Authorization: /, '')
      const credentials = { agent: await credentialIn(files.jobHeader), user: await credentialIn(files.userHeader) }
      return new ViewsGround({ controlPlane, ground, pods, folder, credentials })
    } catch (error) {
      await controlPlane.stop()
      throw error
    }
  }

  /** of the cluster, by itself */
  get admin(): ApiClient {
    return this.controlPlane.admin
  }

  /** Through the balancer. */
  endpoint(viewer: Viewer): Endpoint {
    const { server, ca } = this.#ground.access
    const url = new URL('/views', server)
    url.protocol = 'wss:'
    return { url, agentId: String(agent.id), authorization: this.#credentials[viewer], tls: { ca } }
  }

  /** @returns path of a kubeconfig that goes through kas as the agent */
  async kubeconfig(): Promise<string> {
    const { server, ca } = this.#ground.access
    const user = { token: this.#credentials.agent.replace(/^Bearer /, '') }
    const path = join(this.#folder, 'views.kubeconfig')
    await writeFile(path, kubeconfigText({ server, authority: ca, user }), { mode: 0o600 })
    return path
  }

  /** The replica that the agent is at home at, or the first other one. */
  async replica(which: 'holder' | 'entry'): Promise<LocalReplica> {
    const { replicas } = this.#ground
    const [home] = holdersOf(await viewReplicas(replicas))
    const found = replicas.find(({ name }) => (name === home) === (which === 'holder'))
    if (!home || !found) throw new Error('no replica holds the agent')
    return found
  }

  /** All replicas know one another, and a call goes through each. */
  settled(signal: AbortSignal): Promise<void> {
    return this.#ground.settled(signal)
  }

  /** The pod whose name is in the lease. */
  async leadingPod(): Promise<AgentkPod> {
    const { spec } = await this.admin.get(leaseOfAgent)
    const pod = this.#pods.find(({ name }) => spec.holderIdentity?.startsWith(`${name}_`))
    if (!pod) throw new Error(`${spec.holderIdentity} leads, and is none of ours`)
    return pod
  }

  /** Changes the directory file; kas notices by itself. */
  async changeDirectory(change: (directory: KubernetesObject) => void): Promise<void> {
    const path = join(this.#folder, files.directory)
    const directory = parse(await readFile(path, 'utf8'))
    change(directory)
    await writeFile(path, stringify(directory), { mode: 0o600 })
  }

  async stop(): Promise<void> {
    await this.#ground.stop()
    await this.controlPlane.stop()
  }
}

/** One pod of agentk as a process, which may be killed and started again under its name. */
export class AgentkPod {
  readonly name: string
  readonly #place: AgentPlace
  readonly #opsPort: number
  #program: Program | undefined

  constructor(place: AgentPlace, { name, opsPort }: { name: string; opsPort: number }) {
    this.name = name
    this.#place = place
    this.#opsPort = opsPort
  }

  async start(): Promise<void> {
    const { name: podName } = this
    const { warden, ...place } = this.#place
    const options = { ...place, scheme: 'wss', opsPort: this.#opsPort, podName, logFile: `${podName}.log` } as const
    this.#program = agentkProgram({ warden }, options)
    await this.#program.start()
  }

  /** Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.#program?.exited
  }

  signal(signal: NodeJS.Signals): void {
    this.#program?.signal(signal)
  }

  async stop(): Promise<void> {
    this.signal('SIGCONT')
    await this.#program?.stop()
  }
}

/** Users act as themselves in the cluster, jobs as the agent. */
async function prepare(folder: string): Promise<void> {
  const repository = join(folder, files.repository)
  await rm(repository, { recursive: true })
  const projects = [{ id: agent.project.path }]
  const configuration = { ci_access: { projects }, user_access: { access_as: { user: {} }, projects } }
  await createProjectRepository(repository, {
    [`.gitlab/agents/${agent.name}/config.yaml`]: stringify(configuration),
    [`.gitlab/agents/${agent.name}/views.yaml`]: '{}\n',
  })
}

/** @returns path of a kubeconfig of the account that the pods have */
async function agentkAccount(controlPlane: ControlPlane): Promise<string> {
  const { admin, server, caFile, folder } = controlPlane
  const reads = { apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] }
  const leads = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['*'] }
  const impersonates = { apiGroups: ['*'], resources: ['*'], verbs: ['impersonate'] }
  await admin.create(`${rbac}/clusterroles`, { metadata: { name: 'agentk' }, rules: [leads, impersonates] })
  await admin.create(`${rbac}/clusterroles`, { metadata: { name: readers }, rules: [reads] })
  const account = await createServiceAccount(admin, { namespace: 'default', name: 'agentk', clusterRole: 'agentk' })
  await letAgentkRead(admin)
  const user = { token: controlPlane.signToken({ account, lifeMs: dayMs }) }
  const path = join(folder, 'agentk.kubeconfig')
  await writeFile(path, kubeconfigText({ server, caFile, user }), { mode: 0o600 })
  return path
}

/** agentk's account may read all of the cluster. */
export async function letAgentkRead(admin: ApiClient): Promise<void> {
  await admin.create(`${rbac}/clusterrolebindings`, {
    metadata: { name: readers },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: readers },
    subjects: [{ kind: 'ServiceAccount', namespace: 'default', name: 'agentk' }],
  })
}

/** The user may list everything in this namespace. */
export async function letUserView(admin: ApiClient, namespace: string): Promise<void> {
  await admin.create(`${rbac}/namespaces/${namespace}/rolebindings`, {
    metadata: { name: 'viewer' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: readers },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'gitlab:user:ada' }],
  })
}
