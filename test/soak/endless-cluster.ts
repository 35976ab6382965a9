import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { Program } from '../../dev/control-plane/program.ts'
import { Warden } from '../../dev/control-plane/warden.ts'
import { untilOk } from '../../dev/start/readiness.ts'
import type { EndlessApiOptions, EndlessApiStats } from './endless-api.ts'
import { Kube } from './kube.ts'

const main = join(import.meta.dirname, 'endless-api.ts')
const readyTimeoutMs = 30_000

/** An API double with an endless log, as a process of its own. */
export class EndlessCluster {
  /** absolute path */
  readonly kubeconfig: string
  readonly #direct: Kube
  readonly #program: Program
  readonly #warden: Warden

  private constructor(parts: { kubeconfig: string; direct: Kube; program: Program; warden: Warden }) {
    this.kubeconfig = parts.kubeconfig
    this.#direct = parts.direct
    this.#program = parts.program
    this.#warden = parts.warden
  }

  static async start(): Promise<EndlessCluster> {
    const folder = await mkdtemp(join(tmpdir(), 'endless-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const [port] = (await freePorts(1)) as [number]
    const authority = await Authority.create('endless')
    const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    const options: EndlessApiOptions = {
      port,
      certificateFile: join(folder, 'tls.crt'),
      keyFile: join(folder, 'tls.key'),
    }
    const server = `https://127.0.0.1:${port}`
    const kubeconfig = join(folder, 'kubeconfig')
    await writeFile(options.certificateFile, serving.certificate)
    await writeFile(options.keyFile, serving.key, { mode: 0o600 })
    const content = kubeconfigText({ server, authority: authority.certificate, user: { token: 'any' } })
    await writeFile(kubeconfig, content, { mode: 0o600 })
    const args = [main, JSON.stringify(options)]
    const program = new Program(
      { warden },
      { command: process.execPath, args, folder, logFile: join(folder, 'endless-api.log') },
    )
    const direct = new Kube({ server, ca: authority.certificate, credential: 'any' })
    const cluster = new EndlessCluster({ kubeconfig, direct, program, warden })
    try {
      await program.start()
      await untilOk({ url: `${server}/stats`, ca: authority.certificate }, AbortSignal.timeout(readyTimeoutMs))
    } catch (error) {
      await cluster.stop()
      throw error
    }
    return cluster
  }

  async stats(): Promise<EndlessApiStats> {
    return JSON.parse((await this.#direct.ask('/stats')).body)
  }

  async stop(): Promise<void> {
    this.#direct.close()
    await this.#program.stop(AbortSignal.abort())
    await this.#warden.stop()
  }
}
