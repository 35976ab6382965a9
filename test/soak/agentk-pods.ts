import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import type { Program } from '../../dev/control-plane/program.ts'
import { agent } from '../../dev/start/settings.ts'
import { agentkProgram } from './agentk-program.ts'
import type { AgentPlace } from './rolling/rolling-ground.ts'

const leaseOfAgent = `/apis/coordination.k8s.io/v1/namespaces/default/leases/agent-${agent.id}-lock`

/** One pod of agentk as a process, which can be killed and started again under its name. */
export class AgentkPod {
  readonly name: string
  readonly #place: AgentPlace
  readonly #opsPort: number
  #program: Program | undefined

  constructor(place: AgentPlace, { name, opsPort }: { name: string; opsPort: number }) {
    this.name = name
    this.#place = place
    this.#opsPort = opsPort
  }

  async start(): Promise<void> {
    const { name: podName } = this
    const { warden, ...place } = this.#place
    const options = { ...place, scheme: 'wss', opsPort: this.#opsPort, podName, logFile: `${podName}.log` } as const
    this.#program = agentkProgram({ warden }, options)
    await this.#program.start()
  }

  /** Resolves when the current process has ended. */
  get exited(): Promise<void> {
    return this.#program?.exited ?? Promise.resolve()
  }

  signal(signal: NodeJS.Signals): void {
    this.#program?.signal(signal)
  }

  async stop(): Promise<void> {
    this.signal('SIGCONT')
    await this.#program?.stop()
  }
}

/** The pod whose name is in the Lease. */
export async function leadingPod(admin: ApiClient, pods: readonly AgentkPod[]): Promise<AgentkPod> {
  const { spec } = await admin.get(leaseOfAgent)
  const pod = pods.find(({ name }) => spec.holderIdentity?.startsWith(`${name}_`))
  if (!pod) throw new Error(`${spec.holderIdentity} leads, and is none of ours`)
  return pod
}
