import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { type ChartName, chartsFolder } from '../../../dev/charts/helm.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { helmProgram } from '../charts/chart-words.ts'
import { startGitHttpsServer } from '../git-https-server.ts'
import { GitRepository } from '../git-repository.ts'
import { Kubectl } from '../kubectl.ts'
import { assets } from '../kubectl-stack.ts'
import { Processes } from '../processes.ts'
import { agentConfiguration, agentId, agentToken, bearerOf, directoryFile } from '../stack-directory.ts'
import { SteadyCalls } from '../steady-calls.ts'
import type { NodeCluster } from './node-cluster.ts'

/** where each node has the images that were loaded */
const registry = 'docker.io/library'
const host = 'kas.kas.svc'
/** for helm to wait for pods, one of which leaves after the other; ends before the test, so that helm says for what */
const helmPatience = '--timeout=150s'
const helmTimeoutMs = 160_000

/** A cluster with real nodes that have the images, and what there is before kas and agentk are installed: their Secrets. */
export class ChartsGround {
  readonly cluster: NodeCluster
  readonly processes: Processes
  /** past kas */
  readonly kubectl: Kubectl
  readonly #authority: Authority

  private constructor(cluster: NodeCluster, processes: Processes, authority: Authority) {
    this.cluster = cluster
    this.processes = processes
    this.#authority = authority
    const kubeconfig = join(cluster.folder, 'admin.kubeconfig')
    this.kubectl = new Kubectl({ processes, assets }, { kubeconfig })
  }

  /** @param images - OCI layouts of kas and agentk, folders of these names */
  static async start(t: Test, cluster: NodeCluster, images: string): Promise<ChartsGround> {
    const processes = await Processes.start(t)
    const ground = new ChartsGround(cluster, processes, await Authority.create('kas test'))
    await ground.#ok('load', join(images, 'kas'), join(images, 'agentk'))
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
    await secret(
      'kas',
      'kas-private',
      '--from-literal=kas_private_api_secret=c29tZXRoaW5nIG9mIHRoaXJ0eS10d28gYnl0ZXMuLi4=',
    )
    await secret('kas', 'kas-directory', await file('directory.yaml', JSON.stringify(directoryFile(repository))))
    await secret('kas', 'kas-tls', await file('tls.crt', certificate), await file('tls.key', key))
    await secret('kas', 'git-authority', await file('git-ca.crt', gitAuthority))
    await secret('agentk', 'agentk-token', `--from-literal=token=${agentToken}`)
    await secret('agentk', 'authorities', await file('ca.crt', this.#authority.certificate))
  }

  /** Of the charts, for this ground. */
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
   * `helm install` or `helm upgrade`, until the pods are ready.
   *
   * @param set - beside the ground's values
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
    return this.#ok(helmProgram ?? '', ...args, ...sets, '--wait', helmPatience)
  }

  /** Both charts at once; ada may see what there is. */
  async installBoth(): Promise<void> {
    await Promise.all([this.install('kas'), this.install('agentk')])
    await this.kubectl.ok(['create', 'clusterrolebinding', 'ada', '--clusterrole=view', '--user=gitlab:user:ada'])
  }

  async rollback(chart: ChartName, revision: number): Promise<void> {
    const args = ['rollback', chart, String(revision), `--namespace=${chart}`, '--wait', helmPatience]
    await this.#ok(helmProgram ?? '', ...args)
  }

  /** Runs `act` while somebody calls through kas and agentk all the time: none of the calls may fail. */
  async underCalls(t: Test, act: () => Promise<void>): Promise<void> {
    const calls = await this.#calls('/api/v1/namespaces')
    calls.start()
    t.teardown(() => calls.stop())
    await calls.more(20)
    await act()
    await calls.more(20)
    const results = await calls.stop()
    t.comment(`${results.length} calls`)
    t.ok(results.length > 200, `${results.length} calls`)
    t.strictSame(
      calls.failed.map(({ status, text, startedMs }) => [Math.round(startedMs), status, text]),
      [],
    )
  }

  /** Where kas is reached from here. */
  async #server(): Promise<string> {
    const { spec } = await this.cluster.admin.get('/api/v1/namespaces/kas/services/kas')
    return `https://${spec.clusterIP}:8154`
  }

  /** kubectl through kas and agentk, as ada. */
  async kubectlThroughKas(): Promise<Kubectl> {
    const server = await this.#server()
    const user = { token: bearerOf('user') }
    const config = JSON.parse(kubeconfigText({ server, authority: this.#authority.certificate, user }))
    config.clusters[0].cluster['tls-server-name'] = host
    const kubeconfig = join(this.processes.folder, 'ada.kubeconfig')
    await writeFile(kubeconfig, JSON.stringify(config), { mode: 0o600 })
    return this.kubectl.with({ kubeconfig })
  }

  async #calls(path: string): Promise<SteadyCalls> {
    const url = `${await this.#server()}${path}`
    const ca = this.#authority.certificate
    return new SteadyCalls({ url, ca, servername: host, token: bearerOf('user'), pauseMs: 80 })
  }

  async #ok(command: string, ...args: string[]): Promise<string> {
    const environment = { KUBECONFIG: join(this.cluster.folder, 'admin.kubeconfig') }
    const process = await this.processes.spawn({ command, args, environment })
    const { code, stdout, stderr } = await process.ends({ timeoutMs: helmTimeoutMs })
    if (code !== 0 || stderr !== '') throw new Error(`${command} ${args.join(' ')}: exit status ${code}: ${stderr}`)
    return stdout.toString()
  }
}
