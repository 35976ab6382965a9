import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { askSocket } from './ask-socket.ts'
import { eventually } from './eventually.ts'
import { type Identity, identities } from './kubectl-side.ts'
import type { Processes, TestProcess } from './processes.ts'
import { mainOf } from './programs.ts'
import type { Stack } from './stack.ts'
import { agentId, bearerOf } from './stack-directory.ts'

const name = 'kas-1'

/** A second kas beside that of a stack, with its directory and secret; no agent dials it. */
export class EntryReplica {
  readonly kas: TestProcess
  readonly kubernetesUrl: string
  /** paths */
  readonly kubeconfigs: Readonly<Record<Identity, string>>
  /** path of its `ops.socket` */
  readonly socket: string

  private constructor(at: {
    kas: TestProcess
    kubernetesUrl: string
    kubeconfigs: Record<Identity, string>
    socket: string
  }) {
    this.kas = at.kas
    this.kubernetesUrl = at.kubernetesUrl
    this.kubeconfigs = at.kubeconfigs
    this.socket = at.socket
  }

  /** Resolves once it is ready and knows that the other one holds the agent. */
  static async start(processes: Processes, stack: Stack): Promise<EntryReplica> {
    const folder = join(processes.folder, name)
    await mkdir(folder)
    const [agents, ops, rails, kubernetes, replicas, gossip] = (await freePorts(6)) as [
      number,
      number,
      number,
      number,
      number,
      number,
    ]
    const at = (port: number) => ({ address: `127.0.0.1:${port}` })
    const socket = join(folder, 'ops.sock')
    const other = JSON.parse(await readFile(join(stack.folder, 'kas.yaml'), 'utf8'))
    const { listen: agentListen, kubernetes_api: proxy } = other.agent
    const configuration = {
      ...other,
      agent: {
        listen: { ...agentListen, ...at(agents) },
        kubernetes_api: { ...proxy, listen: { ...proxy.listen, ...at(kubernetes) } },
      },
      observability: { ...other.observability, listen: at(ops) },
      api: { listen: { ...other.api.listen, ...at(rails) } },
      private_api: { listen: { ...other.private_api.listen, ...at(replicas) } },
      cluster: { name, listen: at(gossip), discovery: { static: [other.cluster.listen.address] } },
      ops: { socket },
    }
    const configurationFile = join(folder, 'kas.yaml')
    await writeFile(configurationFile, JSON.stringify(configuration), { mode: 0o600 })
    const args = [mainOf('kas'), `--configuration-file=${configurationFile}`]
    const kas = await processes.spawn({ command: process.execPath, args, folder })
    const kubernetesUrl = `https://127.0.0.1:${kubernetes}`
    const kubeconfigs = await writeKubeconfigs({ folder, server: kubernetesUrl, caFile: stack.caFile })
    const entry = new EntryReplica({ kas, kubernetesUrl, kubeconfigs, socket })
    await eventually(
      async () => {
        const holders = await entry.holders()
        if (holders.join() !== other.cluster.name) throw new Error(`held by ${holders.join(' and ') || 'none'}`)
      },
      { timeoutMs: 30_000 },
    )
    return entry
  }

  /** Names of the replicas that hold the agent, as this one knows them. @throws Error while it is not ready */
  async holders(): Promise<string[]> {
    const { replica, agents } = (await askSocket(this.socket, `/status?agent=${agentId}`)) as StatusReport
    if (replica.problem !== undefined) throw new Error(replica.problem)
    return agents[0]?.holders.map((holder) => holder.name) ?? []
  }
}

async function writeKubeconfigs(options: { folder: string; server: string; caFile: string }) {
  const { folder, server, caFile } = options
  const write = async (identity: Identity) => {
    const path = join(folder, `${identity}.kubeconfig`)
    const content = kubeconfigText({ server, caFile, user: { token: bearerOf(identity) } })
    await writeFile(path, content, { mode: 0o600 })
    return [identity, path] as const
  }
  return Object.fromEntries(await Promise.all(identities.map(write))) as Record<Identity, string>
}
