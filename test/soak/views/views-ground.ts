import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import type { Parts } from '../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../../dev/control-plane/service-account.ts'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { replicaCount } from '../../../dev/start/ports.ts'
import { createProjectRepository } from '../../../dev/start/project-repository.ts'
import { statusOf } from '../../../dev/start/replica-table.ts'
import { agent, files, replicaFiles, replicaName } from '../../../dev/start/settings.ts'
import type { Endpoint } from '../../../src/kas/command/endpoint.ts'
import { delay } from '../../../src/lib/signals.ts'
import { testEndpoint } from '../../support/test-endpoint.ts'
import { AgentkPod, leadingPod } from '../agentk-pods.ts'
import { type AgentPlace, RollingGround } from '../rolling/rolling-ground.ts'
import { filePeople } from './file-people.ts'
import { gitlabPeople } from './gitlab-people.ts'
import type { People, User, Viewer } from './people.ts'
import { ViewersFront } from './viewers-front.ts'

export interface ViewsGroundOptions {
  /** value of KUBEBUILDER_ASSETS */
  readonly assets: string
  readonly parts: Parts
  /** flags of kube-apiserver */
  readonly flags?: readonly string[]
  /** directory of the viewers. Default: the directory file */
  readonly directory?: 'file' | 'gitlab'
}

const graces = { listen: '0s', shutdown: '1s' }
export const rbac = '/apis/rbac.authorization.k8s.io/v1'
/** a role that reads everything, and the name of its binding to agentk's account */
export const readers = 'agentk-reads'
const dayMs = 24 * 3_600_000
/** interval of checks of another process. ms */
const askAgainMs = 250

/** A real API server, three replicas of kas behind a balancer, and two pods of agentk with an account of their own. */
export class ViewsGround {
  readonly controlPlane: ControlPlane
  readonly #ground: RollingGround
  readonly #pods: readonly AgentkPod[]
  readonly #folder: string
  readonly #front: ViewersFront
  readonly people: People

  private constructor(parts: {
    controlPlane: ControlPlane
    ground: RollingGround
    pods: readonly AgentkPod[]
    folder: string
    people: People
    front: ViewersFront
  }) {
    this.controlPlane = parts.controlPlane
    this.#ground = parts.ground
    this.#pods = parts.pods
    this.#folder = parts.folder
    this.people = parts.people
    this.#front = parts.front
  }

  static async start(
    { assets, parts, flags = [], directory = 'file' }: ViewsGroundOptions,
    signal: AbortSignal,
  ): Promise<ViewsGround> {
    const controlPlane = new ControlPlane({ assets, parts, flags })
    await controlPlane.start()
    let people: People | undefined
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
      const prepare = async (settings: string) => {
        await writeRepository(settings)
        people = await peopleOf(settings, directory)
        return people.credentials.job
      }
      const ground = await RollingGround.start({ assets, kubeconfig, graces, startAgents, prepare }, signal)
      const front = await ViewersFront.start(ground.replicas)
      return new ViewsGround({ controlPlane, ground, pods, folder, people: people as unknown as People, front })
    } catch (error) {
      await people?.stop()
      await controlPlane.stop()
      throw error
    }
  }

  /** client of the cluster itself */
  get admin(): ApiClient {
    return this.controlPlane.admin
  }

  /** Endpoint of all viewers: one replica, or another one after its end. */
  endpoint(viewer: Viewer): Endpoint {
    const url = new URL(`https://127.0.0.1:${this.#front.port}`)
    const authorization = `Bearer ${this.people.credentials[viewer]}`
    return testEndpoint({ url, agentId: String(agent.id), authorization, tls: { ca: this.#ground.access.ca } })
  }

  /** @returns path of a kubeconfig that goes through kas' balancer as the job */
  async kubeconfig(): Promise<string> {
    const { server, ca } = this.#ground.access
    const user = { token: this.people.credentials.job }
    const path = join(this.#folder, 'views.kubeconfig')
    await writeFile(path, kubeconfigText({ server, authority: ca, user }), { mode: 0o600 })
    return path
  }

  /** Resolves when each pod has its home and its standby. */
  async placed(signal: AbortSignal): Promise<void> {
    const wanted = this.#pods.flatMap(({ name }) => [`${name} home`, `${name} standby`])
    for (;;) {
      const found = new Set((await this.#connections()).map(({ pod, role }) => `${pod} ${role}`))
      if (wanted.every((one) => found.has(one))) return
      await delay(askAgainMs, signal)
    }
  }

  /** The home replica of the leading pod; viewers enter at another one from now on. */
  async holder(): Promise<LocalReplica> {
    const { replicas } = this.#ground
    const { name: lead } = await this.leadingPod()
    const connections = await this.#connections()
    const home = connections.find(({ pod, role }) => pod === lead && role === 'home')?.replica
    const holder = replicas.find(({ name }) => name === home)
    if (!holder) throw new Error('no replica holds the leading pod')
    if (this.#front.entry === holder) this.#front.enter(replicas.find((replica) => replica !== holder) as LocalReplica)
    return holder
  }

  async #connections() {
    const [held] = (await statusOf(this.#ground.replicas[0]?.socket ?? ''))?.agents ?? []
    return held?.entries?.filter(({ kind }) => kind === 'connection') ?? []
  }

  /** The replica of all viewers, which is not the holder. */
  async entry(): Promise<LocalReplica> {
    await this.holder()
    return this.#front.entry
  }

  /** Resolves when all replicas know one another, and a call goes through each. */
  settled(signal: AbortSignal): Promise<void> {
    return this.#ground.settled(signal)
  }

  /** The pod whose name is in the lease. */
  leadingPod(): Promise<AgentkPod> {
    return leadingPod(this.admin, this.#pods)
  }

  async stop(): Promise<void> {
    this.#front.stop()
    await this.#ground.stop()
    await this.people.stop()
    await this.controlPlane.stop()
  }
}

const projects = [{ id: agent.project.path }]
/** Configuration in which users act as themselves in the cluster, and jobs as the agent. */
const configuration = stringify({ ci_access: { projects }, user_access: { access_as: { user: {} }, projects } })

async function writeRepository(folder: string): Promise<void> {
  const repository = join(folder, files.repository)
  await rm(repository, { recursive: true })
  await createProjectRepository(repository, {
    [`.gitlab/agents/${agent.name}/config.yaml`]: configuration,
    [`.gitlab/agents/${agent.name}/views.yaml`]: '{}\n',
  })
}

function peopleOf(folder: string, directory: 'file' | 'gitlab'): Promise<People> {
  if (directory === 'file') return filePeople(folder)
  const replicas = Array.from({ length: replicaCount }, (_, i) => replicaFiles(replicaName(i)).configuration)
  return gitlabPeople(folder, { configuration, replicas })
}

/** @returns path of a kubeconfig of the pods' account */
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

/** Lets agentk's account read all of the cluster. */
export async function letAgentkRead(admin: ApiClient): Promise<void> {
  await admin.create(`${rbac}/clusterrolebindings`, {
    metadata: { name: readers },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: readers },
    subjects: [{ kind: 'ServiceAccount', namespace: 'default', name: 'agentk' }],
  })
}

/** Lets the user list everything in this namespace. */
export async function letUserView(admin: ApiClient, namespace: string, username: User = 'ada'): Promise<void> {
  await admin.create(`${rbac}/namespaces/${namespace}/rolebindings`, {
    metadata: { name: `viewer-${username}` },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: readers },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: `gitlab:user:${username}` }],
  })
}
