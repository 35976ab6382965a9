import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { Program } from '../../dev/control-plane/program.ts'
import { Warden } from '../../dev/control-plane/warden.ts'
import { kasProgram } from '../../dev/start/local-programs.ts'
import type { Ports } from '../../dev/start/ports.ts'
import { untilOk } from '../../dev/start/readiness.ts'
import { files, replicaName, type Settings, writeSettings } from '../../dev/start/settings.ts'
import { FarPort } from '../support/far-port.ts'
import { testPrograms } from '../support/programs.ts'
import { agentkProgram } from './agentk-program.ts'
import { Kube } from './kube.ts'
import type { Scheme } from './soak-options.ts'

const readyTimeoutMs = 60_000

export interface GroundOptions {
  /** absolute path; names the cluster and agentk's account */
  readonly kubeconfig: string
  /** scheme of agentk's connection to kas; both carry TLS. Default `wss` */
  readonly scheme?: Scheme
  /** network delay from agentk to kas and back. Default: none */
  readonly roundTripMs?: number
}

/** bytes */
export interface ResidentMemory {
  readonly kas: number
  readonly agentk: number
}

/**
 * The real kas and one real agentk as processes of their own, with TLS on all connections. They end when this process
 * does.
 */
export class Ground {
  /** a client of the cluster through kas and agentk */
  readonly kube: Kube
  readonly #options: GroundOptions
  readonly #warden: Warden
  readonly #ports: Ports
  readonly #folder: string
  readonly #kas: Program
  #agentk: Program | undefined
  #far: FarPort | undefined

  private constructor(parts: { warden: Warden; folder: string; ports: Ports; kube: Kube }, options: GroundOptions) {
    this.#warden = parts.warden
    this.#folder = parts.folder
    this.#ports = parts.ports
    this.kube = parts.kube
    this.#options = options
    this.#kas = kasProgram({ ...parts, programs: testPrograms }, replicaName(0))
  }

  /**
   * Resolves when a call has gone through to the cluster. The tunnels are fresh then: agentk's least number, all idle.
   */
  static async start(options: GroundOptions, signal: AbortSignal): Promise<Ground> {
    const folder = await mkdtemp(join(tmpdir(), 'soak-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const authority = await Authority.create('kas soak')
    const ports = await choosePorts()
    const settings = await writeSettings({ folder, ports, authority })
    const kube = createKube(ports, authority, settings)
    const ground = new Ground({ warden, folder, ports, kube }, options)
    try {
      await ground.#start(AbortSignal.any([signal, AbortSignal.timeout(readyTimeoutMs)]))
    } catch (error) {
      const logs = await ground.#logTails()
      await ground.stop()
      throw new Error(`kas and agentk did not become ready: ${logs}`, { cause: error })
    }
    return ground
  }

  get residentMemory(): Promise<ResidentMemory> {
    return Promise.all([residentBytes(this.#kas), residentBytes(this.#agentk)]).then(([kas, agentk]) => ({
      kas,
      agentk,
    }))
  }

  /** Replaces the running agentk by a new process. */
  async restartAgentk(signal: AbortSignal): Promise<void> {
    await this.#agentk?.stop()
    const agentk = this.#agentkProgram()
    this.#agentk = agentk
    await agentk.start()
    const ready = AbortSignal.any([signal, endOf(agentk)])
    await untilOk({ url: `http://127.0.0.1:${this.#ports.agentkOps}/readiness` }, ready)
  }

  /** agentk's idle tunnels, by its own metric. */
  async idleTunnels(): Promise<number> {
    const answer = await fetch(`http://127.0.0.1:${this.#ports.agentkOps}/metrics`)
    return Number(/^agentk_tunnels_idle (\d+)$/m.exec(await answer.text())?.[1])
  }

  /** Ends the programs, and removes the files. */
  async stop(): Promise<void> {
    this.kube.close()
    await this.#agentk?.stop()
    this.#far?.stop()
    await this.#kas.stop()
    await this.#warden.stop()
  }

  async #start(signal: AbortSignal): Promise<void> {
    await this.#kas.start()
    const ready = AbortSignal.any([signal, endOf(this.#kas)])
    await untilOk({ url: `http://127.0.0.1:${this.#ports.replicas[0]?.ops}/readiness` }, ready)
    const { roundTripMs = 0 } = this.#options
    if (roundTripMs > 0) this.#far = await FarPort.start(this.#ports.agents, roundTripMs)
    await this.restartAgentk(signal)
    const { server, ca, credential } = this.kube.options
    await untilOk({ url: `${server}/version`, ca, headers: { authorization: `Bearer ${credential}` } }, signal)
    await this.restartAgentk(signal) // that call made the first one open more tunnels
  }

  #agentkProgram(): Program {
    const { kubeconfig, scheme = 'wss' } = this.#options
    const { agents, agentkOps: opsPort } = this.#ports
    const kasPort = this.#far?.port ?? agents
    return agentkProgram(
      { warden: this.#warden },
      { folder: this.#folder, kubeconfig, scheme, kasPort, opsPort, podName: 'agentk-soak', logFile: files.agentkLog },
    )
  }

  async #logTails(): Promise<string> {
    return `${await this.#kas.tail()}\n${(await this.#agentk?.tail()) ?? ''}`
  }
}

/** A signal that aborts once the program has ended, since it cannot become ready then. */
function endOf(program: Program): AbortSignal {
  const ended = new AbortController()
  void program.exited.then(() => ended.abort(new Error(`${program.name} ended by itself`)))
  return ended.signal
}

async function choosePorts(): Promise<Ports> {
  const [agents, ops, rails, kubernetes, replicas, gossip, agentkOps] = (await freePorts(7)) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  return { agents, kubernetes, agentkOps, replicas: [{ agents, ops, rails, kubernetes, replicas, gossip }] }
}

function createKube(ports: Ports, authority: Authority, settings: Settings): Kube {
  const server = `https://127.0.0.1:${ports.kubernetes}`
  return new Kube({ server, ca: authority.certificate, credential: settings.userCredential })
}

/** @throws Error if the program does not run */
async function residentBytes(program: Program | undefined): Promise<number> {
  if (program?.pid === undefined) throw new Error(`${program?.name ?? 'a program'} does not run`)
  const status = await readFile(`/proc/${program.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}
