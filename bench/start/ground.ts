import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import type { Program } from '../../dev/control-plane/program.ts'
import { Warden } from '../../dev/control-plane/warden.ts'
import { type Cluster, startCluster } from '../../dev/start/cluster.ts'
import { agentkProgram, type Programs } from '../../dev/start/local-programs.ts'
import { LocalReplica } from '../../dev/start/local-replica.ts'
import { anyPorts, type Ports, replicaCount } from '../../dev/start/ports.ts'
import { replicaName, writeSettings } from '../../dev/start/settings.ts'
import { delay } from '../../src/lib/signals.ts'
import { cpuSeconds } from '../support/programs.ts'

/** interval of readiness checks: a figure may be too long by this. ms */
const askEveryMs = 5
const readyTimeoutMs = 60_000

/** Figures from the start of a process to its readiness. */
export interface Started {
  readonly ms: number
  /** user and system time of the process */
  readonly cpuMs: number
}

/** Settings of three replicas and one agentk in a folder of their own, with the embedded API double as cluster. */
export class Ground {
  readonly replicas: readonly LocalReplica[]
  readonly folder: string
  readonly #agentk: Program
  readonly #agentkPort: number
  readonly #cluster: Cluster
  readonly #warden: Warden

  private constructor(
    parts: { folder: string; warden: Warden; cluster: Cluster },
    { ports, programs }: { ports: Ports; programs: Programs },
  ) {
    const { folder, warden, cluster } = parts
    this.folder = folder
    this.#warden = warden
    this.#cluster = cluster
    this.replicas = ports.replicas.map(
      (own, i) => new LocalReplica({ warden }, { name: replicaName(i), folder, ports: own, programs }),
    )
    this.#agentk = agentkProgram(
      { warden, folder, ports: { ...ports, agents: firstOf(ports).agents }, programs },
      cluster,
    )
    this.#agentkPort = ports.agentkOps
  }

  /** @param views - true: agentk keeps the cluster's objects for views, in a thread of its own */
  static async create(programs: Programs, { views = false } = {}): Promise<Ground> {
    const folder = await mkdtemp(join(tmpdir(), 'kas-start-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const ports = await anyPorts(replicaCount)
    const authority = await Authority.create('kas bench start')
    await writeSettings({ folder, ports, authority, views })
    const cluster = await startCluster({ kubeconfig: undefined, assets: undefined, folder, authority })
    return new Ground({ folder, warden, cluster }, { ports, programs })
  }

  /** Starts the replica; resolves when it is ready. */
  startReplica(replica: LocalReplica): Promise<Started> {
    return started(replica, replica.ports.ops)
  }

  /** Starts agentk; resolves when it has a connection to the first replica. */
  startAgentk(): Promise<Started> {
    return started(this.#agentk, this.#agentkPort)
  }

  get agentkPid(): number | undefined {
    return this.#agentk.pid
  }

  async stopPrograms(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.stop(AbortSignal.timeout(readyTimeoutMs))))
    await this.#agentk.stop(AbortSignal.timeout(readyTimeoutMs))
  }

  async stop(): Promise<void> {
    await this.stopPrograms()
    await this.#cluster.stop(AbortSignal.abort())
    await this.#warden.stop()
    await rm(this.folder, { recursive: true, force: true })
  }
}

/** Returns the resident memory of a process, in MiB. */
export function rssMiB(pid: number | undefined): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) / 1024
}

function firstOf({ replicas }: Ports): Ports['replicas'][number] {
  const [first] = replicas
  if (!first) throw new Error('a ground without replicas')
  return first
}

/** @param port - port of the program's probes */
async function started(program: Pick<Program, 'start' | 'pid'>, port: number): Promise<Started> {
  const limit = AbortSignal.timeout(readyTimeoutMs)
  const begun = performance.now()
  await program.start()
  while (!(await isReady(port))) await delay(askEveryMs, limit)
  const ms = performance.now() - begun
  if (program.pid === undefined) throw new Error('a program ended as soon as it was ready')
  return { ms, cpuMs: cpuSeconds(program.pid) * 1000 }
}

function isReady(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const asked = get({ host: '127.0.0.1', port, path: '/readiness', agent: false }, (response) => {
    response.resume()
    resolve(response.statusCode === 200)
  })
  asked.once('error', () => resolve(false))
  return promise
}
