import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parse, stringify } from 'yaml'
import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../../dev/control-plane/service-account.ts'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { createProjectRepository } from '../../../dev/start/project-repository.ts'
import { viewReplicas } from '../../../dev/start/replica-table.ts'
import { agent, files } from '../../../dev/start/settings.ts'
import { GitPushes } from '../../support/git-pushes.ts'
import { Seeded } from '../../support/seeded.ts'
import { AgentkPod, leadingPod } from '../agentk-pods.ts'
import type { KubeOptions } from '../kube.ts'
import { type AgentPlace, RollingGround } from '../rolling/rolling-ground.ts'
import { BusyFront } from './busy-front.ts'
import { configuration, namespaces, PushedSources } from './pushed-sources.ts'

const gitSync = resolve(import.meta.dirname, '../../../deploy/kubernetes/agentk-gitops/0-gitsync.yaml')
const place = `.gitlab/agents/${agent.name}`
const gitopsFile = `${place}/gitops.yaml`
const graces = { listen: '0s', shutdown: '1s' }
const dayMs = 24 * 3_600_000

/**
 * A real API server behind a front that may be busy, three replicas of kas behind a balancer, two pods of agentk. The
 * agent's project is in Git.
 */
export class GitopsGround {
  readonly controlPlane: ControlPlane
  readonly front: BusyFront
  readonly sources: PushedSources
  readonly pods: readonly AgentkPod[]
  /** absolute path of the agent's project */
  readonly repository: string
  /** second project, which the agent may read */
  readonly second: {
    readonly id: number
    readonly project: string
    push(content: Readonly<Record<string, string>>): Promise<unknown>
  }
  readonly #ground: RollingGround
  readonly #pushes: GitPushes

  private constructor(parts: {
    controlPlane: ControlPlane
    front: BusyFront
    pushes: GitPushes
    repository: string
    second: GitPushes
    sources: PushedSources
    pods: readonly AgentkPod[]
    ground: RollingGround
  }) {
    this.controlPlane = parts.controlPlane
    this.front = parts.front
    this.#pushes = parts.pushes
    this.sources = parts.sources
    this.repository = parts.repository
    this.second = { id: secondProject.id, project: secondProject.path, push: (content) => parts.second.commit(content) }
    this.pods = parts.pods
    this.#ground = parts.ground
  }

  /**
   * @param options.assets - value of KUBEBUILDER_ASSETS
   * @param options.hasHooks - the second project has hooks and is polled every 5 minutes; default: every 3 s
   */
  static async start(
    { assets, seed, hasHooks = false }: { assets: string; seed: number; hasHooks?: boolean },
    signal: AbortSignal,
  ): Promise<GitopsGround> {
    const controlPlane = new ControlPlane({ assets, parts: 'api' })
    await controlPlane.start()
    let front: BusyFront | undefined
    let pushes: GitPushes | undefined
    let repository = ''
    let second: GitPushes | undefined
    let sources: PushedSources | undefined
    try {
      for (const name of namespaces) await controlPlane.admin.create('/api/v1/namespaces', { metadata: { name } })
      front = await BusyFront.start(controlPlane)
      const kubeconfig = await agentkAccount(controlPlane, front)
      const prepare = async (folder: string) => {
        repository = join(folder, files.repository)
        const secretFile = join(folder, files.secret)
        second = await addProject(folder, { secretFile, hasHooks })
        pushes = new GitPushes({ repository, secretFile, project: agent.project })
        await pushes.commit({ [gitopsFile]: JSON.stringify(configuration), [`${place}/views.yaml`]: null })
        sources = new PushedSources(pushes, new Seeded(seed))
        await sources.begin()
        return undefined
      }
      let pods: AgentkPod[] = []
      const startAgents = async (place: AgentPlace) => {
        const opsPorts = await freePorts(2)
        pods = opsPorts.map((opsPort, i) => new AgentkPod(place, { name: `agentk-${i}`, opsPort }))
        await Promise.all(pods.map((pod) => pod.start()))
        return { stop: () => Promise.all(pods.map((pod) => pod.stop())) }
      }
      const ground = await RollingGround.start({ assets, kubeconfig, graces, startAgents, prepare }, signal)
      const prepared = { pushes: pushes as unknown as GitPushes, sources: sources as unknown as PushedSources }
      return new GitopsGround({
        controlPlane,
        front,
        pods,
        ground,
        repository,
        second: second as unknown as GitPushes,
        ...prepared,
      })
    } catch (error) {
      pushes?.close()
      front?.stop()
      await controlPlane.stop()
      throw error
    }
  }

  /** client of the cluster itself, without the front */
  get admin(): ApiClient {
    return this.controlPlane.admin
  }

  get replicas(): readonly LocalReplica[] {
    return this.#ground.replicas
  }

  /** Access through one replica alone. */
  accessOf(replica: LocalReplica): KubeOptions {
    return this.#ground.accessOf(replica)
  }

  /** Commits to a branch, and notifies one living replica. */
  async pushed(content: Readonly<Record<string, string | null>>, branch: string): Promise<void> {
    await this.#pushes.commit(content, branch)
    await this.sources.tell(this.replicas)
  }

  /** Pushes this GitOps configuration to the agent's file. */
  configured(gitops: object): Promise<void> {
    return this.pushed({ [gitopsFile]: JSON.stringify(gitops) }, 'main')
  }

  /** The replica where the agent has its home. */
  async holder(): Promise<LocalReplica> {
    const views = await viewReplicas(this.replicas)
    const at = views.findIndex(({ roles }) => roles.includes('home'))
    return this.replicas[Math.max(0, at)] as LocalReplica
  }

  leadingPod(): Promise<AgentkPod> {
    return leadingPod(this.admin, this.pods)
  }

  /** Resolves when all replicas know one another, and a call goes through each. */
  settled(signal: AbortSignal): Promise<void> {
    return this.#ground.settled(signal)
  }

  async stop(): Promise<void> {
    this.#pushes.close()
    await this.#ground.stop()
    this.front.stop()
    await this.controlPlane.stop()
  }
}

/** secret of the second project's hooks */
export const hookSecret = 'the secret of its hooks'

const secondProject = { id: 2, path: 'demo/second' }

/** Adds a project to the directory file, which the agent may read. */
async function addProject(
  folder: string,
  { secretFile, hasHooks }: { secretFile: string; hasHooks: boolean },
): Promise<GitPushes> {
  const repository = join(folder, 'second.git')
  await createProjectRepository(repository, { 'README.md': 'Manifests\n' })
  const path = join(folder, files.directory)
  const directory = parse(await readFile(path, 'utf8'))
  const hookFile = join(folder, 'hook.secret')
  await writeFile(hookFile, hookSecret, { mode: 0o600 })
  const asked = hasHooks ? { hook_secret_file: hookFile } : { poll_period: '3s' }
  directory.projects.push({ ...secondProject, git: { url: repository, ...asked } })
  directory.agents[0].reads = [secondProject.id]
  await writeFile(path, stringify(directory), { mode: 0o600 })
  return new GitPushes({ repository, secretFile, project: secondProject })
}

/** @returns path of a kubeconfig of the pods' account, which has all rights, through the front */
async function agentkAccount(controlPlane: ControlPlane, front: BusyFront): Promise<string> {
  const { admin, folder } = controlPlane
  const definition = parse(await readFile(gitSync, 'utf8'))
  await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
  const account = await createServiceAccount(admin, { namespace: 'default', name: 'agentk' })
  const user = { token: controlPlane.signToken({ account, lifeMs: dayMs }) }
  const path = join(folder, 'agentk.kubeconfig')
  const { server, authority } = front
  await writeFile(path, kubeconfigText({ server, authority, user }), { mode: 0o600 })
  return path
}
