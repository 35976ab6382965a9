import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Service } from '../../src/lib/service.ts'
import { abortable } from '../../src/lib/signals.ts'
import { Authority } from '../certificates.ts'
import type { Program } from '../control-plane/program.ts'
import { Warden } from '../control-plane/warden.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { agentkProgram, kasProgram } from './local-programs.ts'
import type { Ports } from './ports.ts'
import { untilOk } from './readiness.ts'
import { files, writeKubeconfig, writeSettings } from './settings.ts'

export interface LocalStackOptions {
  /** its state folder, claimed */
  readonly folder: string
  readonly ports: Ports
  /** what `--kubeconfig` names */
  readonly kubeconfig: string | undefined
  /** what KUBEBUILDER_ASSETS names */
  readonly assets: string | undefined
  /** told what is being done, for the screen */
  readonly onStep?: (text: string) => void
}

const readyTimeoutMs = 60_000
/** What each part may take to stop before it is killed. */
const stopTimeoutMs = 5_000
const shownLogLines = 12

/** A cluster, kas and one agentk, each with its log in the state folder; the parts end when this process does. */
export class LocalStack implements Service {
  readonly #options: LocalStackOptions
  readonly #warden = new Warden()
  readonly #programs: { name: string; program: Program; log: string }[] = []
  readonly #failed = Promise.withResolvers<never>()
  #cluster: Cluster | undefined
  #stopping = false

  constructor(options: LocalStackOptions) {
    this.#options = options
    this.#failed.promise.catch(() => undefined) // told to those who wait for it
  }

  /** Rejects when kas or agentk ends by itself, with its name and its last lines. */
  get failed(): Promise<never> {
    return this.#failed.promise
  }

  /** Once started. */
  get cluster(): Cluster {
    if (!this.#cluster) throw new Error('the cluster has not been started')
    return this.#cluster
  }

  /** Resolves when a call has gone all the way to the cluster and back. */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const { folder, ports, kubeconfig, assets, onStep = () => undefined } = this.#options
    await this.#warden.start()
    const authority = await Authority.create('kas npm start')
    const inputs = { folder, ports, authority, warden: this.#warden }
    const settings = await writeSettings(inputs)
    onStep('the cluster')
    this.#cluster = await startCluster({ kubeconfig, assets, folder, authority })
    signal.throwIfAborted()
    onStep('kas')
    await this.#startProgram('kas', kasProgram(inputs), files.kasLog)
    await this.#ready({ url: `http://127.0.0.1:${ports.ops}/readiness` }, signal)
    onStep('agentk')
    await this.#startProgram('agentk', agentkProgram(inputs, this.#cluster), files.agentkLog)
    const headers = { Authorization: `Bearer ${settings.userCredential}` }
    const url = `https://127.0.0.1:${ports.kubernetes}/version`
    await this.#ready({ url, ca: authority.certificate, headers }, signal)
    await writeKubeconfig(inputs, settings)
  }

  /**
   * Ends all parts, kas first: it cuts calls that go on for ever after a second, and then agentk has none left to wait
   * for. The state folder stays if `keepFolder` says so, for its logs.
   */
  async stop(patience?: AbortSignal, options: { keepFolder?: boolean } = {}): Promise<void> {
    this.#stopping = true
    const limit = () => AbortSignal.any([AbortSignal.timeout(stopTimeoutMs), ...(patience ? [patience] : [])])
    for (const { program } of this.#programs.splice(0)) await program.stop(limit())
    await this.#cluster?.stop(limit())
    this.#cluster = undefined
    await this.#warden.stop()
    if (!options.keepFolder) await rm(this.#options.folder, { recursive: true, force: true })
  }

  async #startProgram(name: string, program: Program, logName: string): Promise<void> {
    const log = join(this.#options.folder, logName)
    await program.start()
    this.#programs.push({ name, program, log })
    void program.exited.then(async () => {
      if (this.#stopping) return
      const lines = (await readFile(log, 'utf8').catch(() => '')).trimEnd().split('\n').slice(-shownLogLines)
      this.#failed.reject(new Error(`${name} ended by itself. The end of ${log}:\n\n${lines.join('\n')}`))
    })
  }

  #ready(question: Parameters<typeof untilOk>[0], signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const limit = AbortSignal.any([signal, ended.signal, AbortSignal.timeout(readyTimeoutMs)])
    const answered = untilOk(question, limit)
    answered.catch(() => undefined) // when a program ended first, that is the failure to tell
    return abortable(Promise.race([answered, this.failed]), signal).finally(() => ended.abort())
  }
}
