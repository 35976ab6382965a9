import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Service } from '../../src/lib/service.ts'
import { abortable } from '../../src/lib/signals.ts'
import { Balancer } from '../balancer.ts'
import { Authority } from '../certificates.ts'
import { freePorts } from '../control-plane/free-ports.ts'
import type { Program } from '../control-plane/program.ts'
import { Warden } from '../control-plane/warden.ts'
import { type Cluster, type DoubleOptions, startCluster } from './cluster.ts'
import { agentkProgram, type Programs } from './local-programs.ts'
import { LocalReplica } from './local-replica.ts'
import type { Ports } from './ports.ts'
import type { RepositoryFiles } from './project-repository.ts'
import { untilOk } from './readiness.ts'
import { files, type Graces, replicaName, writeKubeconfig, writeSettings } from './settings.ts'

export interface LocalStackOptions {
  /** its state folder, claimed */
  readonly folder: string
  readonly ports: Ports
  /** value of `--kubeconfig` */
  readonly kubeconfig: string | undefined
  /** value of KUBEBUILDER_ASSETS */
  readonly assets: string | undefined
  /** graces of replicas that leave */
  readonly graces?: Graces
  /** number of replicas that start at first; the others have settings, and may join. Default: all */
  readonly first?: number
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
  /** options of the embedded API double, if that is the cluster */
  readonly doubleOptions?: DoubleOptions
  /** files beside the agent's configuration; default: none */
  readonly example?: RepositoryFiles | undefined
  /** adds a Deployment that gets no Pods; default: no */
  readonly broken?: boolean
  /** called with each step, for the screen */
  readonly onStep?: (text: string) => void
  /** called when a replica has ended by itself while others serve */
  readonly onLost?: (replica: LocalReplica) => void
}

/** Credentials for calls, which are the same for every replica and for the balancer. */
export interface Access {
  /** PEM */
  readonly authority: string
  /** credential of a user's requests after `Bearer ` */
  readonly userCredential: string
}

const readyTimeoutMs = 60_000
/** Limit of each part's stop, after which it is killed. */
const stopTimeoutMs = 5_000
const shownLogLines = 12

/**
 * A cluster, replicas of kas behind a balancer and one agentk, each with its log in the state folder. The parts end
 * when this process does.
 */
export class LocalStack implements Service {
  /** all replicas with settings, running or not */
  readonly replicas: readonly LocalReplica[]
  readonly balancer: Balancer
  readonly #options: LocalStackOptions
  readonly #warden = new Warden()
  readonly #failed = Promise.withResolvers<never>()
  #agentk: Program | undefined
  /** number of its replacements so far */
  #replacements = 0
  #cluster: Cluster | undefined
  #access: Access | undefined
  #started = false
  #stopping = false

  constructor(options: LocalStackOptions) {
    this.#options = options
    const { folder, ports, programs } = options
    this.replicas = ports.replicas.map(
      (own, i) => new LocalReplica({ warden: this.#warden }, { name: replicaName(i), folder, ports: own, programs }),
    )
    const replicas = this.replicas.map(({ balanced }) => balanced)
    this.balancer = new Balancer({ fronts: [ports.agents, ports.kubernetes], replicas })
    this.#failed.promise.catch(() => undefined) // awaited through `failed`
  }

  /** Rejects when agentk, or the last replica, ends by itself, with its name and its last lines. */
  get failed(): Promise<never> {
    return this.#failed.promise
  }

  /** its state folder */
  get folder(): string {
    return this.#options.folder
  }

  /** The cluster, once it has started. */
  get cluster(): Cluster {
    if (!this.#cluster) throw new Error('the cluster has not been started')
    return this.#cluster
  }

  /** The credentials, once the settings have been written. */
  get access(): Access {
    if (!this.#access) throw new Error('the settings have not been written')
    return this.#access
  }

  /** Resolves when a call has gone through each replica, and through the balancer, to the cluster and back. */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const { folder, ports, kubeconfig, assets, graces, first, doubleOptions, example, broken = false } = this.#options
    const { onStep = () => undefined } = this.#options
    await this.#warden.start()
    const authority = await Authority.create('kas npm start')
    const inputs = { folder, ports, authority, warden: this.#warden, example, ...(graces ? { graces } : {}) }
    const settings = await writeSettings(inputs)
    this.#access = { authority: authority.certificate, ...settings }
    onStep('the cluster')
    this.#cluster = await startCluster({
      kubeconfig,
      assets,
      folder,
      authority,
      broken,
      ...(doubleOptions ? { doubleOptions } : {}),
    })
    signal.throwIfAborted()
    const replicas = this.replicas.slice(0, first)
    onStep(`${replicas.length} replicas of kas`)
    for (const replica of replicas) await this.startReplica(replica)
    await this.#all(
      replicas.map((replica) => (limit: AbortSignal) => replica.ready(limit)),
      signal,
    )
    await this.balancer.start()
    onStep('agentk')
    await this.#startAgentk(agentkProgram({ ...inputs, programs: this.#options.programs }, this.#cluster))
    const entries = [ports, ...replicas.map((replica) => replica.ports)]
    await this.#all(
      entries.map(
        ({ kubernetes }) =>
          (limit: AbortSignal) =>
            this.answers(kubernetes, limit),
      ),
      signal,
    )
    await writeKubeconfig(inputs, settings)
    this.#started = true
  }

  /** Starts a replica that is not running; it is not ready yet. */
  async startReplica(replica: LocalReplica): Promise<void> {
    await replica.start()
    void replica.exited.then(() => this.#ended(replica))
  }

  /**
   * Starts another agentk in place of the running one, which stops meanwhile, as in a Deployment. Resolves when the old
   * one has ended; `patience` kills it.
   */
  async replaceAgentk(patience: AbortSignal): Promise<void> {
    const { folder, programs } = this.#options
    const before = this.#agentk
    const [agentkOps = 0] = await freePorts(1)
    const ports = { ...this.#options.ports, agentkOps }
    const podName = `npm-start-${process.pid}-${++this.#replacements}`
    await this.#startAgentk(agentkProgram({ warden: this.#warden, folder, ports, programs, podName }, this.cluster))
    await before?.stop(patience)
  }

  /** Resolves once a call to that port comes back from the cluster. */
  async answers(kubernetesPort: number, signal: AbortSignal): Promise<void> {
    const { authority, userCredential } = this.access
    const headers = { Authorization: `Bearer ${userCredential}` }
    await untilOk({ url: `https://127.0.0.1:${kubernetesPort}/version`, ca: authority, headers }, signal)
  }

  /**
   * Ends all parts, kas first. kas cuts endless calls after a second, and then agentk has none left to wait for. With
   * `keepFolder` the state folder stays, for its logs.
   */
  async stop(patience?: AbortSignal, options: { keepFolder?: boolean } = {}): Promise<void> {
    this.#stopping = true
    const limit = () => AbortSignal.any([AbortSignal.timeout(stopTimeoutMs), ...(patience ? [patience] : [])])
    await Promise.all(this.replicas.map((replica) => replica.stop(limit())))
    await this.balancer.stop()
    await this.#agentk?.stop(limit())
    await this.#cluster?.stop(limit())
    this.#cluster = undefined
    await this.#warden.stop()
    if (!options.keepFolder) await rm(this.#options.folder, { recursive: true, force: true })
  }

  async #startAgentk(program: Program): Promise<void> {
    await program.start()
    this.#agentk = program
    void program.exited.then(() => {
      if (this.#agentk === program) void this.#fail('agentk', join(this.#options.folder, files.agentkLog))
    })
  }

  #ended(replica: LocalReplica): void {
    if (this.#stopping) return
    if (this.#started && this.replicas.some(({ pid }) => pid !== undefined)) this.#options.onLost?.(replica)
    else void this.#fail(replica.name, replica.log)
  }

  async #fail(name: string, log: string): Promise<void> {
    if (this.#stopping) return
    const lines = (await readFile(log, 'utf8').catch(() => '')).trimEnd().split('\n').slice(-shownLogLines)
    this.#failed.reject(new Error(`${name} ended by itself. The end of ${log}:\n\n${lines.join('\n')}`))
  }

  /** Waits for all at once, or for the first part that ends by itself. */
  #all(waits: readonly ((limit: AbortSignal) => Promise<void>)[], signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const limit = AbortSignal.any([signal, ended.signal, AbortSignal.timeout(readyTimeoutMs)])
    const answered = Promise.all(waits.map((wait) => wait(limit))).then(() => undefined)
    answered.catch(() => undefined) // when a program ended first, that failure is reported
    return abortable(Promise.race([answered, this.failed]), signal).finally(() => ended.abort())
  }
}
