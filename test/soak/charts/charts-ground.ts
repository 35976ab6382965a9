import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { type ChartName, chartsFolder } from '../../../dev/charts/helm.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { helmProgram } from '../../support/charts/chart-words.ts'
import { startGitHttpsServer } from '../../support/git-https-server.ts'
import { GitRepository } from '../../support/git-repository.ts'
import { Kubectl } from '../../support/kubectl.ts'
import { assets } from '../../support/kubectl-stack.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import { Processes } from '../../support/processes.ts'
import { agentConfiguration, agentId, agentToken, bearerOf, directoryFile } from '../../support/stack-directory.ts'

/** registry under which each node has the loaded images */
const registry = 'docker.io/library'
const host = 'kas.kas.svc'
/**
 * time for helm to wait for pods, which leave one after the other; it ends before the test, so that helm can report the
 * reason
 */
const defaultHelmSeconds = 150
/** time for helm's report. ms */
const helmEndMs = 10_000

export interface ChartsGroundOptions {
  /** folders with the OCI layouts `kas` and `agentk`, for each version that the nodes must have */
  readonly images: readonly string[]
  /** time for helm to wait for pods; default: 150 */
  readonly helmSeconds?: number
}

/**
 * A cluster with real nodes that have the images, and the Secrets that kas and agentk need before their installation.
 */
export class ChartsGround {
  readonly cluster: NodeCluster
  readonly processes: Processes
  /** kubectl at the API server itself, without kas */
  readonly kubectl: Kubectl
  readonly #authority: Authority
  readonly #helmSeconds: number

  private constructor(
    parts: { cluster: NodeCluster; processes: Processes; authority: Authority },
    { helmSeconds = defaultHelmSeconds }: ChartsGroundOptions,
  ) {
    const { cluster, processes, authority } = parts
    this.cluster = cluster
    this.processes = processes
    this.#authority = authority
    this.#helmSeconds = helmSeconds
    const kubeconfig = join(cluster.folder, 'admin.kubeconfig')
    this.kubectl = new Kubectl({ processes, assets }, { kubeconfig })
  }

  static async start(t: Test, cluster: NodeCluster, options: ChartsGroundOptions): Promise<ChartsGround> {
    const processes = await Processes.start(t)
    const ground = new ChartsGround({ cluster, processes, authority: await Authority.create('kas test') }, options)
    await ground.#ok('load', ...options.images.flatMap((folder) => [join(folder, 'kas'), join(folder, 'agentk')]))
    const repository = await GitRepository.create(processes.folder, 'clusters')
    await repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify(agentConfiguration))
    const git = await startGitHttpsServer(t, processes.folder, () => true, cluster.address)
    await ground.#createSecrets(`${git.origin}/clusters.git`, git.ca)
    return ground
  }

  async #createSecrets(repository: string, gitAuthority: string): Promise<void> {
    const { certificate, key } = await this.#authority.issueServing({ dns: [host], ip: [] })
    const file = async (name: string, text: string) => {
      await writeFile(join(this.processes.folder, name), text)
      return `--from-file=${name}=${join(this.processes.folder, name)}`
    }
    for (const name of ['kas', 'agentk']) {
      await this.kubectl.ok(['create', 'namespace', name])
      const labels = ['enforce', 'warn'].map((mode) => `pod-security.kubernetes.io/${mode}=restricted`)
      await this.kubectl.ok(['label', 'namespace', name, ...labels])
    }
    const secret = (namespace: string, name: string, ...from: string[]) =>
      this.kubectl.with({ namespace }).ok(['create', 'secret', 'generic', name, ...from])
    await this.createReplicasSecret('kas-private')
    await secret('kas', 'kas-directory', await file('directory.yaml', JSON.stringify(directoryFile(repository))))
    await secret('kas', 'kas-tls', await file('tls.crt', certificate), await file('tls.key', key))
    await secret('kas', 'git-authority', await file('git-ca.crt', gitAuthority))
    await secret('agentk', 'agentk-token', `--from-literal=token=${agentToken}`)
    await secret('agentk', 'authorities', await file('ca.crt', this.#authority.certificate))
  }

  async createReplicasSecret(name: string): Promise<void> {
    const text = `--from-literal=kas_private_api_secret=${randomBytes(32).toString('base64')}`
    await this.kubectl.with({ namespace: 'kas' }).ok(['create', 'secret', 'generic', name, text])
  }

  /** Values of the charts, for this ground. */
  readonly #values: Readonly<Record<ChartName, object>> = {
    kas: {
      image: { repository: `${registry}/kas` },
      directory: { secret: 'kas-directory' },
      privateApi: { secret: 'kas-private' },
      tls: { secret: 'kas-tls' },
      graces: { listen: '5s', shutdown: '30s' },
      extraSources: [{ secret: { name: 'git-authority' } }],
      extraEnv: [{ name: 'SSL_CERT_FILE', value: '/etc/kas/git-ca.crt' }],
    },
    agentk: {
      image: { repository: `${registry}/agentk` },
      config: {
        kasAddress: `wss://${host}:8150`,
        secretName: 'agentk-token',
        kasCaCertSecret: { name: 'authorities' },
        agentId,
      },
    },
  }

  /**
   * Runs `helm install` or `helm upgrade`, and waits until the pods are ready.
   *
   * @param set - values beside the ground's
   * @throws Error also for a warning
   */
  async install(chart: ChartName, ...set: string[]): Promise<string> {
    const values = join(this.processes.folder, `${chart}.values.json`)
    await writeFile(values, JSON.stringify(this.#values[chart]))
    const args = [
      'upgrade',
      '--install',
      chart,
      join(chartsFolder, chart),
      `--namespace=${chart}`,
      `--values=${values}`,
    ]
    const sets = set.map((one) => `--set=${one}`)
    return this.#helm(...args, ...sets)
  }

  /**
   * Installs both charts at once, and gives ada the role `view`.
   *
   * @param set - values of each chart beside the ground's
   */
  async installBoth(set: Partial<Record<ChartName, readonly string[]>> = {}): Promise<void> {
    const charts: readonly ChartName[] = ['kas', 'agentk']
    await Promise.all(charts.map((chart) => this.install(chart, ...(set[chart] ?? []))))
    await this.kubectl.ok(['create', 'clusterrolebinding', 'ada', '--clusterrole=view', '--user=gitlab:user:ada'])
  }

  /** @param revision - 0: the previous one */
  async rollback(chart: ChartName, revision = 0): Promise<void> {
    await this.#helm('rollback', chart, String(revision), `--namespace=${chart}`)
  }

  /** Address of kas' Service, from here. */
  async #server(): Promise<string> {
    const { spec } = await this.cluster.admin.get('/api/v1/namespaces/kas/services/kas')
    return `https://${spec.clusterIP}:8154`
  }

  /** Returns kubectl through kas and agentk, as ada. */
  async kubectlThroughKas(): Promise<Kubectl> {
    const server = await this.#server()
    const user = { token: bearerOf('user') }
    const config = JSON.parse(kubeconfigText({ server, authority: this.#authority.certificate, user }))
    config.clusters[0].cluster['tls-server-name'] = host
    const kubeconfig = join(this.processes.folder, 'ada.kubeconfig')
    await writeFile(kubeconfig, JSON.stringify(config), { mode: 0o600 })
    return this.kubectl.with({ kubeconfig })
  }

  /**
   * Returns ada's access, for clients other than kubectl.
   *
   * @param address - of a replica; default: that of the Service
   */
  async access(address?: string) {
    const server = address === undefined ? await this.#server() : `https://${address}:8154`
    return { server, ca: this.#authority.certificate, credential: bearerOf('user'), servername: host }
  }

  #helm(...args: string[]): Promise<string> {
    return this.#ok(helmProgram ?? '', ...args, '--wait', `--timeout=${this.#helmSeconds}s`)
  }

  async #ok(command: string, ...args: string[]): Promise<string> {
    const environment = { KUBECONFIG: join(this.cluster.folder, 'admin.kubeconfig') }
    const process = await this.processes.spawn({ command, args, environment })
    const { code, stdout, stderr } = await process.ends({ timeoutMs: this.#helmSeconds * 1000 + helmEndMs })
    if (code !== 0 || stderr !== '') throw new Error(`${command} ${args.join(' ')}: exit status ${code}: ${stderr}`)
    return stdout.toString()
  }
}
