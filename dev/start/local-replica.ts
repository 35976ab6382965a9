import { join, resolve } from 'node:path'
import type { BalancedReplica } from '../balancer.ts'
import type { Program } from '../control-plane/program.ts'
import type { Warden } from '../control-plane/warden.ts'
import { kasProgram, type Programs } from './local-programs.ts'
import type { ReplicaPorts } from './ports.ts'
import { untilOk } from './readiness.ts'
import { replicaFiles } from './settings.ts'

export interface LocalReplicaOptions {
  readonly name: string
  readonly folder: string
  readonly ports: ReplicaPorts
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
}

/** One replica of kas as a process, which can be ended and started again under its name. */
export class LocalReplica {
  readonly name: string
  readonly ports: ReplicaPorts
  /** path of the log of all its processes */
  readonly log: string
  /** path of the socket for `kas status` */
  readonly socket: string
  readonly #warden: Warden
  readonly #folder: string
  readonly #programs: Programs | undefined
  #program: Program | undefined

  constructor(components: { warden: Warden }, options: LocalReplicaOptions) {
    this.#warden = components.warden
    this.name = options.name
    this.ports = options.ports
    this.#folder = options.folder
    this.#programs = options.programs
    const { log, socket } = replicaFiles(options.name)
    this.log = join(options.folder, log)
    this.socket = resolve(options.folder, socket)
  }

  get pid(): number | undefined {
    return this.#program?.pid
  }

  /** Resolves when the current process has ended. */
  get exited(): Promise<void> {
    return this.#program?.exited ?? Promise.resolve()
  }

  /** ports for a balancer with the fronts `agents`, `kubernetes` */
  get balanced(): BalancedReplica {
    const { agents, kubernetes, ops } = this.ports
    return { name: this.name, opsPort: ops, ports: [agents, kubernetes] }
  }

  async start(): Promise<void> {
    const inputs = { warden: this.#warden, folder: this.#folder, programs: this.#programs }
    this.#program = kasProgram(inputs, this.name)
    await this.#program.start()
  }

  /** Resolves once it is ready. @throws the signal's reason */
  ready(signal: AbortSignal): Promise<void> {
    return untilOk({ url: `http://127.0.0.1:${this.ports.ops}/readiness` }, signal)
  }

  /** Sends SIGTERM, and SIGKILL once `patience` aborts. */
  async stop(patience: AbortSignal): Promise<void> {
    await this.#program?.stop(patience)
  }

  signal(signal: NodeJS.Signals): void {
    this.#program?.signal(signal)
  }
}
