import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { eventually } from './eventually.ts'
import { GitRepository } from './git-repository.ts'
import { httpsGet } from './https-get.ts'
import { type Identity, identities } from './kubectl-side.ts'
import type { Processes, TestProcess } from './processes.ts'
import { mainOf } from './programs.ts'
import { agentConfiguration, agentkFlags, agentToken, bearerOf, directoryFile } from './stack-directory.ts'

export interface StackOptions {
  /** path of the kubeconfig with agentk's account */
  agentKubeconfig: string
  /** default `wss` */
  scheme?: 'grpc' | 'grpcs' | 'ws' | 'wss'
  /** keys that are added to kas' configuration, block by block; for `observability` to its `listen` */
  configuration?: Readonly<Record<string, object>>
}

export interface AgentkOptions {
  /** path of its script; default: this version's */
  main?: string
  /** its POD_NAME; default `agentk-0` */
  pod?: string
  /** default: kas itself */
  address?: string
  /** default: the stack's */
  kubeconfig?: string
  /** path; default: the token of the stack's agent */
  tokenFile?: string
  /** flags for the identities that it may use; default: the names of the stack's directory */
  args?: readonly string[]
  environment?: Readonly<Record<string, string>>
}

/**
 * The real programs as child processes: one kas with a directory file, and an agentk for each call of `startAgentk`. A
 * Git repository has the agent's configuration, and all ports for clients use TLS.
 */
export class Stack {
  readonly folder: string
  readonly repository: GitRepository
  readonly #processes: Processes
  readonly #options: StackOptions
  readonly #ports: { agents: number; ops: number; rails: number; kubernetes: number; replicas: number; gossip: number }
  #kas: TestProcess | undefined

  private constructor(
    components: { processes: Processes; repository: GitRepository },
    ports: number[],
    options: StackOptions & { folder: string },
  ) {
    this.#processes = components.processes
    this.repository = components.repository
    this.#options = options
    this.folder = options.folder
    const [agents, ops, rails, kubernetes, replicas, gossip] = ports as [number, number, number, number, number, number]
    this.#ports = { agents, ops, rails, kubernetes, replicas, gossip }
  }

  /** Resolves when kas is ready; no agent is connected then. */
  static async start(processes: Processes, options: StackOptions): Promise<Stack> {
    const folder = join(processes.folder, 'stack')
    await mkdir(folder)
    const repository = await GitRepository.create(folder, 'clusters')
    await repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify(agentConfiguration))
    const stack = new Stack({ processes, repository }, await freePorts(6), { ...options, folder })
    await stack.#writeFiles()
    await stack.startKas()
    return stack
  }

  /** URL of the Kubernetes API through the agent. */
  get kubernetesUrl(): string {
    return `https://127.0.0.1:${this.#ports.kubernetes}`
  }
  get opsUrl(): string {
    return `http://127.0.0.1:${this.#ports.ops}`
  }
  /** Address for agentk's `--kas-address`. */
  get agentsUrl(): string {
    return `${this.scheme}://127.0.0.1:${this.#ports.agents}`
  }
  get scheme(): 'grpc' | 'grpcs' | 'ws' | 'wss' {
    return this.#options.scheme ?? 'wss'
  }
  /** Path of the certificate of the authority that signed kas' certificates. */
  get caFile(): string {
    return join(this.folder, 'ca.crt')
  }
  /** Path of kas' directory file. */
  get directoryFile(): string {
    return join(this.folder, 'directory.yaml')
  }
  get kas(): TestProcess {
    if (!this.#kas) throw new Error('kas has not been started')
    return this.#kas
  }

  /** Returns the path of a kubeconfig that goes through kas. */
  kubeconfig(identity: Identity): string {
    return join(this.folder, `${identity}.kubeconfig`)
  }

  /** Starts kas (again) on its ports; resolves when it is ready. */
  async startKas(): Promise<TestProcess> {
    const args = [mainOf('kas'), `--configuration-file=${join(this.folder, 'kas.yaml')}`]
    const kas = await this.#processes.spawn({ command: process.execPath, args, folder: this.folder })
    this.#kas = kas
    await this.#ready(kas, `${this.opsUrl}/readiness`)
    return kas
  }

  /** Resolves when the pod is connected. */
  async startAgentk(options: AgentkOptions = {}): Promise<TestProcess> {
    const { pod = 'agentk-0', address = this.agentsUrl, kubeconfig = this.#options.agentKubeconfig } = options
    const { tokenFile = join(this.folder, 'agent-token') } = options
    const [port] = await freePorts(1)
    const args = [
      options.main ?? mainOf('agentk'),
      `--kas-address=${address}`,
      `--token-file=${tokenFile}`,
      `--ca-cert-file=${this.caFile}`,
      `--kubeconfig=${kubeconfig}`,
      `--observability-listen-address=127.0.0.1:${port}`,
      ...(options.args ?? agentkFlags),
    ]
    const environment = { POD_NAME: pod, POD_NAMESPACE: 'default', ...options.environment }
    const agentk = await this.#processes.spawn({ command: process.execPath, args, environment, folder: this.folder })
    await this.#ready(agentk, `http://127.0.0.1:${port}/readiness`)
    return agentk
  }

  /** Resolves when a call gets through: an agent is connected and its configuration is known. */
  async connected(options: { timeoutMs?: number } = {}): Promise<void> {
    const ca = await readFile(this.caFile, 'utf8')
    await eventually(
      async () => {
        const answer = await httpsGet(`${this.kubernetesUrl}/version`, { ca, token: bearerOf('agent') })
        if (answer.status !== 200) throw new Error(`no way to the cluster: ${answer.status} ${answer.body}`)
      },
      { timeoutMs: options.timeoutMs ?? 30_000 },
    )
  }

  /** Writes the directory file; kas notices it by itself. */
  async writeDirectory(directory: object): Promise<void> {
    await writeFile(this.directoryFile, JSON.stringify(directory), { mode: 0o600 })
  }

  /** Resolves when `url` answers 200; rejects when the program ends. */
  async #ready(program: TestProcess, url: string): Promise<void> {
    const ready = eventually(
      async () => {
        const answer = await fetch(url)
        if (answer.status !== 200) throw new Error(`not ready: ${answer.status} ${await answer.text()}`)
      },
      { timeoutMs: 30_000 },
    )
    const ended = program.exited.then((exit) => Promise.reject(new Error(`it ended: ${exit.code} ${exit.stderr}`)))
    ended.catch(() => undefined) // once ready, it may end whenever a test stops it
    await Promise.race([ready, ended])
  }

  async #writeFiles(): Promise<void> {
    const authority = await Authority.create('stack')
    const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    const write = (name: string, content: string) => writeFile(join(this.folder, name), content, { mode: 0o600 })
    await write('ca.crt', authority.certificate)
    await write('serving.crt', serving.certificate)
    await write('serving.key', serving.key)
    await write('agent-token', agentToken)
    await write('secret', Buffer.alloc(32, 7).toString('base64'))
    await write('websocket', Buffer.alloc(72, 7).toString('base64'))
    await write('kas.yaml', JSON.stringify(this.#configuration()))
    await this.writeDirectory(directoryFile(this.repository.path))
    for (const identity of identities) {
      const user = { token: bearerOf(identity) }
      await write(`${identity}.kubeconfig`, kubeconfigText({ server: this.kubernetesUrl, caFile: this.caFile, user }))
    }
    await chmod(this.folder, 0o700)
  }

  #configuration(): object {
    const { agents, ops, rails, kubernetes, replicas, gossip } = this.#ports
    const tls = { certificate_file: join(this.folder, 'serving.crt'), key_file: join(this.folder, 'serving.key') }
    const secret = { authentication_secret_file: join(this.folder, 'secret') }
    const at = (port: number) => ({ address: `127.0.0.1:${port}` })
    const agentTls = this.scheme === 'grpcs' || this.scheme === 'wss' ? tls : {}
    const websocket = this.scheme === 'ws' || this.scheme === 'wss'
    return {
      agent: {
        listen: { ...at(agents), ...agentTls, websocket },
        kubernetes_api: {
          listen: { ...at(kubernetes), ...tls, shutdown_grace_period: '10s' },
          websocket_token_secret_file: join(this.folder, 'websocket'),
        },
      },
      api: { listen: { ...at(rails), ...secret } },
      private_api: { listen: { ...at(replicas), ...secret } },
      directory: { file: this.directoryFile },
      cluster: { name: 'kas-0', listen: at(gossip) },
      ...this.#options.configuration,
      observability: { listen: at(ops), ...this.#options.configuration?.observability },
    }
  }
}
