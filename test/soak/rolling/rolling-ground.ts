import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Balancer } from '../../../dev/balancer.ts'
import { Authority } from '../../../dev/certificates.ts'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { Warden } from '../../../dev/control-plane/warden.ts'
import { type Cluster, type DoubleOptions, startCluster } from '../../../dev/start/cluster.ts'
import type { Programs } from '../../../dev/start/local-programs.ts'
import { LocalReplica } from '../../../dev/start/local-replica.ts'
import { anyPorts, type Ports } from '../../../dev/start/ports.ts'
import { untilOk } from '../../../dev/start/readiness.ts'
import { viewReplicas } from '../../../dev/start/replica-table.ts'
import { type Graces, replicaName, writeSettings } from '../../../dev/start/settings.ts'
import { testPrograms } from '../../support/programs.ts'
import { agentkProgram } from '../agentk-program.ts'
import type { KubeOptions } from '../kube.ts'
import type { Scheme } from '../soak-options.ts'

/** Files and addresses that agents need. */
export interface AgentPlace {
  /** absolute path; has the settings under the names of npm start's `files` */
  readonly folder: string
  /** absolute path */
  readonly kubeconfig: string
  /** port of 127.0.0.1 of the balancer */
  readonly kasPort: number
  readonly warden: Warden
}

/** Starts the pods of the agent; they need not be connected yet. */
export type StartAgents = (place: AgentPlace) => Promise<{ stop(): Promise<unknown> }>

export interface RollingGroundOptions {
  /** value of KUBEBUILDER_ASSETS; without its programs the cluster is an API double */
  readonly assets: string | undefined
  /** absolute path of a running cluster's kubeconfig */
  readonly kubeconfig?: string
  readonly graces: Graces
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
  readonly startAgents: StartAgents
  /** options of the API double, if that is the cluster */
  readonly doubleOptions?: DoubleOptions
  /**
   * Changes the settings' folder before any program reads it.
   *
   * @returns another credential of the user after `Bearer `; undefined: the credential stays
   */
  readonly prepare?: (folder: string) => Promise<string | undefined>
}

const replicaCount = 3
const readyTimeoutMs = 60_000
/** interval of reads of another process' view. ms */
const askAgainMs = 100
/** limit of each part's stop at the end. ms */
const stopTimeoutMs = 5_000

/** Three replicas of kas behind a balancer, pods of one agent, and a cluster: processes that end when this one does. */
export class RollingGround {
  readonly replicas: readonly LocalReplica[]
  readonly cluster: Cluster
  /** access through the balancer */
  readonly access: KubeOptions
  readonly #warden: Warden
  readonly #balancer: Balancer
  readonly #ports: Ports
  #agents: { stop(): Promise<unknown> } | undefined

  private constructor(
    parts: { warden: Warden; folder: string; ports: Ports; cluster: Cluster; access: KubeOptions } & Pick<
      RollingGroundOptions,
      'programs'
    >,
  ) {
    const { warden, folder, ports, programs } = parts
    this.cluster = parts.cluster
    this.access = parts.access
    this.#warden = warden
    this.#ports = ports
    this.replicas = ports.replicas.map(
      (own, i) => new LocalReplica({ warden }, { name: replicaName(i), folder, ports: own, programs }),
    )
    const replicas = this.replicas.map(({ balanced }) => balanced)
    this.#balancer = new Balancer({ fronts: [ports.agents, ports.kubernetes], replicas })
  }

  /** Resolves when a call has gone through each replica. */
  static async start(
    { assets, kubeconfig, graces, startAgents, doubleOptions, prepare, programs = testPrograms }: RollingGroundOptions,
    signal: AbortSignal,
  ): Promise<RollingGround> {
    const folder = await mkdtemp(join(tmpdir(), 'rolling-'))
    const authority = await Authority.create('kas rolling')
    const ports = await anyPorts(replicaCount)
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const { userCredential } = await writeSettings({ folder, ports, authority, graces })
    const credential = (await prepare?.(folder)) ?? userCredential
    const double = doubleOptions ? { doubleOptions } : {}
    const started = startCluster({ kubeconfig, assets, folder, authority, ...double })
    const cluster = await started.catch((error: unknown) => warden.stop().then(() => Promise.reject(error)))
    const access = { server: `https://127.0.0.1:${ports.kubernetes}`, ca: authority.certificate, credential }
    const ground = new RollingGround({ warden, folder, ports, cluster, access, programs })
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(readyTimeoutMs)])
      await ground.#startReplicas(limit)
      ground.#agents = await startAgents({ folder, kubeconfig: cluster.kubeconfig, kasPort: ports.agents, warden })
      await ground.settled(limit)
      return ground
    } catch (error) {
      await ground.stop()
      throw error
    }
  }

  async #startReplicas(limit: AbortSignal): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.start()))
    await Promise.all(this.replicas.map((replica) => replica.ready(limit)))
    await this.#balancer.start()
  }

  /** Access through one replica alone. */
  accessOf({ ports }: LocalReplica): KubeOptions {
    return { ...this.access, server: `https://127.0.0.1:${ports.kubernetes}` }
  }

  /** Resolves once all replicas know one another, and a call goes through each and the balancer. */
  async settled(signal: AbortSignal): Promise<void> {
    for (;;) {
      const views = await viewReplicas(this.replicas)
      if (views.every(({ ready, members }) => ready && members === this.replicas.length)) break
      await new Promise((resolve) => setTimeout(resolve, askAgainMs))
      signal.throwIfAborted()
    }
    const { ca, credential } = this.access
    const headers = { authorization: `Bearer ${credential}` }
    const entries = [this.#ports, ...this.replicas.map(({ ports }) => ports)]
    const urls = entries.map(({ kubernetes }) => `https://127.0.0.1:${kubernetes}/version`)
    await Promise.all(urls.map((url) => untilOk({ url, ca, headers }, signal)))
  }

  async stop(): Promise<void> {
    const limit = () => AbortSignal.timeout(stopTimeoutMs)
    await Promise.all(this.replicas.map((replica) => replica.stop(limit())))
    await this.#balancer.stop()
    await this.#agents?.stop()
    await this.cluster.stop(limit())
    await this.#warden.stop()
  }
}

/** Starts two pods of our agentk. */
export function twoPods(scheme: Scheme): StartAgents {
  return async ({ warden, ...place }) => {
    const opsPorts = await freePorts(2)
    const pods = opsPorts.map((opsPort, i) => {
      const [podName, logFile] = [`agentk-${i}`, `agentk-${i}.log`]
      return agentkProgram({ warden }, { ...place, scheme, opsPort, podName, logFile })
    })
    await Promise.all(pods.map((pod) => pod.start()))
    return { stop: () => Promise.all(pods.map((pod) => pod.stop())) }
  }
}
