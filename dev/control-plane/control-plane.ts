import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { appendFile, mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import type { Service } from '../../src/lib/service.ts'
import { delay } from '../../src/lib/signals.ts'
import { ApiClient } from './api-client.ts'
import { missingAssets, type Parts } from './assets.ts'
import { ControlPlaneFiles, kubeletClient } from './control-plane-files.ts'
import {
  type ApiServerFlags,
  apiServerFlags,
  controllerManagerFlags,
  etcdFlags,
  type KubeletFlags,
  kubeletFlags,
  schedulerFlags,
} from './control-plane-flags.ts'
import { freePorts } from './free-ports.ts'
import { KubeletFront } from './kubelet-front.ts'
import { Program } from './program.ts'
import { signServiceAccountToken, type TokenOptions } from './service-account.ts'
import { kubeletConfiguration, logLine, newContainer, node, nodeName } from './simulated-kubelet.ts'
import { Warden } from './warden.ts'

export interface ControlPlaneOptions {
  /** folder of the programs, by convention the value of KUBEBUILDER_ASSETS */
  assets: string
  parts: Parts
  /** default: a free one */
  apiPort?: number
  goawayChance?: number
  /** absolute path of a file of all requests to the API server, one JSON object a line */
  auditLogFile?: string
  /** more flags of kube-apiserver */
  flags?: readonly string[]
  /** more flags of kube-controller-manager */
  controllerFlags?: readonly string[]
  /** keeps the folder with its logs; default false */
  keepFolder?: boolean
  /** default 90 s */
  readyTimeoutMs?: number
}

export interface Restart {
  /** `rotate`: with a new key and certificate from the same authority */
  certificates?: 'rotate'
  /** replace the earlier flags */
  flags?: readonly string[]
  goawayChance?: number
  /** stops it by SIGKILL: clients see their connections cut, not ended */
  abruptly?: boolean
}

/** pause between two requests to a server that does not listen yet. ms */
const readyRetryMs = 50
const maxKubeletStarts = 3
/** text in the last log lines of a kwok that this race has ended */
const kwokRace = /easycel\.\(\*Registry\)\.RegisterType/

/**
 * A real Kubernetes API server with its store on loopback. Parts `all` add controllers, a scheduler and one simulated
 * node whose pods run at once. There `exec` runs its command on this machine, `logs` and `attach` read one file, and
 * `port-forward` reaches one small HTTP server. All of it ends with this process, however that ends.
 */
export class ControlPlane implements Service {
  readonly #options: ControlPlaneOptions
  readonly #programs: Program[] = []
  #files: ControlPlaneFiles | undefined
  #warden: Warden | undefined
  #client: ApiClient | undefined
  #apiServer: Program | undefined
  #apiServerFlags: ApiServerFlags | undefined
  #podServer: Server | undefined
  #kubeletFront: KubeletFront | undefined
  #server = ''

  constructor(options: ControlPlaneOptions) {
    this.#options = options
  }

  /** Names of missing programs that it needs. */
  missing(): string[] {
    return missingAssets(this.#options.assets, this.#options.parts)
  }

  /** URL of the API server */
  get server(): string {
    return this.#server
  }
  /** path of a kubeconfig of an administrator */
  get kubeconfig(): string {
    return this.#started.path('admin.kubeconfig')
  }
  get caFile(): string {
    return this.#started.path('ca.crt')
  }
  get adminCertificateFile(): string {
    return this.#started.path('admin.crt')
  }
  get adminKeyFile(): string {
    return this.#started.path('admin.key')
  }
  /** folder of all files, with logs as `<program>.log` */
  get folder(): string {
    return this.#started.folder
  }
  /** working folder of commands of `exec` and `cp` */
  get podFolder(): string {
    return this.#started.path('pod')
  }
  /** client of an administrator */
  get admin(): ApiClient {
    if (!this.#client) throw new Error('the control plane has not been started')
    return this.#client
  }
  /** id of kube-apiserver; undefined while it does not run */
  get apiServerPid(): number | undefined {
    return this.#apiServer?.pid
  }

  async start(): Promise<void> {
    const missing = this.missing()
    if (missing.length > 0) throw new Error(`${this.#options.assets} lacks ${missing.join(', ')}`)
    try {
      await this.#start(AbortSignal.timeout(this.#options.readyTimeoutMs ?? 90_000))
    } catch (error) {
      await this.stop(AbortSignal.abort())
      throw error
    }
  }

  /** Ends all programs in order; kills those that are left when `patience` aborts, or after 5 s each. */
  async stop(patience?: AbortSignal): Promise<void> {
    this.#podServer?.close()
    this.#podServer?.closeAllConnections()
    await this.#kubeletFront?.stop()
    const [etcd, ...others] = this.#programs.splice(0)
    await Promise.all(others.map((program) => program.stop(patience)))
    await this.#apiServer?.stop(patience)
    this.#apiServer = undefined
    await etcd?.stop(patience)
    this.#client?.close()
    await this.#warden?.stop()
  }

  /** Stops kube-apiserver and starts it again on its port with its data; resolves when it is ready. */
  async restartApiServer(restart: Restart = {}): Promise<void> {
    if (!this.#apiServerFlags) throw new Error('the control plane has not been started')
    await this.#apiServer?.stop(restart.abruptly ? AbortSignal.abort() : undefined)
    if (restart.certificates === 'rotate') await this.#started.writeServingCertificate()
    this.#apiServerFlags = {
      ...this.#apiServerFlags,
      ...(restart.flags && { flags: restart.flags }),
      ...(restart.goawayChance !== undefined && { goawayChance: restart.goawayChance }),
    }
    await this.#startApiServer(AbortSignal.timeout(this.#options.readyTimeoutMs ?? 90_000))
  }

  /** Writes a new key and certificate while the API server runs; resolves when new connections get it. */
  async rotateServingCertificate(): Promise<void> {
    const { certificate } = await this.#started.writeServingCertificate()
    const serial = new X509Certificate(certificate).serialNumber
    const signal = AbortSignal.timeout(90_000) // it checks at least once a minute
    while ((await this.#shownSerial()) !== serial) await delay(readyRetryMs, signal)
  }

  /** Sends a signal: SIGSTOP freezes it, and SIGCONT thaws it. */
  signalApiServer(signal: NodeJS.Signals): void {
    this.#apiServer?.signal(signal)
  }

  /** Returns a service account token with any lifetime. */
  signToken(options: TokenOptions): string {
    return signServiceAccountToken(this.#started.accountsKey, options)
  }

  /** Adds a line to the log that `kubectl logs` and `attach` show for every pod. */
  async writeLogLine(line: string): Promise<void> {
    await appendFile(this.#started.path('pod.log'), logLine(line))
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { assets, parts, keepFolder, apiPort } = this.#options
    const folder = await mkdtemp(join(tmpdir(), 'control-plane-'))
    this.#warden = new Warden({ folders: keepFolder ? [] : [folder] })
    await this.#warden.start()
    const [freePort, kubeletPort] = (await freePorts(2)) as [number, number]
    const port = apiPort ?? freePort
    this.#server = `https://127.0.0.1:${port}`
    this.#files = new ControlPlaneFiles({ folder, server: this.#server })
    await this.#files.write()
    const { certificate, key } = this.#files.adminKeys
    this.#client = new ApiClient({ server: this.#server, ca: this.#files.ca, certificate, key })
    const { goawayChance, auditLogFile, flags } = this.#options
    this.#apiServerFlags = { port, goawayChance, auditLogFile, flags }
    await this.#startProgram(this.#program('etcd', join(assets, 'etcd'), etcdFlags()))
    await this.#startApiServer(signal)
    if (parts === 'all') await this.#startOthers(kubeletPort, signal)
  }

  async #startApiServer(signal: AbortSignal): Promise<void> {
    const flags = apiServerFlags(this.#apiServerFlags as ApiServerFlags)
    const program = this.#program('kube-apiserver', join(this.#options.assets, 'kube-apiserver'), flags)
    this.#apiServer = program
    await program.start()
    await this.#whileRunning(program, async () => {
      while (!(await this.#answersReady(signal))) await delay(readyRetryMs, signal)
      await this.admin.until('/api/v1/namespaces', (namespace) => namespace.metadata.name === 'default', signal)
    })
  }

  async #startOthers(kubeletPort: number, signal: AbortSignal): Promise<void> {
    const { assets } = this.#options
    await this.admin.create('/api/v1/nodes', node)
    const container = newContainer()
    await this.#writeKubeletConfiguration(container)
    const { servingKeys: serving, ca } = this.#started
    const front = new KubeletFront({ serving, ca, client: kubeletClient, kubeletPort, container })
    this.#kubeletFront = front
    await front.start()
    const controllers = this.#program(
      'kube-controller-manager',
      join(assets, 'kube-controller-manager'),
      controllerManagerFlags(this.#options.controllerFlags),
    )
    const scheduler = this.#program('kube-scheduler', join(assets, 'kube-scheduler'), schedulerFlags())
    for (const program of [controllers, scheduler]) await this.#startProgram(program)
    await this.#startKubelet({ frontPort: front.port, port: kubeletPort }, signal)
    await this.#whileRunning(controllers, () =>
      this.admin.until('/api/v1/namespaces/default/serviceaccounts', isDefault, signal),
    )
  }

  /** Starts kwok, and again if it ends: at its start two threads fill a table of types, which sometimes ends it. */
  async #startKubelet(ports: KubeletFlags, signal: AbortSignal): Promise<void> {
    for (let starts = 1; ; starts++) {
      const kubelet = this.#program('kwok', join(this.#options.assets, 'kwok'), kubeletFlags(ports))
      await this.#startProgram(kubelet)
      try {
        await this.#whileRunning(kubelet, () => this.admin.until('/api/v1/nodes', isReadyNode, signal))
        return
      } catch (error) {
        if (starts === maxKubeletStarts || !kwokRace.test((error as Error).message)) throw error
      }
    }
  }

  async #writeKubeletConfiguration(container: string): Promise<void> {
    const server = createServer((request, answer) => {
      answer.end(`hello from the pod: ${request.method} ${request.url}\n`)
    })
    this.#podServer = server
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const text = kubeletConfiguration({
      container,
      podFolder: this.podFolder,
      logFile: this.#started.path('pod.log'),
      forwardPort: (server.address() as AddressInfo).port,
      environment: { IN_POD: 'yes', ...this.#warden?.environment },
    })
    await writeFile(this.#started.path('kwok.yaml'), text, { mode: 0o600 })
  }

  #program(name: string, command: string, args: string[]): Program {
    const folder = this.#started.folder
    const { PATH = '/usr/bin:/bin', GOGC } = process.env
    const environment = { PATH, HOME: folder, ...(GOGC && { GOGC }) } // and no proxies
    const options = { command, args, folder, environment, logFile: join(folder, `${name}.log`) }
    return new Program({ warden: this.#warden as Warden }, options)
  }

  async #startProgram(program: Program): Promise<void> {
    this.#programs.push(program)
    await program.start()
  }

  /**
   * Waits as `wait` does; rejects with the end of the program's log when the program ends first, or when `wait` fails.
   */
  async #whileRunning(program: Program, wait: () => Promise<unknown>): Promise<void> {
    const ended = program.exited.then(() => Promise.reject(new Error('it ended')))
    try {
      await Promise.race([wait(), ended])
    } catch (error) {
      throw new Error(`${program.name} did not become ready: ${await program.tail()}`, { cause: error })
    }
  }

  async #answersReady(signal: AbortSignal): Promise<boolean> {
    try {
      return (await this.admin.request('/readyz', { signal })).status === 200
    } catch (error) {
      if (signal.aborted) throw error
      return false // not listening yet
    }
  }

  async #shownSerial(): Promise<string | undefined> {
    const { hostname, port } = new URL(this.#server)
    const socket = connect({ host: hostname, port: Number(port), ca: this.#started.ca })
    try {
      await once(socket, 'secureConnect')
      return socket.getPeerX509Certificate()?.serialNumber
    } finally {
      socket.destroy()
    }
  }

  get #started(): ControlPlaneFiles {
    if (!this.#files) throw new Error('the control plane has not been started')
    return this.#files
  }
}

// biome-ignore lint/suspicious/noExplicitAny: an object of the API server
const isReadyNode = (object: any): boolean =>
  object.metadata.name === nodeName &&
  object.status.conditions?.some(
    (condition: { type: string; status: string }) => condition.type === 'Ready' && condition.status === 'True',
  )

// biome-ignore lint/suspicious/noExplicitAny: an object of the API server
const isDefault = (object: any): boolean => object.metadata.name === 'default'
